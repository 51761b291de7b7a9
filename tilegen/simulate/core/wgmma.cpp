// wgmma (PTX ISA 9.7.15): four warps issue together; the product happens at once, or when a wait asks for it.
#include <algorithm>

#include "memory.h"
#include "numbers.h"
#include "operand.h"

namespace sim {
namespace {

Block &block_of(Warp &w) { return *w.block; }
int group_of(const Warp &w) { return w.index / 4; }
uint64_t job_number(const Warp &w, size_t k) { return w.wgmma_issued - w.wgmma.size() + k; }

void check_reads(Warp &w, const Inst &i, const Shape &s, const WgmmaIssue *const *jobs) {
  Machine &m = *w.m;
  Block &b = block_of(w);
  Cluster &c = *b.cluster;
  int g = group_of(w);
  // What all four warps know: a product reads for each of them.
  Knowledge common = w.all;
  for (int k = 0; k < 4; ++k) {
    const Knowledge &o = b.warps[size_t(4 * g + k)].all;
    common.seen.resize(std::min(common.seen.size(), o.seen.size()));
    common.fenced.resize(std::min(common.fenced.size(), o.fenced.size()));
    for (size_t d = 0; d < common.seen.size(); ++d) common.seen[d] = std::min(common.seen[d], o.seen[d]);
    for (size_t d = 0; d < common.fenced.size(); ++d) common.fenced[d] = std::min(common.fenced[d], o.fenced[d]);
  }
  if (b.wgmma_dim[size_t(g)] < 0) {
    for (int k = 0; k < 4; ++k) {
      int d = new_dim(c, format("wgmma of warpgroup %d", g));
      if (k == 0) b.wgmma_dim[size_t(g)] = d;
    }
  }
  Access a = access_of(w, kFull, i, false);
  a.know = &common;
  a.stamp.lanes = kManyLanes;
  a.stamp.inst |= kAsync;
  a.stamp.dim = uint16_t(b.wgmma_dim[size_t(g)]);
  a.stamp.clock = b.wgmma_checked[size_t(g)] + 1;
  uint64_t wrong = 0;
  bool bad = false;
  auto read = [&](uint64_t at, int row, int) {
    if (!in_bounds(b, at)) {
      wrong = at, bad = true;
      return;
    }
    if (!m.detect) return;
    // Strict: each warp's reads are its own; the rows of A belong to one warp.
    if (m.strict_wgmma) {
      for (int k = 0; k < 4; ++k) {
        if (row >= 0 && row / 16 != k) continue;
        a.stamp.dim = uint16_t(b.wgmma_dim[size_t(g)] + k);
        b.shadow.touch(m, at / 16, 0xffff, a);
      }
    } else {
      b.shadow.touch(m, at / 16, 0xffff, a);
    }
  };
  if (i.a[1] != INT32_MIN) pieces(Descriptor(jobs[0]->a), s.trans_a, 64, s.depth, bytes_of(s.ta), read);
  pieces(Descriptor(jobs[0]->b), s.trans_b, s.n, s.depth, bytes_of(s.tb), [&](uint64_t at, int, int k) { read(at, -1, k); });
  if (bad)
    m.report("out-of-bounds", format("a wgmma descriptor reaches shared byte %llu; the block has %zu (from %u)", (unsigned long long)wrong,
                                     b.shared.size() - kSharedStart, kSharedStart), &w, -1);
}

template <class T>
void product(Block &b, int g, const Shape &s, const WgmmaIssue *const *jobs) {
  const Inst &i = *jobs[0]->inst;
  static thread_local std::vector<T> right, scratch;
  static thread_local Left<T> left;
  right.resize(size_t(s.n) * size_t(s.depth));
  load_right(b, s, jobs[0]->b, right.data());
  int rows = s.n / 2;
  for (int k = 0; k < 4; ++k) {
    Warp &w = b.warps[size_t(4 * g + k)];
    const int32_t *d = &w.m->pool[size_t(i.list)];
    if (i.a[1] == INT32_MIN) left_registers(w, s, d + i.a[3], left);
    else load_left(b, s, jobs[k]->a, k, left);
    T *to[128];
    bool direct = i.a[5] != 1 && !s.saturate;
    if (!direct) scratch.assign(size_t(rows) * kLanes, 0);
    for (int r = 0; r < rows; ++r) {
      to[r] = direct ? w.out<T>(d[r]) : scratch.data() + size_t(r) * kLanes;
      if (direct && !jobs[k]->scale_d) std::memset(to[r], 0, kLanes * sizeof(T));
      if (i.a[5] == 1 && jobs[k]->scale_d)
        for (int l = 0; l < kLanes; ++l) to[r][l] = T(f16_to(uint16_t(w.in<uint32_t>(d[r / 2])[l] >> (16 * (r & 1)))));
    }
    multiply(left, right.data(), s.n / 8, s.depth, to);
    if (i.a[5] == 1)
      for (int r = 0; r < rows; r += 2)
        for (int l = 0; l < kLanes; ++l)
          w.out<uint32_t>(d[r / 2])[l] = f16_from_float(float(to[r][l])) | uint32_t(f16_from_float(float(to[r + 1][l]))) << 16;
    else if (s.saturate)
      for (int r = 0; r < rows; ++r)
        for (int l = 0; l < kLanes; ++l) {
          int64_t sum = int64_t(to[r][l]) + (jobs[k]->scale_d ? int64_t(w.in<int32_t>(d[r])[l]) : 0);
          w.out<int32_t>(d[r])[l] = int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
        }
    else if (i.a[5] == 0)
      for (int r = 0; r < rows; ++r)
        for (int l = 0; l < kLanes; ++l) to[r][l] = T(canonical(float(to[r][l])));
  }
}

// Issues of the four warps that make up operation `number`; false until all four have issued it.
bool issues(Block &b, int g, uint64_t number, const WgmmaIssue **jobs) {
  for (int k = 0; k < 4; ++k) {
    Warp &w = b.warps[size_t(4 * g + k)];
    if (w.wgmma_issued <= number) return false;
    jobs[k] = &w.wgmma[size_t(number - (w.wgmma_issued - w.wgmma.size()))];
  }
  return true;
}

void execute(Block &b, int g, uint64_t upto) {
  const WgmmaIssue *jobs[4];
  while (b.wgmma_done[size_t(g)] < upto && issues(b, g, b.wgmma_done[size_t(g)], jobs)) {
    Shape s(*jobs[0]->inst);
    if (is_integer(s.ta)) product<int32_t>(b, g, s, jobs);
    else product<float>(b, g, s, jobs);
    ++b.wgmma_done[size_t(g)];
    ++b.cluster->progress;
  }
}

bool whole(Warp &w, Mask m, const char *what) {
  if (m == kFull) return true;
  if (w.alive != kFull) {
    w.m->report("divergence", format("%s needs all 32 lanes; lanes 0x%08x have exited", what, ~w.alive), &w, -1);
    return true;
  }
  w.block_on(format("%s waits for lanes 0x%08x of its warp, which run elsewhere", what, w.alive & ~m));
  return false;
}

void issue(Warp &w, const Inst &i, Mask m) {
  if (!whole(w, m, "wgmma")) return;
  Machine &k = *w.m;
  Block &b = block_of(w);
  int g = group_of(w);
  if (size_t(4 * g + 4) > b.warps.size()) {
    k.report("wgmma", "the warpgroup has fewer than four warps", &w, -1);
    k.stop = true;
    return;
  }
  WgmmaIssue job;
  job.inst = &i;
  job.scale_d = w.pred(i.a[0]) & 1;
  job.a = i.a[1] != INT32_MIN ? w.in<uint64_t>(i.a[1])[0] : 0;
  job.b = w.in<uint64_t>(i.a[2])[0];
  job.group = w.wgmma_group;
  const int32_t *index = &k.pool[size_t(i.list)] + i.a[3] + i.a[4];
  bool unfenced = false, overlap = false;
  for (int r = 0; r < i.a[3] + i.a[4]; ++r) {
    uint32_t x = uint32_t(index[r]);
    unfenced |= w.dirty[x];
    bool left = r >= i.a[3];
    if (left && (w.in_flight[x] & 0xff)) overlap = true;
    w.in_flight[x] = uint16_t(w.in_flight[x] + (left ? 0x100 : 1));
  }
  if (k.detect && unfenced) k.report("wgmma", "no wgmma.fence between the last access to a register of this wgmma and it", &w, -1);
  if (k.detect && overlap) k.report("wgmma", "an A register of this wgmma is the accumulator of one in flight", &w, -1);
  w.wgmma.push_back(job);
  ++w.wgmma_issued;
  ++b.cluster->progress;
  const WgmmaIssue *jobs[4];
  uint64_t number = w.wgmma_issued - 1;
  if (!issues(b, g, number, jobs)) return;
  for (int q = 1; q < 4; ++q)
    if (jobs[q]->inst != jobs[0]->inst || jobs[q]->b != jobs[0]->b || jobs[q]->a != jobs[0]->a || jobs[q]->scale_d != jobs[0]->scale_d)
      k.report("wgmma", format("warps of the warpgroup differ in the %s of the same wgmma",
                               jobs[q]->inst != jobs[0]->inst ? "instruction" : jobs[q]->scale_d != jobs[0]->scale_d ? "scale-d" : "descriptors"), &w, -1);
  Shape s(i);
  check_reads(w, i, s, jobs);
  b.wgmma_checked[size_t(g)] = uint32_t(number + 1);
  if (!k.lazy || (k.random && k.draw(2))) execute(b, g, number + 1);
}

void commit(Warp &w, const Inst &, Mask m) {
  if (whole(w, m, "wgmma.commit_group")) ++w.wgmma_group;
}

void wait(Warp &w, const Inst &i, Mask m) {
  if (!whole(w, m, "wgmma.wait_group")) return;
  Block &b = block_of(w);
  int g = group_of(w);
  int64_t last = int64_t(w.wgmma_group) - 1 - i.imm;
  uint64_t target = job_number(w, 0);
  for (const WgmmaIssue &j : w.wgmma)
    if (int64_t(j.group) <= last) ++target;
  if (target == job_number(w, 0)) return;
  execute(b, g, target);
  if (b.wgmma_done[size_t(g)] < target)
    return w.block_on(format("wgmma.wait_group: operation %llu has not been issued by all four warps", (unsigned long long)target));
  while (job_number(w, 0) < target) {
    const Inst &done = *w.wgmma.front().inst;
    const int32_t *index = &w.m->pool[size_t(done.list)] + done.a[3] + done.a[4];
    for (int r = 0; r < done.a[3] + done.a[4]; ++r) {
      uint16_t &f = w.in_flight[size_t(index[r])];
      f = uint16_t(f - (r < done.a[3] ? 1 : 0x100));
    }
    w.wgmma.pop_front();
  }
  if (w.m->detect) {
    uint16_t dim = uint16_t(b.wgmma_dim[size_t(g)]);
    if (w.m->strict_wgmma) dim = uint16_t(dim + w.index % 4);
    learn(w, m, dim, uint32_t(target));
  }
}

void fence(Warp &w, const Inst &, Mask m) {
  if (whole(w, m, "wgmma.fence")) std::fill(w.dirty.begin(), w.dirty.end(), 0);
}

SIM_OPS(wgmma) {
  add("wgmma", issue, kControl), add("wgmma.commit_group", commit, kControl);
  add("wgmma.wait_group", wait, kControl), add("wgmma.fence", fence, kControl);
}

}  // namespace
}  // namespace sim
