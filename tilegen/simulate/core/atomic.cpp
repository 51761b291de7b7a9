// atom, red (PTX ISA 9.7.13.5 and on): lanes in order, each indivisible.
#include <algorithm>

#include "memory.h"
#include "numbers.h"

namespace sim {
namespace {

template <class T> T inc(T old, T limit) { return old >= limit ? 0 : T(old + 1); }
template <class T> T dec(T old, T limit) { return old == 0 || old > limit ? limit : T(old - 1); }

struct Add { template <class T> static T of(T a, T b, T) { return T(a + b); } };
struct Min { template <class T> static T of(T a, T b, T) { return std::min(a, b); } };
struct Max { template <class T> static T of(T a, T b, T) { return std::max(a, b); } };
struct And { template <class T> static T of(T a, T b, T) { return a & b; } };
struct Or { template <class T> static T of(T a, T b, T) { return a | b; } };
struct Xor { template <class T> static T of(T a, T b, T) { return a ^ b; } };
struct Exch { template <class T> static T of(T, T b, T) { return b; } };
struct Cas { template <class T> static T of(T a, T b, T c) { return a == b ? c : a; } };
struct Inc { template <class T> static T of(T a, T b, T) { return inc(a, b); } };
struct Dec { template <class T> static T of(T a, T b, T) { return dec(a, b); } };
struct AddFloat { static uint32_t of(uint32_t a, uint32_t b, uint32_t) { return bits_of(canonical(float_of(a) + float_of(b))); } };
// In global memory subnormal operands and results count as zero.
struct AddFlushed {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t) { return bits_of(flush(canonical(flush(float_of(a)) + flush(float_of(b))))); }
};
struct AddDouble { static uint64_t of(uint64_t a, uint64_t b, uint64_t) { return bit_copy<uint64_t>(bit_copy<double>(a) + bit_copy<double>(b)); } };

enum Combine { kAdd, kMin, kMax };
template <int kWhat> uint16_t f16_of(uint16_t a, uint16_t b) {
  double x = f16_to(a), y = f16_to(b);
  return kWhat == kAdd ? f16_from(add_to_odd(x, y)) : (kWhat == kMin) == (x < y) ? a : b;
}
template <int kWhat> uint16_t bf16_of(uint16_t a, uint16_t b) {
  double x = bf16_to(a), y = bf16_to(b);
  return kWhat == kAdd ? bf16_from(add_to_odd(x, y)) : (kWhat == kMin) == (x < y) ? a : b;
}
template <uint16_t (*kOf)(uint16_t, uint16_t)>
struct One { static uint16_t of(uint16_t a, uint16_t b, uint16_t) { return kOf(a, b); } };
template <uint16_t (*kOf)(uint16_t, uint16_t)>
struct Two {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t) {
    return kOf(uint16_t(a), uint16_t(b)) | uint32_t(kOf(uint16_t(a >> 16), uint16_t(b >> 16))) << 16;
  }
};

// a: unused, address slot, address register bytes, space, vector length, release, acquire (bits of a[5]).
// list: operands b (vector), then c for cas (INT32_MIN: none), then destinations (-1: none, as in red).
template <class T, class F>
void atomic(Warp &w, const Inst &i, Mask m) {
  int n = i.a[4];
  const int32_t *b = &w.m->pool[size_t(i.list)], *c = b + n, *d = c + 1;
  uint64_t address[kLanes];
  addresses(w, i.a[1], i.a[2], i.imm, address);
  if (i.a[3] == kShared && i.a[2] == 0)
    for (uint64_t &a : address) a += shared_base(w);
  Access a = access_of(w, m, i, true);
  a.stamp.inst |= kStrong;
  a.stamp.lanes = kManyLanes;
  Locator find(w, i, i.a[3], true);
  unsigned bytes = unsigned(sizeof(T)) * unsigned(n);
  bool shared = i.a[3] == kShared || (i.a[3] == kGeneric && space_of(address[w.first_lane(m)]) == kShared);
  if (shared) count_shared(*w.m, i, address, m, bytes);
  else count_global(*w.m, i, address, m, bytes);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Place p = find.at(address[l], bytes, l, bytes);
    if (!p.host) continue;
    if (p.region->shadow) p.region->shadow->range(*w.m, p.offset, bytes, a);
    if (!shared) publish_global(w, m, address[l], i.a[5] & 1);
    for (int k = 0; k < n; ++k) {
      T old, third = c[0] != INT32_MIN ? w.in<T>(c[0])[l] : T(0);
      std::memcpy(&old, p.host + size_t(k) * sizeof(T), sizeof old);
      T next = F::of(old, w.in<T>(b[k])[l], third);
      std::memcpy(p.host + size_t(k) * sizeof(T), &next, sizeof next);
      if (d[k] >= 0) w.out<T>(d[k])[l] = old;
    }
    if (!shared) acquire_global(w, m, address[l], i.a[5] & 2);
  }
  ++w.m->progress;
  if (shared) ++w.block->cluster->progress;
}

template <class T>
void bits(Registry &add, const char *t) {
  add({"atom.and.", t}, atomic<T, And>), add({"atom.or.", t}, atomic<T, Or>), add({"atom.xor.", t}, atomic<T, Xor>);
  add({"atom.exch.", t}, atomic<T, Exch>), add({"atom.cas.", t}, atomic<T, Cas>), add({"atom.add.", t}, atomic<T, Add>);
}
template <class T>
void ordered(Registry &add, const char *t) {
  add({"atom.min.", t}, atomic<T, Min>), add({"atom.max.", t}, atomic<T, Max>);
}

SIM_OPS(atomic) {
  bits<uint32_t>(add, "b32"), bits<uint64_t>(add, "b64");
  add("atom.cas.b16", atomic<uint16_t, Cas>);
  ordered<uint32_t>(add, "u32"), ordered<int32_t>(add, "s32"), ordered<uint64_t>(add, "u64"), ordered<int64_t>(add, "s64");
  add("atom.inc.u32", atomic<uint32_t, Inc>), add("atom.dec.u32", atomic<uint32_t, Dec>);
  add("atom.add.f32", atomic<uint32_t, AddFloat>), add("atom.add.ftz.f32", atomic<uint32_t, AddFlushed>), add("atom.add.f64", atomic<uint64_t, AddDouble>);
  add("atom.add.f16", atomic<uint16_t, One<f16_of<kAdd>>>), add("atom.add.bf16", atomic<uint16_t, One<bf16_of<kAdd>>>);
  add("atom.add.f16x2", atomic<uint32_t, Two<f16_of<kAdd>>>), add("atom.add.bf16x2", atomic<uint32_t, Two<bf16_of<kAdd>>>);
  add("atom.min.f16x2", atomic<uint32_t, Two<f16_of<kMin>>>), add("atom.min.bf16x2", atomic<uint32_t, Two<bf16_of<kMin>>>);
  add("atom.max.f16x2", atomic<uint32_t, Two<f16_of<kMax>>>), add("atom.max.bf16x2", atomic<uint32_t, Two<bf16_of<kMax>>>);
}

}  // namespace
}  // namespace sim
