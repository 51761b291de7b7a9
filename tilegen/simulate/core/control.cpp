// Branches, exits, and what steers a thread without touching data (PTX ISA 9.7.12, 9.7.19).
#include "lanes.h"

namespace sim {
namespace {

// a: target; imm 1: the branch claims to be uniform.
void bra(Warp &w, const Inst &i, Mask m) {
  if (i.imm && m != w.cur->mask)
    w.m->report("divergence", format("bra.uni: only lanes 0x%08x of 0x%08x take it", m, w.cur->mask), &w, w.first_lane(m));
  w.status = Warp::kJump, w.target = uint32_t(i.a[0]), w.taken = m;
}
// a: index; list: targets.
void brx(Warp &w, const Inst &i, Mask m) {
  const uint32_t *index = w.in<uint32_t>(i.a[0]);
  uint32_t first = index[w.first_lane(m)];
  if (first >= uint32_t(i.count)) {
    w.m->report("divergence", format("brx.idx: index %u of %d targets", first, i.count), &w, w.first_lane(m));
    first = 0;
  }
  Mask same = lane_bits(m, [=](int l) { return index[l] == first; });
  w.status = Warp::kSplit, w.target = uint32_t(w.m->pool[size_t(i.list) + first]), w.taken = same;
  if (same == m && m == w.cur->mask) w.status = Warp::kJump;
}
void leave(Warp &w, const Inst &, Mask m) { w.status = Warp::kExit, w.taken = m; }
void trap(Warp &w, const Inst &, Mask m) {
  w.m->report("trap", "trap was executed", &w, w.first_lane(m));
  w.m->stop = true;
  w.status = Warp::kStop;
}
void assertion(Warp &w, const Inst &, Mask m) {
  w.m->report("trap", "an assert() failed", &w, w.first_lane(m));
  w.m->stop = true;
  w.status = Warp::kStop;
}
void yield(Warp &w, const Inst &, Mask) { w.status = Warp::kYield; }

// imm: registers a thread, negative to give back. All warps of a warpgroup run it; the pool is the block's.
void setmaxnreg(Warp &w, const Inst &i, Mask m) {
  if (m != w.alive) return w.block_on("setmaxnreg.sync.aligned waits for all lanes of its warp");
  Block &b = *w.block;
  int target = int(i.imm < 0 ? -i.imm : i.imm), before = w.registers ? w.registers : w.m->registers_per_thread;
  if (target % 8 || target < 24 || target > 256)
    w.m->report("registers", format("setmaxnreg %d: must be a multiple of 8 from 24 to 256", target), &w, -1);
  if (i.imm < 0) {
    if (before && target > before)
      w.m->report("registers", format("setmaxnreg.dec to %d, above the %d that the thread has", target, before), &w, -1);
    if (before) b.register_pool += (before - target) * kLanes;
  } else if (before) {
    int need = (target - before) * kLanes;
    if (need < 0) w.m->report("registers", format("setmaxnreg.inc to %d, below the %d that the thread has", target, before), &w, -1);
    if (need > b.register_pool)
      return w.block_on(format("setmaxnreg.inc to %d waits for %d registers; %d are free in the block", target, need, b.register_pool));
    b.register_pool -= need;
  }
  w.registers = target;
  ++b.cluster->progress;
}

SIM_OPS(control) {
  add("bra", bra, kControl), add("brx", brx, kControl), add("exit", leave, kControl);
  add("trap", trap, kControl), add("assert", assertion, kControl), add("yield", yield, kControl);
  add("setmaxnreg", setmaxnreg, kControl);
}

}  // namespace
}  // namespace sim
