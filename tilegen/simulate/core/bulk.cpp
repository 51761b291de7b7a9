// Bulk copies without a tensor map, bulk groups, st.async (PTX ISA 9.7.9.25, 9.7.9.27).
#include "async.h"
#include "reduce.h"

namespace sim {

uint64_t start(Cluster &c, std::function<void()> work) {
  if (!c.m->lazy) {
    work();
    ++c.progress;
    return 0;
  }
  c.pending.push_back({std::move(work), ++c.issued});
  return c.issued;
}

void finish(Cluster &c, uint64_t id) {
  for (size_t k = 0; k < c.pending.size(); ++k) {
    if (c.pending[k].id != id) continue;
    Pending p = std::move(c.pending[k]);
    c.pending.erase(c.pending.begin() + long(k));
    p.run();
    ++c.progress;
    return;
  }
}

BulkGroup &open_group(Warp &w, int lane) {
  for (BulkGroup &g : w.bulk)
    if (g.lane == lane && !g.committed) return g;
  BulkGroup g;
  g.lane = lane;
  g.clock = ++w.bulk_clock[lane];
  g.inst = w.m->current;
  w.bulk.push_back(g);
  return w.bulk.back();
}

uint16_t bulk_dim(Warp &w, int lane, bool writes) {
  uint32_t &d = w.bulk_dims[2 * lane + writes];
  if (!d) d = new_dim(*w.block->cluster, format("a bulk store of warp %d", w.index));
  return uint16_t(d);
}

namespace {

void commit(Warp &w, const Inst &, Mask m) {
  for (int l = 0; l < kLanes; ++l)
    if (m >> l & 1) open_group(w, l).committed = true;
}

// imm: groups that may stay outstanding; a[0] 1: until sources are read.
void wait_group(Warp &w, const Inst &i, Mask m) {
  Cluster &c = *w.block->cluster;
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    int64_t keep = 0;
    for (BulkGroup &g : w.bulk) keep += g.lane == l && g.committed;
    keep = keep > i.imm ? keep - i.imm : 0;  // this many of the oldest have to be done
    for (size_t k = 0; k < w.bulk.size() && keep > 0;) {
      BulkGroup &g = w.bulk[k];
      if (g.lane != l || !g.committed) {
        ++k;
        continue;
      }
      --keep;
      for (uint64_t id : g.work) finish(c, id);
      g.work.clear();
      g.reads = 0;
      learn(w, 1u << l, bulk_dim(w, l, false), g.clock);
      if (i.a[0]) {
        ++k;
        continue;
      }
      learn(w, 1u << l, bulk_dim(w, l, true), g.clock);
      w.bulk.erase(w.bulk.begin() + long(k));
    }
  }
}

// A copy of contiguous bytes. a: destination slot, register bytes; source slot, register bytes; size slot; mbarrier
// slot, register bytes (global destination: none); mask slot or ABSENT; bits destination shared 1, source shared 2.
// imm: reduction (0: none) | type << 8. list: offsets of destination, source, mbarrier.
void bulk_copy(Warp &w, const Inst &i, Mask m) {
  Machine &k = *w.m;
  const int32_t *offsets = &k.pool[size_t(i.list)];
  uint64_t to[kLanes], from[kLanes], bar[kLanes] = {};
  addresses(w, i.a[0], i.a[1], offsets[0], to);
  addresses(w, i.a[2], i.a[3], offsets[1], from);
  bool to_shared = i.a[8] & 1, from_shared = i.a[8] & 2;
  for (uint64_t &a : to) a += to_shared && i.a[1] == 0 ? shared_base(w) : 0;
  for (uint64_t &a : from) a += from_shared && i.a[3] == 0 ? shared_base(w) : 0;
  if (to_shared) {
    addresses(w, i.a[5], i.a[6], offsets[2], bar);
    for (uint64_t &a : bar) a += i.a[6] == 0 ? shared_base(w) : 0;
  }
  Locator find_to(w, i, to_shared ? kShared : kGlobal, true), find_from(w, i, from_shared ? kShared : kGlobal, false);
  Locator find_bar(w, i, kShared, true);
  Cluster &c = *w.block->cluster;
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    uint32_t bytes = w.in<uint32_t>(i.a[4])[l];
    if (bytes % 16) {
      k.report("bulk", format("size %u is not a multiple of 16", bytes), &w, l);
      continue;
    }
    if (bytes == 0) continue;
    Place source = find_from.at(from[l], bytes, l, 16), target = find_to.at(to[l], bytes, l, 16);
    if (!source.host || !target.host) continue;
    uint32_t mask = i.a[7] != INT32_MIN ? w.in<uint16_t>(i.a[7])[l] : 0;
    std::vector<std::pair<Block *, uint64_t>> ends;  // blocks and mbarrier offsets
    std::vector<uint8_t *> targets;
    Access wa = access_of(w, 1u << l, i, true), ra = access_of(w, 1u << l, i, false);
    wa.stamp.lanes = ra.stamp.lanes = kManyLanes;
    wa.stamp.inst |= kAsync | (i.imm ? kStrong : 0u), ra.stamp.inst |= kAsync;
    BulkGroup *group = nullptr;
    if (to_shared) {
      BarrierPlace p = find_barrier(w, find_bar, bar[l], l, true, true);
      if (!p.barrier) continue;
      if (!mask) {
        if (p.block != target.region->shared_of) k.report("bulk", "destination and mbarrier are in different blocks", &w, l);
        mask = 1u << p.block->rank;
      }
      for (uint32_t r = 0; r < 16; ++r) {
        if (!(mask >> r & 1)) continue;
        if (r >= c.blocks.size()) {
          k.report("bulk", format("multicast to block rank %u in a cluster of %zu", r, c.blocks.size()), &w, l);
          continue;
        }
        Block &b = c.blocks[r];
        Mbarrier *there = mbarrier_at(b, p.offset);
        if (!there) {
          k.report("mbarrier", format("multicast: block rank %u has no mbarrier at shared byte %llu", r, (unsigned long long)p.offset), &w, l);
          continue;
        }
        wa.stamp.dim = there->dim, wa.stamp.clock = there->phase + 1;
        if (k.detect) b.shadow.range(k, target.offset, bytes, wa);
        targets.push_back(b.shared.data() + target.offset);
        ends.push_back({&b, p.offset});
        ra.stamp.dim = wa.stamp.dim, ra.stamp.clock = wa.stamp.clock;
      }
    } else {
      group = &open_group(w, l);
      ra.stamp.dim = bulk_dim(w, l, false), wa.stamp.dim = bulk_dim(w, l, true);
      ra.stamp.clock = wa.stamp.clock = group->clock;
      if (target.region->shadow) target.region->shadow->range(k, target.offset, bytes, wa);
      targets.push_back(target.host);
      ++group->reads;
    }
    if (source.region->shadow) source.region->shadow->range(k, source.offset, bytes, ra);
    int inst = i.index;
    int64_t reduction = i.imm;
    const uint8_t *read = source.host;
    uint64_t id = start(c, [=] {
      for (uint8_t *t : targets) {
        if (reduction) reduce(int(reduction & 255), int(reduction >> 8), t, read, bytes);
        else std::memcpy(t, read, bytes);
      }
      for (auto &[block, offset] : ends) complete_tx(*block, offset, bytes, inst);
    });
    if (group && id) group->work.push_back(id);
    if (!to_shared) ++k.progress;
  }
}

