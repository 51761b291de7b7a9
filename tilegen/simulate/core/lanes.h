// Loops over the 32 lanes that the compiler can vectorise, with and without a mask.
#pragma once
#include "machine.h"

namespace sim {

// d[l] = f(l) for the lanes of m. Source and destination rows are equal or disjoint, so lanes are independent.
template <class D, class F>
inline void each_lane(D *d, Mask m, F f) {
  if (m == kFull) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = f(l);
  } else {
    D old[kLanes];
    std::memcpy(old, d, sizeof old);
    for (int l = 0; l < kLanes; ++l)
      if (m >> l & 1) old[l] = f(l);
    std::memcpy(d, old, sizeof old);
  }
}

template <class F>
inline Mask lane_bits(Mask m, F f) {
  Mask bits = 0;
  for (int l = 0; l < kLanes; ++l) bits |= Mask(f(l) ? 1 : 0) << l;
  return bits & m;
}

// Handlers from functors: D, A, B, C are the element types, Fn a struct with a static `of`.
template <class D, class A, class Fn>
void unary(Warp &w, const Inst &i, Mask m) {
  const A *a = w.in<A>(i.a[1]);
  each_lane(w.out<D>(i.a[0]), m, [=](int l) { return D(Fn::of(a[l])); });
}
template <class D, class A, class B, class Fn>
void binary(Warp &w, const Inst &i, Mask m) {
  const A *a = w.in<A>(i.a[1]);
  const B *b = w.in<B>(i.a[2]);
  each_lane(w.out<D>(i.a[0]), m, [=](int l) { return D(Fn::of(a[l], b[l])); });
}
template <class D, class A, class B, class C, class Fn>
void ternary(Warp &w, const Inst &i, Mask m) {
  const A *a = w.in<A>(i.a[1]);
  const B *b = w.in<B>(i.a[2]);
  const C *c = w.in<C>(i.a[3]);
  each_lane(w.out<D>(i.a[0]), m, [=](int l) { return D(Fn::of(a[l], b[l], c[l])); });
}

}  // namespace sim
