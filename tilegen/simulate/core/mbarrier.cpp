// mbarrier objects (PTX ISA 9.7.13.15). A phase completes when no arrival and no transaction byte is pending.
#include "async.h"

namespace sim {

Mbarrier *mbarrier_at(Block &b, uint64_t offset) {
  uint16_t k = offset / 8 < b.barrier_at.size() ? b.barrier_at[offset / 8] : 0;
  return k && b.barriers[k - 1u].live ? &b.barriers[k - 1u] : nullptr;
}

void settle(Block &b, Mbarrier &k) {
  ++b.cluster->progress;
  if (k.pending || k.tx) return;
  ++k.phase;
  k.pending = k.expected;
  k.done = k.released;
}

static void check_tx(Block &b, Mbarrier &k, int inst) {
  k.last_tx = inst;
  if (k.tx < -((1 << 20) - 1) || k.tx > (1 << 20) - 1)
    b.cluster->m->report_at("mbarrier", format("tx-count %lld of the mbarrier at shared byte %u leaves its range of 2^20 - 1",
                                               (long long)k.tx, k.offset), inst, -1, int(b.linear), -1, -1);
}
void expect_tx(Block &b, Mbarrier &k, int64_t bytes, int inst) {
  k.tx += bytes;
  check_tx(b, k, inst);
}
void complete_tx(Block &b, uint64_t offset, int64_t bytes, int inst) {
  Mbarrier *k = mbarrier_at(b, offset);
  if (!k) {
    b.cluster->m->report_at("mbarrier", format("a bulk copy completes on shared byte %llu, where no mbarrier is", (unsigned long long)offset),
                            inst, -1, int(b.linear), -1, -1);
    return;
  }
  k->tx -= bytes;
  k->bulk_phase = k->phase + 1;
  check_tx(b, *k, inst);
  settle(b, *k);
}

BarrierPlace find_barrier(Warp &w, Locator &find, uint64_t address, int lane, bool remote, bool async) {
  Machine &m = *w.m;
  Place p = find.at(address, 8, lane, 8);
  if (!p.host) return {};
  Block *b = p.region->shared_of;
  if (!b) {
    m.report("mbarrier", "an mbarrier must lie in shared memory", &w, lane);
    return {};
  }
  if (b != w.block && !remote) {
    m.report("mbarrier", format("this operation on the mbarrier of another block (rank %u) is not allowed", b->rank), &w, lane);
    return {};
  }
  Mbarrier *k = mbarrier_at(*b, p.offset);
  if (!k) {
    m.report("mbarrier", format("no mbarrier was initialised at shared byte %llu of block rank %u", (unsigned long long)p.offset, b->rank), &w, lane);
    return {};
  }
  if (m.detect) {
    const Knowledge &know = knowledge(w, 1u << lane);
    bool own = k->creator == &w && (k->init.dim == w.dim || (k->init.lanes & 31) == unsigned(lane));
    if (!own && !know.knows(k->init, w.block->cluster->serial))
      m.report("mbarrier", format("use of the mbarrier at shared byte %u is not ordered after its init", k->offset), &w, lane,
               int(k->init.inst & kInstBits));
    else if (!k->fenced && (async || b != w.block))
      m.report("mbarrier", format("the mbarrier at shared byte %u is used by %s, and no fence.mbarrier_init followed its init",
                                  k->offset, async ? "the async proxy" : "another block"), &w, lane, int(k->init.inst & kInstBits));
  }
  return {b, k, p.offset};
}

namespace {

// Addresses: a[1] slot, a[2] register bytes, a[3] space, imm offset.
struct Targets {
  uint64_t address[kLanes];
  Targets(const Warp &w, const Inst &i) {
    addresses(w, i.a[1], i.a[2], i.imm, address);
    if (i.a[2] == 0)
      for (uint64_t &a : address) a += shared_base(w);
  }
};

// a[4]: count.
void init(Warp &w, const Inst &i, Mask m) {
  Targets t(w, i);
  Locator find(w, i, i.a[3], true);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Place p = find.at(t.address[l], 8, l, 8);
    if (!p.host) continue;
    Block *b = p.region->shared_of;
    uint32_t count = w.in<uint32_t>(i.a[4])[l];
    if (b != w.block) {
      w.m->report("mbarrier", "mbarrier.init outside the block's own shared memory", &w, l);
      continue;
    }
    if (count == 0 || count > (1 << 20) - 1)
      w.m->report("mbarrier", format("mbarrier.init with count %u; 1 to 2^20 - 1 are allowed", count), &w, l);
    uint16_t &slot = b->barrier_at[p.offset / 8];
    if (slot && b->barriers[slot - 1u].live)
      w.m->report("mbarrier", format("mbarrier.init of shared byte %llu, which holds a live mbarrier", (unsigned long long)p.offset), &w, l);
    if (!slot) {
      b->barriers.emplace_back();
      slot = uint16_t(b->barriers.size());
    }
    Mbarrier &k = b->barriers[slot - 1u];
    uint16_t dim = k.dim ? k.dim : new_dim(*b->cluster, format("the bulk loads of the mbarrier at shared byte %llu", (unsigned long long)p.offset));
    // Phases go on where an invalidated barrier at this place stopped, so that clocks never go back; parity stays even.
    uint32_t phase = (k.phase + 2) & ~1u;
    if (!k.dim) phase = 0;
    Access a = access_of(w, 1u << l, i, true);
    a.stamp.lanes = lane_pattern(l, 3, int(p.offset & 15));
    a.stamp.inst |= kBarrierObject;
    if (p.region->shadow) p.region->shadow->range(*w.m, p.offset, 8, a);
    k = Mbarrier();
    k.offset = uint32_t(p.offset), k.live = true, k.expected = k.pending = count;
    k.phase = phase, k.observed_phase = phase;
    k.dim = dim, k.init = a.stamp, k.init.inst = uint32_t(i.index), k.creator = &w, k.last_tx = i.index;
    std::memset(p.host, 0, 8);
  }
  ++w.block->cluster->progress;
}

void inval(Warp &w, const Inst &i, Mask m) {
  Targets t(w, i);
  Locator find(w, i, i.a[3], true);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    BarrierPlace p = find_barrier(w, find, t.address[l], l, false, false);
    if (!p.barrier) continue;
    p.barrier->live = false;
    if (w.m->detect) p.block->shadow.forget(p.offset, 8);
  }
}

