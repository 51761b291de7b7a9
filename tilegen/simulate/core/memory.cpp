// Loads, stores, and non-bulk asynchronous copies (PTX ISA 9.7.9).
#include "memory.h"

namespace sim {
namespace {

enum Semantics : int { kWeak, kRelaxed, kAcquireRelease };  // a[5]: volatile counts as relaxed

struct Operand {
  int space;
  uint64_t address[kLanes];
  bool is_shared;
};

void place(Warp &w, const Inst &i, Mask m, Operand &o) {
  o.space = i.a[3];
  addresses(w, i.a[1], i.a[2], i.imm, o.address);
  if (o.space == kShared && i.a[2] == 0)
    for (uint64_t &a : o.address) a += shared_base(w);
  o.is_shared = o.space == kShared || (o.space == kGeneric && space_of(o.address[w.first_lane(m)]) == kShared);
}

void count(Warp &w, const Inst &i, Mask m, const Operand &o, unsigned bytes) {
  if (o.is_shared) count_shared(*w.m, i, o.address, m, bytes);
  else if (o.space == kGlobal || (o.space == kGeneric && space_of(o.address[w.first_lane(m)]) == kGlobal))
    count_global(*w.m, i, o.address, m, bytes);
}

// a: unused, address slot, address register bytes, space, vector length, semantics. list: registers, -1 for `_`.
// T is the element in memory, R the register's element.
template <class T, class R>
void load(Warp &w, const Inst &i, Mask m) {
  int n = i.a[4];
  const int32_t *regs = &w.m->pool[size_t(i.list)];
  if (i.a[3] == kParam && i.a[2] == 0) {
    const uint8_t *p = w.m->params.data() + i.imm;
    for (int k = 0; k < n; ++k) {
      T v;
      std::memcpy(&v, p + size_t(k) * sizeof(T), sizeof v);
      if (regs[k] >= 0) each_lane(w.out<R>(regs[k]), m, [=](int) { return R(v); });
    }
    return;
  }
  Operand o;
  place(w, i, m, o);
  unsigned bytes = unsigned(sizeof(T)) * unsigned(n);
  count(w, i, m, o, bytes);
  Access a = access_of(w, m, i, false);
  if (i.a[5]) a.stamp.inst |= kStrong;
  Locator find(w, i, o.space, false);
  Gatherer gather(*w.m, a);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Place p = find.at(o.address[l], bytes, l, bytes);
    if (p.host) gather.add(p, bytes, l);
    for (int k = 0; k < n; ++k) {
      if (regs[k] < 0) continue;
      T v = T(-1);
      if (p.host) std::memcpy(&v, p.host + size_t(k) * sizeof(T), sizeof v);
      w.out<R>(regs[k])[l] = R(v);
    }
    if (i.a[5] && p.host && !o.is_shared) acquire_global(w, m, o.address[l], i.a[5] == kAcquireRelease);
  }
}

template <class T, class R>
void store(Warp &w, const Inst &i, Mask m) {
  int n = i.a[4];
  const int32_t *regs = &w.m->pool[size_t(i.list)];
  Operand o;
  place(w, i, m, o);
  unsigned bytes = unsigned(sizeof(T)) * unsigned(n);
  count(w, i, m, o, bytes);
  Access a = access_of(w, m, i, true);
  if (i.a[5]) a.stamp.inst |= kStrong;
  Locator find(w, i, o.space, true);
  Gatherer gather(*w.m, a);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Place p = find.at(o.address[l], bytes, l, bytes);
    if (!p.host) continue;
    gather.add(p, bytes, l);
    for (int k = 0; k < n; ++k) {
      T v = T(w.in<R>(regs[k])[l]);
      std::memcpy(p.host + size_t(k) * sizeof(T), &v, sizeof v);
    }
    if (i.a[5] && !o.is_shared) publish_global(w, m, o.address[l], i.a[5] == kAcquireRelease);
  }
  if (i.a[5] || !o.is_shared) ++w.m->progress;
  if (o.is_shared) ++w.block->cluster->progress;
}