// st.async: a: address slot, register bytes; mbarrier slot, register bytes; vector length; element bytes; reduction and
// type in imm as above. list: offset of address, of mbarrier, registers.
void store_async(Warp &w, const Inst &i, Mask m) {
  Machine &k = *w.m;
  const int32_t *list = &k.pool[size_t(i.list)];
  uint64_t to[kLanes], bar[kLanes];
  addresses(w, i.a[0], i.a[1], list[0], to);
  addresses(w, i.a[2], i.a[3], list[1], bar);
  unsigned element = unsigned(i.a[5]), bytes = element * unsigned(i.a[4]);
  Locator find_to(w, i, kShared, true), find_bar(w, i, kShared, true);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Place t = find_to.at(to[l], bytes, l, bytes);
    BarrierPlace p = find_barrier(w, find_bar, bar[l], l, true, false);
    if (!t.host || !p.barrier) continue;
    if (p.block != t.region->shared_of) k.report("bulk", "st.async: destination and mbarrier are in different blocks", &w, l);
    Access a = access_of(w, 1u << l, i, true);
    a.stamp.lanes = kManyLanes, a.stamp.dim = p.barrier->dim, a.stamp.clock = p.barrier->phase + 1;
    if (i.imm) a.stamp.inst |= kStrong;
    if (t.region->shadow) t.region->shadow->range(k, t.offset, bytes, a);
    uint8_t value[16];
    for (int e = 0; e < i.a[4]; ++e)
      std::memcpy(value + unsigned(e) * element, w.in<uint8_t>(list[2 + e]) + unsigned(l) * element, element);
    std::vector<uint8_t> kept(value, value + bytes);
    Block *block = p.block;
    uint64_t offset = p.offset;
    uint8_t *host = t.host;
    int inst = i.index;
    int64_t reduction = i.imm;
    start(*w.block->cluster, [=] {
      if (reduction) reduce(int(reduction & 255), int(reduction >> 8), host, kept.data(), bytes);
      else std::memcpy(host, kept.data(), bytes);
      complete_tx(*block, offset, bytes, inst);
    });
  }
}

SIM_OPS(bulk) {
  add("bulk.commit_group", commit), add("bulk.wait_group", wait_group);
  add("bulk.copy", bulk_copy), add("st.async", store_async);
}

}  // namespace
}  // namespace sim
