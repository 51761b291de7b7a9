// The state of a run: machine, clusters, blocks, warps, barriers and outstanding asynchronous work.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "program.h"
#include "shadow.h"

namespace sim {

constexpr uint64_t kSharedWindow = 0x7e00'0000'0000ull;  // generic addresses of shared::cluster
constexpr uint64_t kLocalWindow = 0x7d00'0000'0000ull;
constexpr uint64_t kParamWindow = 0x7c00'0000'0000ull;
constexpr uint64_t kConstWindow = 0x7b00'0000'0000ull;
constexpr uint64_t kWindowBytes = 0x0100'0000'0000ull;
constexpr uint32_t kRankShift = 24;      // shared memory of block rank r of a cluster starts at r << 24
constexpr uint32_t kSharedStart = 1024;  // the first kilobyte of it belongs to the system

enum Space : int { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

struct Block;
struct Cluster;
struct Machine;

struct GlobalBuffer {
  uint64_t address, size, guard;
  uint8_t *data;
  bool writable, initialised, tracked;
  const char *name;
  Shadow shadow;
};

struct TensorMap {
  int32_t im2col, dtype, element_bytes, rank, swizzle, interleave, nan_fill, channels, pixels;
  uint64_t address;
  uint64_t dims[5], strides[5];  // strides[0] is the element size
  uint32_t box[5], element_strides[5];
  int32_t lower[3], upper[3];
};

struct Finding {
  std::string kind, message;
  int inst, other;
  int block, warp, lane;
  uint64_t count;
};

// Lanes of one warp that share a program counter.
struct Group {
  uint32_t pc = 0;
  Mask mask = 0;
  bool blocked = false;
  bool arrived = false;      // this execution of a blocking instruction has done its arrival
  uint64_t seen = 0;         // the cluster's progress when it last tried
  uint64_t ticket = 0;       // what a blocking instruction remembers between tries
  std::string waiting;       // for the deadlock report
};

// One bulk-group of one thread: gone once waited for.
struct BulkGroup {
  int lane;
  uint32_t clock;            // 1, 2, ... for each thread
  bool committed = false;
  int reads = 0;             // operations that read shared memory, until a wait has covered them
  int inst = 0;
  std::vector<uint64_t> work;  // identities of operations in Cluster::pending
};

struct WgmmaIssue {
  const Inst *inst;
  uint64_t a, b;
  bool scale_d;
  uint32_t group;
};

struct Warp {
  Machine *m;
  Block *block;
  uint8_t *regs;
  const uint8_t *consts;
  uint32_t *preds;
  int index;                 // in the block
  Mask alive = 0;
  std::vector<Group> groups;
  Group *cur = nullptr;
  // What the last control instruction did.
  enum Status { kNext, kJump, kSplit, kBlock, kExit, kYield, kStop } status = kNext;
  uint32_t target = 0;
  Mask taken = 0;

  // happens-before
  Knowledge all, solo;
  bool solo_differs = false;
  uint16_t dim = 0;          // dim: several lanes; dim + 1: one lane; dim + 2: cp.async
  uint32_t clock = 1, solo_clock = 1;
  uint32_t copy_clock = 1, copy_done = 0;   // cp.async groups: the open one, the last waited for
  std::shared_ptr<Knowledge> fence_copy;    // what a fence at gpu scope made publishable
  std::shared_ptr<Knowledge> pending_acquire;

  // asynchronous work
  std::vector<std::pair<uint32_t, std::function<void()>>> copies;  // cp.async not yet done, with their group
  std::deque<BulkGroup> bulk;
  std::map<int, uint32_t> bulk_clock, bulk_dims;
  std::deque<WgmmaIssue> wgmma;
  uint32_t wgmma_group = 1, wgmma_issued = 0;   // the open group; operations issued
  std::vector<uint16_t> in_flight;              // by wgmma register index
  std::vector<uint8_t> dirty;
  uint32_t cluster_ticket = 0;                  // cluster barrier: generation + 1 while arrived and not waited
  int registers = 0;                            // a thread, by setmaxnreg; 0 before the first