void arrive_at(Warp &w, BarrierPlace &p, uint32_t count, bool drop, int lane) {
  Mbarrier &k = *p.barrier;
  if (w.m->detect && k.observed_phase < k.phase)
    w.m->report("mbarrier", format("arrival in phase %u of the mbarrier at shared byte %u, whose phase %u nothing has waited for",
                                   k.phase, k.offset, k.phase - 1), &w, lane);
  if (count > k.pending)
    w.m->report("mbarrier", format("%u arrivals at the mbarrier at shared byte %u, which expects %u more in phase %u (count %u)", count,
                                   k.offset, k.pending, k.phase, k.expected), &w, lane);
  k.pending = count > k.pending ? 0 : k.pending - count;
  if (drop) k.expected = count > k.expected ? 0 : k.expected - count;
  settle(*p.block, k);
}

// a[0]: state destination or -1; a[4]: count slot or ABSENT; a[5]: expect_tx slot or ABSENT; a[6]: bits remote
// allowed 1, relaxed 2, drop 4, arrival 8.
void arrive(Warp &w, const Inst &i, Mask m) {
  Targets t(w, i);
  Locator find(w, i, i.a[3], true);
  Knowledge released;
  if (!(i.a[6] & 2)) release(w, m, released);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    BarrierPlace p = find_barrier(w, find, t.address[l], l, i.a[6] & 1, false);
    if (!p.barrier) continue;
    Mbarrier &k = *p.barrier;
    if (i.a[0] >= 0) w.out<uint64_t>(i.a[0])[l] = uint64_t(k.phase) << 32 | k.pending;  // opaque to PTX
    if (i.a[5] != INT32_MIN) expect_tx(*p.block, k, w.in<uint32_t>(i.a[5])[l], i.index);
    if (!(i.a[6] & 8)) {
      settle(*p.block, k);
      continue;
    }
    if (!(i.a[6] & 2)) k.released.join_with(released);
    arrive_at(w, p, i.a[4] != INT32_MIN ? w.in<uint32_t>(i.a[4])[l] : 1, i.a[6] & 4, l);
  }
}
// complete_tx without a copy. a[5]: bytes.
void complete(Warp &w, const Inst &i, Mask m) {
  Targets t(w, i);
  Locator find(w, i, i.a[3], true);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    BarrierPlace p = find_barrier(w, find, t.address[l], l, true, false);
    if (p.barrier) complete_tx(*p.block, p.offset, w.in<uint32_t>(i.a[5])[l], i.index);
  }
}
// cp.async.mbarrier.arrive: an arrival once the thread's copies so far are done. a[6] 1: noinc.
void copies_arrive(Warp &w, const Inst &i, Mask m) {
  Targets t(w, i);
  Locator find(w, i, i.a[3], true);
  finish_copies(w, w.copy_clock);
  Knowledge released;
  raise(released.seen, uint32_t(w.dim + 2), w.copy_clock++);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    BarrierPlace p = find_barrier(w, find, t.address[l], l, false, false);
    if (!p.barrier) continue;
    if (!(i.a[6] & 1)) ++p.barrier->pending;
    p.barrier->released.join_with(released);
    arrive_at(w, p, 1, false, l);
  }
}

