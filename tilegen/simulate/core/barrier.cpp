// Named barriers and the cluster barrier (PTX ISA 9.7.13.1 to 9.7.13.4). Arrival is by warps.
#include "lanes.h"

namespace sim {
namespace {

bool whole_warp(Warp &w, Mask m, const char *what) {
  if (m == w.alive) return true;
  w.block_on(format("%s waits for lanes 0x%08x of its warp, which run elsewhere", what, w.alive & ~m));
  return false;
}

void complete(Block &b, NamedBarrier &n) {
  n.arrived = 0;
  ++n.generation;
  n.done = std::move(n.released);
  n.released = Knowledge();
  n.last_count = n.count, n.last_any = n.any, n.last_all = n.all;
  n.count = n.any = 0, n.all = 1;
  ++b.cluster->progress;
}

uint32_t live_threads(const Block &b) { return uint32_t(b.live_warps) * kLanes; }

// a: barrier, thread count (INT32_MIN: the block's). Returns the barrier, or null after a report.
NamedBarrier *arrive(Warp &w, const Inst &i, Mask m, uint32_t &id) {
  Machine &k = *w.m;
  Block &b = *w.block;
  int lane = w.first_lane(m);
  id = w.in<uint32_t>(i.a[0])[lane];
  if (id > 15) {
    k.report("barrier", format("barrier %u: there are 16", id), &w, -1);
    return nullptr;
  }
  NamedBarrier &n = b.named[id];
  bool whole = i.a[1] == INT32_MIN;
  uint32_t expected = whole ? k.warps * kLanes : w.in<uint32_t>(i.a[1])[lane];
  if (expected % kLanes || expected == 0)
    k.report("barrier", format("barrier %u: thread count %u is not a positive multiple of 32", id, expected), &w, -1);
  if (n.arrived && n.expected != expected)
    k.report("barrier", format("barrier %u: this warp expects %u threads, an earlier one expected %u", id, expected, n.expected), &w, -1);
  n.expected = expected, n.whole = whole;
  n.arrived += kLanes;
  ++b.cluster->progress;
  release(w, m, n.released);
  if (n.arrived > expected)
    k.report("barrier", format("barrier %u: %u threads arrived, %u were expected", id, n.arrived, expected), &w, -1);
  if (n.arrived >= expected || (whole && n.arrived >= live_threads(b))) {
    if (n.arrived < expected)
      k.report("barrier", format("barrier %u completes with %u of %u threads because the others have exited", id, n.arrived, expected), &w, -1);
    complete(b, n);
  }
  return &n;
}

// True once the barrier that this warp arrived at has completed.
bool wait(Warp &w, const Inst &i, Mask m, const char *what) {
  if (!whole_warp(w, m, what)) return false;
  Group &g = *w.cur;
  if (!g.arrived) {
    uint32_t id = 0, generation = w.block->named[w.in<uint32_t>(i.a[0])[w.first_lane(m)] & 15].generation;
    if (!arrive(w, i, m, id)) return true;
    g.arrived = true;
    g.ticket = uint64_t(id) << 32 | generation;
  }
  NamedBarrier &n = w.block->named[g.ticket >> 32];
  if (n.generation == uint32_t(g.ticket)) {
    w.block_on(format("%s on barrier %u, %u of %u threads arrived", what, unsigned(g.ticket >> 32), n.arrived, n.expected));
    return false;
  }
  g.arrived = false;
  acquire(w, m, n.done);
  warp_sync(w);
  return true;
}

void sync(Warp &w, const Inst &i, Mask m) { wait(w, i, m, "bar.sync"); }
void arrive_only(Warp &w, const Inst &i, Mask m) {
  if (!whole_warp(w, m, "bar.arrive")) return;
  uint32_t id;
  arrive(w, i, m, id);
}
// a: barrier, count, destination (slot or predicate), source predicate. imm: popc, and, or.
void red(Warp &w, const Inst &i, Mask m) {
  Group &g = *w.cur;
  if (!g.arrived && m == w.alive) {
    NamedBarrier &n = w.block->named[w.in<uint32_t>(i.a[0])[w.first_lane(m)] & 15];
    Mask p = w.pred(i.a[3]) & m;
    n.count += uint32_t(__builtin_popcount(p));
    n.any |= p != 0;
    n.all &= p == m;
  }
  uint64_t id = w.in<uint32_t>(i.a[0])[w.first_lane(m)] & 15;
  if (!wait(w, i, m, "bar.red")) return;
  NamedBarrier &n = w.block->named[id];
  if (i.imm == 0) {
    uint32_t v = n.last_count;
    each_lane(w.out<uint32_t>(i.a[2]), m, [=](int) { return v; });
  } else {
    bool v = i.imm == 1 ? n.last_all : n.last_any;
    w.preds[i.a[2]] = v ? w.preds[i.a[2]] | m : w.preds[i.a[2]] & ~m;
  }
}

// imm 1: relaxed.
void cluster_arrive(Warp &w, const Inst &i, Mask m) {
  if (!whole_warp(w, m, "barrier.cluster.arrive")) return;
  Cluster &c = *w.block->cluster;
  if (w.cluster_ticket)
    w.m->report("barrier", "barrier.cluster.arrive twice with no barrier.cluster.wait in between", &w, -1);
  if (!i.imm) release(w, m, c.released);
  w.cluster_ticket = c.generation + 1;
  ++c.arrived;
  ++c.progress;
  check_cluster_barrier(c);
}
void cluster_wait(Warp &w, const Inst &, Mask m) {
  if (!whole_warp(w, m, "barrier.cluster.wait")) return;
  Cluster &c = *w.block->cluster;
  if (!w.cluster_ticket) {
    w.m->report("barrier", "barrier.cluster.wait with no barrier.cluster.arrive before it", &w, -1);
    return;
  }
  if (c.generation + 1 == w.cluster_ticket)
    return w.block_on(format("barrier.cluster.wait, %u of %u warps arrived", c.arrived, c.live_warps));
  w.cluster_ticket = 0;
  acquire(w, m, c.done);
  warp_sync(w);
}

SIM_OPS(barrier) {
  add("bar.sync", sync, kControl), add("bar.arrive", arrive_only, kControl), add("bar.red", red, kControl);
  add("barrier.cluster.arrive", cluster_arrive, kControl), add("barrier.cluster.wait", cluster_wait, kControl);
}

}  // namespace

void check_cluster_barrier(Cluster &c) {
  if (!c.arrived || c.arrived < c.live_warps) return;
  c.arrived = 0;
  ++c.generation;
  c.done = std::move(c.released);
  c.released = Knowledge();
  ++c.progress;
}

void check_barriers_after_exit(Block &b) {
  for (unsigned id = 0; id < 16; ++id) {
    NamedBarrier &n = b.named[id];
    if (!n.arrived || !n.whole || n.arrived < live_threads(b) || b.live_warps == 0) continue;
    b.cluster->m->report_at("barrier", format("barrier %u completes with %u of %u threads because the others have exited", id,
                                              n.arrived, n.expected), b.cluster->m->current, -1, int(b.linear), -1, -1);
    complete(b, n);
  }
}

}  // namespace sim