// cp.async: a: destination slot, bytes; source slot, bytes; source-size slot (-1: all), ignore-source predicate (-1),
// copied bytes, destination offset, source space; imm: source offset.
void copy_async(Warp &w, const Inst &i, Mask m) {
  uint64_t to[kLanes], from[kLanes];
  addresses(w, i.a[0], i.a[1], i.a[7], to);
  if (i.a[1] == 0)
    for (uint64_t &t : to) t += shared_base(w);
  addresses(w, i.a[2], i.a[3], i.imm, from);
  unsigned bytes = unsigned(i.a[6]);
  count_shared(*w.m, i, to, m, bytes);
  Mask ignored = i.a[5] >= 0 ? w.pred(i.a[5]) : 0, reads = 0;
  Access wa = access_of(w, m, i, true), ra = access_of(w, m, i, false);
  wa.stamp.dim = uint16_t(w.dim + 2), wa.stamp.clock = w.copy_clock;
  ra.stamp.dim = wa.stamp.dim, ra.stamp.clock = w.copy_clock;
  Locator to_find(w, i, kShared, true), from_find(w, i, kGlobal, false);
  Gatherer written(*w.m, wa), read(*w.m, ra);
  struct Lane { uint8_t *to; const uint8_t *from; unsigned size; };
  std::vector<Lane> work;
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    unsigned size = bytes;
    if (i.a[4] != INT32_MIN) size = w.in<uint32_t>(i.a[4])[l];
    if (ignored >> l & 1) size = 0;
    if (size > bytes) {
      w.m->report("out-of-bounds", format("source size %u is more than the %u bytes to copy", size, bytes), &w, l);
      size = bytes;
    }
    Place t = to_find.at(to[l], bytes, l, bytes), f;
    if (size) f = from_find.at(from[l], size, l, bytes), reads |= 1u << l;
    if (!t.host || (size && !f.host)) continue;
    written.add(t, bytes, l);
    if (size == bytes) read.add(f, bytes, l);
    else if (size && f.region->shadow) ra.stamp.lanes = kManyLanes, f.region->shadow->range(*w.m, f.offset, size, ra);
    work.push_back({t.host, f.host, size});
  }
  if (reads) count_global(*w.m, i, from, reads, bytes);
  auto run = [work, bytes] {
    for (const Lane &k : work) {
      if (k.size) std::memcpy(k.to, k.from, k.size);
      std::memset(k.to + k.size, 0, bytes - k.size);
    }
  };
  if (w.m->lazy) w.copies.emplace_back(w.copy_clock, run);
  else run();
  ++w.block->cluster->progress;
}

void commit(Warp &w, const Inst &, Mask) { ++w.copy_clock; }
void wait_group(Warp &w, const Inst &i, Mask) {
  if (int64_t(w.copy_clock) - 1 - i.imm > 0) finish_copies(w, uint32_t(w.copy_clock - 1 - i.imm));
}
void wait_all(Warp &w, const Inst &, Mask) { finish_copies(w, w.copy_clock++); }

void nothing(Warp &, const Inst &, Mask) {}
void gpu_fence_op(Warp &w, const Inst &, Mask m) { gpu_fence(w, m); }

template <class T, class R>
void pair(Registry &add, const char *name) {
  add({"ld.", name}, load<T, R>);
  add({"st.", name}, store<T, R>);
}

SIM_OPS(memory) {
  // Names: memory type, register bytes.
  pair<uint8_t, uint16_t>(add, "u8.2"), pair<int8_t, uint16_t>(add, "s8.2"), pair<uint8_t, uint32_t>(add, "u8.4");
  pair<int8_t, uint32_t>(add, "s8.4"), pair<uint8_t, uint64_t>(add, "u8.8"), pair<int8_t, uint64_t>(add, "s8.8");
  pair<uint16_t, uint16_t>(add, "u16.2"), pair<int16_t, uint16_t>(add, "s16.2"), pair<uint16_t, uint32_t>(add, "u16.4");
  pair<int16_t, uint32_t>(add, "s16.4"), pair<uint16_t, uint64_t>(add, "u16.8"), pair<int16_t, uint64_t>(add, "s16.8");
  pair<uint32_t, uint32_t>(add, "u32.4"), pair<int32_t, uint32_t>(add, "s32.4"), pair<uint32_t, uint64_t>(add, "u32.8");
  pair<int32_t, uint64_t>(add, "s32.8"), pair<uint64_t, uint64_t>(add, "u64.8"), pair<int64_t, uint64_t>(add, "s64.8");
  add("cp.async", copy_async), add("cp.async.commit_group", commit);
  add("cp.async.wait_group", wait_group), add("cp.async.wait_all", wait_all);
  add("nothing", nothing), add("fence.gpu", gpu_fence_op);
}

}  // namespace

void finish_copies(Warp &w, uint32_t group) {
  if (group > w.copy_done) w.copy_done = group;
  for (auto &c : w.copies)
    if (c.first <= group && c.second) c.second(), c.second = nullptr;
  while (!w.copies.empty() && !w.copies.back().second) w.copies.pop_back();
}

}  // namespace sim