// a[0]: predicate; a[4]: parity or state; a[6]: bits parity 1, blocking 2, relaxed 4.
void wait(Warp &w, const Inst &i, Mask m) {
  Targets t(w, i);
  Locator find(w, i, i.a[3], false);
  Mask done = 0;
  const Mbarrier *behind = nullptr;
  uint64_t wanted = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    BarrierPlace p = find_barrier(w, find, t.address[l], l, false, false);
    if (!p.barrier) {
      done |= 1u << l;
      continue;
    }
    uint64_t v = i.a[6] & 1 ? w.in<uint32_t>(i.a[4])[l] & 1 : w.in<uint64_t>(i.a[4])[l];
    bool complete = i.a[6] & 1 ? (p.barrier->phase & 1) != v : p.barrier->phase != uint32_t(v >> 32);
    if (complete) done |= 1u << l;
    else behind = p.barrier, wanted = v;
  }
  if (behind && (i.a[6] & 2))
    return w.block_on(format("mbarrier at shared byte %u of block %u, %s %llu: phase %u, %u of %u arrivals pending, tx-count %lld", behind->offset,
                             w.block->linear, i.a[6] & 1 ? "parity" : "phase", (unsigned long long)(i.a[6] & 1 ? wanted : wanted >> 32), behind->phase, behind->pending,
                             behind->expected, (long long)behind->tx));
  Mbarrier *last = nullptr;
  for (int l = 0; l < kLanes; ++l) {
    if (!(done >> l & 1)) continue;
    Place p = find.at(t.address[l], 8, l, 8);
    Mbarrier *k = p.host && p.region->shared_of ? mbarrier_at(*p.region->shared_of, p.offset) : nullptr;
    if (!k || k == last) continue;
    last = k;
    if (k->observed_phase < k->phase) k->observed_phase = k->phase;
    if (!(i.a[6] & 4)) {
      acquire(w, done, k->done);
      learn(w, done, k->dim, k->phase);
    }
  }
  w.preds[i.a[0]] = (w.preds[i.a[0]] & ~m) | (done & m);
  if (done != m) w.status = Warp::kYield;
}

void pending_count(Warp &w, const Inst &i, Mask m) {
  const uint64_t *state = w.in<uint64_t>(i.a[1]);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) { return uint32_t(state[l]); });
}

void fence_init(Warp &w, const Inst &, Mask) {
  for (Mbarrier &k : w.block->barriers)
    if (k.creator == &w) k.fenced = true;
}
void fence_async(Warp &w, const Inst &i, Mask m) {
  proxy_fence(w, m);
  fence_init(w, i, m);
}

SIM_OPS(mbarrier) {
  add("mbarrier.init", init), add("mbarrier.inval", inval), add("mbarrier.arrive", arrive), add("mbarrier.complete_tx", complete);
  add("mbarrier.wait", wait, kControl), add("cp.async.mbarrier.arrive", copies_arrive);
  add("mbarrier.pending_count", pending_count);
  add("fence.mbarrier_init", fence_init), add("fence.proxy.async", fence_async);
}

}  // namespace
}  // namespace sim
