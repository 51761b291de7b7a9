// Comparisons of f16 and bf16, one or two in a register (PTX ISA 9.7.6, 9.7.7).
//
// Both formats share one body for each comparison, which widens first: a body for each was slow to compile.
#include "compare.h"
#include "numbers.h"

namespace sim {
namespace {

using Widen = float (*)(uint16_t);

struct Widened {
  float v[kLanes];
  template <class T>
  Widened(const T *bits, int shift, Widen to) {
    for (int l = 0; l < kLanes; ++l) v[l] = to(uint16_t(bits[l] >> shift));
  }
};

template <class F>
Mask compared(const Widened &a, const Widened &b) {
  Mask r = 0;
  for (int l = 0; l < kLanes; ++l) r |= Mask(F::of(a.v[l], b.v[l])) << l;
  return r;
}

template <class F>
__attribute__((noinline)) void setp_widened(Warp &w, const Inst &i, Mask m, Widen to) {
  const uint16_t *a = w.in<uint16_t>(i.a[2]), *b = w.in<uint16_t>(i.a[3]);
  Mask r = compared<F>({a, 0, to}, {b, 0, to}), c = i.imm ? w.pred(i.a[4]) : 0;
  store_predicate(w, i.a[0], m, combine(int(i.imm), r, c));
  store_predicate(w, i.a[1], m, combine(int(i.imm), ~r, c));
}
// Of a pair, p is the low half's result and q the high one's.
template <class F>
__attribute__((noinline)) void setp2_widened(Warp &w, const Inst &i, Mask m, Widen to) {
  const uint32_t *a = w.in<uint32_t>(i.a[2]), *b = w.in<uint32_t>(i.a[3]);
  Mask c = i.imm ? w.pred(i.a[4]) : 0;
  store_predicate(w, i.a[0], m, combine(int(i.imm), compared<F>({a, 0, to}, {b, 0, to}), c));
  store_predicate(w, i.a[1], m, combine(int(i.imm), compared<F>({a, 16, to}, {b, 16, to}), c));
}
// set on a pair: 1.0 or all ones in each half (imm: the pattern). Other types are setp and selp.
template <class F>
__attribute__((noinline)) void set2_widened(Warp &w, const Inst &i, Mask m, Widen to) {
  const uint32_t *a = w.in<uint32_t>(i.a[1]), *b = w.in<uint32_t>(i.a[2]);
  uint32_t yes = uint32_t(i.imm) & 0xffff;
  Mask low = compared<F>({a, 0, to}, {b, 0, to}), high = compared<F>({a, 16, to}, {b, 16, to});
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) { return (low >> l & 1 ? yes : 0) | (high >> l & 1 ? yes << 16 : 0); });
}

template <Widen kTo, class F>
void setp(Warp &w, const Inst &i, Mask m) { setp_widened<F>(w, i, m, kTo); }
template <Widen kTo, class F>
void setp2(Warp &w, const Inst &i, Mask m) { setp2_widened<F>(w, i, m, kTo); }
template <Widen kTo, class F>
void set2(Warp &w, const Inst &i, Mask m) { set2_widened<F>(w, i, m, kTo); }

template <Widen kTo, class F>
void one(Registry &add, const char *c, const char *t) {
  add({"setp.", c, ".", t}, setp<kTo, F>);
  add({"setp.", c, ".", t, "x2"}, setp2<kTo, F>);
  add({"set.", c, ".", t, "x2"}, set2<kTo, F>);
}
template <Widen kTo>
void all(Registry &add, const char *t) {
  one<kTo, Eq>(add, "eq", t), one<kTo, Ne>(add, "ne", t), one<kTo, Lt>(add, "lt", t);
  one<kTo, Le>(add, "le", t), one<kTo, Gt>(add, "gt", t), one<kTo, Ge>(add, "ge", t);
  one<kTo, Or_nan<Eq>>(add, "equ", t), one<kTo, Or_nan<Ne>>(add, "neu", t);
  one<kTo, Or_nan<Lt>>(add, "ltu", t), one<kTo, Or_nan<Gt>>(add, "gtu", t);
  one<kTo, Or_nan<Le>>(add, "leu", t), one<kTo, Or_nan<Ge>>(add, "geu", t);
  one<kTo, Num>(add, "num", t), one<kTo, Nan>(add, "nan", t);
}

SIM_OPS(half_predicate) { all<f16_to>(add, "f16"), all<bf16_to>(add, "bf16"); }

}  // namespace
}  // namespace sim
