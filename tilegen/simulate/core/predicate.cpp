// Comparisons, selection, predicate logic and moves (PTX ISA 9.7.5 to 9.7.7, 9.7.9).
#include "compare.h"
#include "numbers.h"

namespace sim {
namespace {

template <class T> struct As { using type = T; static T to(T v) { return v; } };
template <class T> struct AsFlushed { using type = T; static T to(T v) { return flush(v); } };

// a: p, q or -1, operand, operand, combining predicate; imm: none, and, or, xor.
template <class A, class F>
void setp(Warp &w, const Inst &i, Mask m) {
  auto *a = w.in<typename A::type>(i.a[2]), *b = w.in<typename A::type>(i.a[3]);
  Mask r = 0;
  for (int l = 0; l < kLanes; ++l) r |= Mask(F::of(A::to(a[l]), A::to(b[l]))) << l;
  Mask c = i.imm ? w.pred(i.a[4]) : 0;
  store_predicate(w, i.a[0], m, combine(int(i.imm), r, c));
  store_predicate(w, i.a[1], m, combine(int(i.imm), ~r, c));
}
template <class A>
void ordered(Registry &add, const char *t) {
  add({"setp.eq.", t}, setp<A, Eq>), add({"setp.ne.", t}, setp<A, Ne>), add({"setp.lt.", t}, setp<A, Lt>);
  add({"setp.le.", t}, setp<A, Le>), add({"setp.gt.", t}, setp<A, Gt>), add({"setp.ge.", t}, setp<A, Ge>);
}
template <class A>
void unordered(Registry &add, const char *t) {
  ordered<A>(add, t);
  add({"setp.equ.", t}, setp<A, Or_nan<Eq>>), add({"setp.neu.", t}, setp<A, Or_nan<Ne>>);
  add({"setp.ltu.", t}, setp<A, Or_nan<Lt>>), add({"setp.leu.", t}, setp<A, Or_nan<Le>>);
  add({"setp.gtu.", t}, setp<A, Or_nan<Gt>>), add({"setp.geu.", t}, setp<A, Or_nan<Ge>>);
  add({"setp.num.", t}, setp<A, Num>), add({"setp.nan.", t}, setp<A, Nan>);
}

template <class T>
void selp(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]);
  Mask p = w.pred(i.a[3]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) { return p >> l & 1 ? a[l] : b[l]; });
}
template <class T, class S>
void slct(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]);
  const S *c = w.in<S>(i.a[3]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) { return c[l] >= 0 ? a[l] : b[l]; });
}
template <int kOp>
void logic(Warp &w, const Inst &i, Mask m) {
  Mask a = w.pred(i.a[1]), b = w.pred(i.a[2]);
  store_predicate(w, i.a[0], m, kOp == 0 ? a & b : kOp == 1 ? a | b : kOp == 2 ? a ^ b : kOp == 3 ? ~a : a);
}
template <class T>
void mov(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) { return a[l]; });
}
// pack: destination, then parts from low to high. unpack: source in a[0], parts after it, -1 for `_`.
template <class T, class P>
void pack(Warp &w, const Inst &i, Mask m) {
  constexpr int parts = sizeof(T) / sizeof(P);
  const P *p[parts];
  for (int k = 0; k < parts; ++k) p[k] = w.in<P>(i.a[1 + k]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) {
    T r = 0;
    for (int k = 0; k < parts; ++k) r |= T(T(p[k][l]) << (8 * sizeof(P) * k));
    return r;
  });
}
template <class T, class P>
void unpack(Warp &w, const Inst &i, Mask m) {
  T s[kLanes];
  std::memcpy(s, w.in<T>(i.a[0]), sizeof s);
  for (size_t k = 0; k < sizeof(T) / sizeof(P); ++k)
    if (i.imm >> k & 1)
      each_lane(w.out<P>(i.a[1 + k]), m, [&](int l) { return P(s[l] >> (8 * sizeof(P) * k)); });
}

SIM_OPS(predicate) {
  ordered<As<uint16_t>>(add, "u16"), ordered<As<int16_t>>(add, "s16"), ordered<As<uint32_t>>(add, "u32");
  ordered<As<int32_t>>(add, "s32"), ordered<As<uint64_t>>(add, "u64"), ordered<As<int64_t>>(add, "s64");
  unordered<As<float>>(add, "f32"), unordered<As<double>>(add, "f64"), unordered<AsFlushed<float>>(add, "ftz.f32");
  add("selp.b16", selp<uint16_t>), add("selp.b32", selp<uint32_t>), add("selp.b64", selp<uint64_t>);
  add("slct.b32.s32", slct<uint32_t, int32_t>), add("slct.b32.f32", slct<uint32_t, float>);
  add("slct.b64.s32", slct<uint64_t, int32_t>), add("slct.b64.f32", slct<uint64_t, float>);
  add("and.pred", logic<0>), add("or.pred", logic<1>), add("xor.pred", logic<2>), add("not.pred", logic<3>), add("mov.pred", logic<4>);
  add("mov.b16", mov<uint16_t>), add("mov.b32", mov<uint32_t>), add("mov.b64", mov<uint64_t>);
  add("pack.b32.b16", pack<uint32_t, uint16_t>), add("pack.b64.b32", pack<uint64_t, uint32_t>), add("pack.b64.b16", pack<uint64_t, uint16_t>);
  add("unpack.b32.b16", unpack<uint32_t, uint16_t>), add("unpack.b64.b32", unpack<uint64_t, uint32_t>), add("unpack.b64.b16", unpack<uint64_t, uint16_t>);
}

}  // namespace
}  // namespace sim
