// The C interface that Python calls. Structures mirror tilegen/simulate/abi.py.
#include <memory>
#include <new>

#include "machine.h"

using namespace sim;

std::vector<Op> &Registry::table() {
  static std::vector<Op> ops;
  return ops;
}
void Registry::operator()(const char *name, Handler run, uint32_t flags) { table().push_back({name, run, flags}); }
void Registry::operator()(std::initializer_list<const char *> name, Handler run, uint32_t flags) {
  std::string whole;
  for (const char *part : name) whole += part;
  table().push_back({whole, run, flags});
}

extern "C" {

struct BufferIn {
  uint64_t address, size, guard;
  uint8_t *data;
  const char *name;
  int32_t writable, initialised;
};

struct RunIn {
  const Packed *program;
  const int32_t *pool;
  const uint8_t *consts, *params, *constant_memory;
  const BufferIn *buffers;
  const sim::TensorMap *maps;
  uint64_t *counters;  // [5][instructions]
  int64_t instructions, pool_count, const_bytes, param_bytes, constant_bytes, buffer_count, map_count;
  uint64_t seed, max_steps, max_findings;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t static_shared, dynamic_shared, register_bytes, predicates, local_bytes, wgmma_registers, registers_per_thread;
  uint32_t lazy, random, detect, adversarial, strict;
};

struct FindingOut {
  const char *kind, *message;
  int32_t inst, other, block, warp, lane;
  uint64_t count;
};

int64_t sim_op_count() { return int64_t(Registry::table().size()); }
const char *sim_op_name(int64_t k) { return Registry::table()[size_t(k)].name.c_str(); }
int64_t sim_struct_bytes(int32_t which) {
  return int64_t(which == 0 ? sizeof(Packed) : which == 1 ? sizeof(BufferIn) : which == 2 ? sizeof(RunIn)
                 : which == 3 ? sizeof(FindingOut) : sizeof(sim::TensorMap));
}

static void *begin(const RunIn *in, std::unique_ptr<Machine> m) {
  m->program.resize(size_t(in->instructions));
  for (int64_t k = 0; k < in->instructions; ++k) {
    const Packed &p = in->program[k];
    const Op &op = Registry::table()[size_t(p.op)];
    Inst &i = m->program[size_t(k)];
    i.run = op.run;
    i.guard = p.guard;
    i.flags = p.flags | op.flags;
    std::memcpy(i.a, p.a, sizeof i.a);
    i.list = p.list, i.count = p.count, i.imm = p.imm, i.touch = p.touch, i.touched = p.touched;
    i.index = int32_t(k);
  }
  m->pool.assign(in->pool, in->pool + in->pool_count);
  m->consts.assign(in->consts, in->consts + in->const_bytes);
  m->params.assign(in->params, in->params + in->param_bytes);
  m->constant_memory.assign(in->constant_memory, in->constant_memory + in->constant_bytes);
  m->maps.assign(in->maps, in->maps + in->map_count);
  for (auto *counts : {&m->executions, &m->wavefronts, &m->ideal_wavefronts, &m->sectors, &m->ideal_sectors})
    counts->assign(size_t(in->instructions), 0);
  std::memcpy(m->grid, in->grid, sizeof m->grid);
  std::memcpy(m->block_dim, in->block, sizeof m->block_dim);
  std::memcpy(m->cluster_dim, in->cluster, sizeof m->cluster_dim);
  m->dynamic_shared = in->dynamic_shared;
  m->shared_bytes = in->static_shared + in->dynamic_shared;
  m->register_bytes = in->register_bytes, m->predicate_count = in->predicates, m->local_bytes = in->local_bytes;
  m->wgmma_registers = in->wgmma_registers, m->registers_per_thread = int(in->registers_per_thread);
  m->blocks_total = in->grid[0] * in->grid[1] * in->grid[2];
  m->cluster_size = in->cluster[0] * in->cluster[1] * in->cluster[2];
  m->threads = in->block[0] * in->block[1] * in->block[2];
  m->warps = (m->threads + 31) / 32;
  m->lazy = in->lazy, m->random = in->random, m->detect = in->detect, m->adversarial = in->adversarial, m->strict_wgmma = in->strict;
  m->max_steps = in->max_steps, m->max_findings = size_t(in->max_findings);
  m->rng.state = in->seed;
  m->buffers.resize(size_t(in->buffer_count));
  for (int64_t k = 0; k < in->buffer_count; ++k) {
    const BufferIn &b = in->buffers[k];
    GlobalBuffer &g = m->buffers[size_t(k)];
    g.address = b.address, g.size = b.size, g.guard = b.guard, g.data = b.data, g.name = b.name;
    g.writable = b.writable, g.initialised = b.initialised;
    g.tracked = m->detect && (b.writable || !b.initialised);
    if (g.tracked) {
      g.shadow.reset(b.size + (b.address & 15), b.initialised);
      g.shadow.name = g.name;
      g.shadow.skew = b.address & 15;
    }
  }
  run(*m);
  size_t n = size_t(in->instructions);
  for (size_t k = 0; k < n; ++k) {
    in->counters[k] = m->executions[k];
    in->counters[n + k] = m->wavefronts[k];
    in->counters[2 * n + k] = m->ideal_wavefronts[k];
    in->counters[3 * n + k] = m->sectors[k];
    in->counters[4 * n + k] = m->ideal_sectors[k];
  }
  return m.release();
}

// Null where the host ran out of memory: blocks, registers and shadows are the simulator's own.
void *sim_run(const RunIn *in) {
  try {
    return begin(in, std::make_unique<Machine>());
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

int64_t sim_findings(void *m) { return int64_t(static_cast<Machine *>(m)->findings.size()); }
uint64_t sim_steps(void *m) { return static_cast<Machine *>(m)->steps; }
void sim_finding(void *m, int64_t k, FindingOut *out) {
  const sim::Finding &f = static_cast<Machine *>(m)->findings[size_t(k)];
  *out = {f.kind.c_str(), f.message.c_str(), f.inst, f.other, f.block, f.warp, f.lane, f.count};
}
void sim_free(void *m) { delete static_cast<Machine *>(m); }

}  // extern "C"