  template <class T>
  const T *in(int slot) const {
    const uint8_t *base[2] = {regs, consts};
    return reinterpret_cast<const T *>(base[slot < 0] + (slot ^ (slot >> 31)));
  }
  template <class T>
  T *out(int slot) const { return reinterpret_cast<T *>(regs + slot); }
  bool lane_pred(int code, int lane) const { return ((preds[code >> 1] >> lane) ^ code) & 1; }
  Mask pred(int code) const { return code & 1 ? ~preds[code >> 1] : preds[code >> 1]; }
  void block_on(std::string why) {
    status = kBlock;
    cur->waiting = std::move(why);
  }
  int first_lane(Mask mask) const { return __builtin_ctz(mask); }
};

struct Mbarrier {
  uint32_t offset = 0;
  bool live = false;
  uint32_t expected = 0, pending = 0;
  int64_t tx = 0;
  uint32_t phase = 0;
  uint32_t observed_phase = 0;   // phases below this one have been waited for
  uint32_t bulk_phase = 0;       // 1 + the last phase that bulk loads counted in
  int last_tx = 0;               // instruction of the last expect or complete
  uint16_t dim = 0;
  Stamp init;
  bool fenced = false;
  Warp *creator = nullptr;
  Knowledge released, done;
};

struct NamedBarrier {
  uint32_t expected = 0, arrived = 0, generation = 0;
  bool whole = false;                           // counts the block's live warps, not a given number
  uint32_t count = 0, any = 0, all = 1;         // bar.red
  uint32_t last_count = 0, last_any = 0, last_all = 1;
  Knowledge released, done;
};

struct Block {
  Cluster *cluster;
  uint32_t id[3], linear, rank;
  std::vector<uint8_t> shared;
  Shadow shadow;
  std::vector<Warp> warps;
  std::vector<uint8_t> registers, locals;
  std::vector<uint32_t> predicates;
  std::vector<uint16_t> barrier_at;             // by shared offset / 8: index + 1 in `barriers`
  std::deque<Mbarrier> barriers;
  NamedBarrier named[16];
  int live_warps = 0;
  int register_pool = 0;                        // registers that setmaxnreg may still hand out
  std::vector<uint32_t> wgmma_done;             // by warpgroup: operations executed
  std::vector<int> wgmma_dim;
  std::vector<uint32_t> wgmma_checked;          // operations whose reads are recorded
};

struct Pending {
  std::function<void()> run;
  uint64_t id = 0;
};

struct Cluster {
  Machine *m;
  uint32_t serial;
  std::vector<Block> blocks;
  std::deque<Pending> pending;   // asynchronous work that has been issued and not completed
  uint64_t issued = 0;           // identities of pending work
  uint64_t progress = 1;         // changes whenever something a waiter could wait for has changed
  std::vector<std::string> dim_names;            // one for each clock dimension, for messages
  uint32_t arrived = 0, generation = 0, live_warps = 0;  // the cluster barrier
  Knowledge released, done;
};

// Pseudo-random numbers for schedules: the splitmix64 of Steele, Lea and Flood (OOPSLA 2014).
struct Random {
  using result_type = uint64_t;
  uint64_t state = 0;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t(0); }
  uint64_t operator()() {
    uint64_t z = state += 0x9e37'79b9'7f4a'7c15u;
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9u;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebu;
    return z ^ (z >> 31);
  }
};

struct Machine {
  std::vector<Inst> program;
  std::vector<int32_t> pool;
  std::vector<uint8_t> consts, params, constant_memory;
  std::vector<uint64_t> executions, wavefronts, ideal_wavefronts, sectors, ideal_sectors;
  std::vector<GlobalBuffer> buffers;             // ascending
  std::vector<TensorMap> maps;
  std::vector<Finding> findings;
  std::map<std::tuple<std::string, int, int>, size_t> finding_index;
  std::unordered_map<uint64_t, Knowledge> sync_objects;

  uint32_t grid[3], block_dim[3], cluster_dim[3];
  uint32_t shared_bytes, dynamic_shared, register_bytes, predicate_count, local_bytes;
  uint32_t wgmma_registers;
  int registers_per_thread;
  uint32_t blocks_total, cluster_size, threads, warps;
  bool lazy, random, detect, adversarial, strict_wgmma;
  uint64_t max_steps, steps = 0;
  size_t max_findings;
  uint64_t progress = 1;                         // changes of global memory that a spinner could see
  size_t last_buffer = 0;
  Random rng;
  bool stop = false;
  int current = 0;                               // instruction being executed, for reports
  std::vector<std::vector<uint8_t>> spare;       // register files of finished blocks

  Finding *report(const char *kind, std::string message, const Warp *w, int lane, int other = -1);
  Finding *report_at(const char *kind, std::string message, int inst, int other, int block, int warp, int lane);
  GlobalBuffer *find(uint64_t address);
  uint64_t draw(uint64_t n) { return rng() % n; }
};

// scheduler.cpp and its neighbours
void run(Machine &m);
uint64_t step_warp(Warp &w, uint64_t quantum);
void check_barriers_after_exit(Block &b);
void check_cluster_barrier(Cluster &c);
void finish_block(Block &b);
void finish_copies(Warp &w, uint32_t group);
void touch_registers(Warp &w, const Inst &i, Mask m);
void report_deadlock(Machine &m, const std::vector<Cluster *> &running, const char *why);

// clock.cpp: what a warp's lanes know, and what they publish
const Knowledge &knowledge(const Warp &w, Mask m);
Access access_of(Warp &w, Mask m, const Inst &i, bool write);
void acquire(Warp &w, Mask m, const Knowledge &k);
void release(Warp &w, Mask m, Knowledge &to);
void warp_sync(Warp &w);
void proxy_fence(Warp &w, Mask m);
uint16_t new_dim(Cluster &c, std::string name);
void learn(Warp &w, Mask m, uint16_t dim, uint32_t clock);
void gpu_fence(Warp &w, Mask m);
void publish_global(Warp &w, Mask m, uint64_t address, bool release_now);
void acquire_global(Warp &w, Mask m, uint64_t address, bool acquire_now);

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

}  // namespace sim
