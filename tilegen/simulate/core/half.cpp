// f16 and bf16 arithmetic, single and packed (PTX ISA 9.7.4). Computed in double, rounded once.
#include "lanes.h"
#include "numbers.h"

namespace sim {
namespace {

struct F16 {
  static double to(uint16_t v) { return f16_to(v); }
  static uint16_t from(double v) { return f16_from(v); }
  static uint16_t quiet(uint16_t v) { return (v & 0x7fff) > 0x7c00 ? 0x7fff : v; }
  static uint16_t small(uint16_t v) { return v & 0x7c00 ? v : v & 0x8000; }
};
struct Bf16 {
  static double to(uint16_t v) { return bf16_to(v); }
  static uint16_t from(double v) { return bf16_from(v); }
  static uint16_t quiet(uint16_t v) { return (v & 0x7fff) > 0x7f80 ? 0x7fff : v; }
  static uint16_t small(uint16_t v) { return v; }
};

struct Add { static double of(double a, double b) { return add_to_odd(a, b); } };
struct Sub { static double of(double a, double b) { return add_to_odd(a, -b); } };
struct Mul { static double of(double a, double b) { return a * b; } };
struct Fma { static double of(double a, double b, double c) { return add_to_odd(a * b, c); } };
struct Ex2 { static double of(double a) { return std::exp2(a); } };
struct Tanh { static double of(double a) { return std::tanh(a); } };

template <class H, bool kFtz> uint16_t in_h(uint16_t v) { return kFtz ? H::small(v) : v; }
template <class H, bool kFtz, bool kSat, bool kRelu>
uint16_t out_h(double v) {
  if (kSat) v = saturate(v);
  if (kRelu) v = positive(v);
  uint16_t r = H::from(v);
  return kFtz ? H::small(r) : r;
}

// kWide: two values in 32 bits. `T` is the register's element.
template <class T, class F>
void map1(Warp &w, const Inst &i, Mask m, F f) {
  const T *a = w.in<T>(i.a[1]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) {
    T r = f(uint16_t(a[l]));
    if (sizeof(T) == 4) r |= T(T(f(uint16_t(uint32_t(a[l]) >> 16))) << (sizeof(T) == 4 ? 16 : 0));
    return r;
  });
}
template <class T, class F>
void map3(Warp &w, const Inst &i, Mask m, int operands, F f) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]), *c = operands == 3 ? w.in<T>(i.a[3]) : a;
  each_lane(w.out<T>(i.a[0]), m, [=](int l) {
    T r = f(uint16_t(a[l]), uint16_t(b[l]), uint16_t(c[l]));
    if (sizeof(T) == 4) {
      uint32_t x = a[l], y = b[l], z = c[l];
      r |= T(T(f(uint16_t(x >> 16), uint16_t(y >> 16), uint16_t(z >> 16))) << (sizeof(T) == 4 ? 16 : 0));
    }
    return r;
  });
}

template <class H, class T, class F, bool kFtz, bool kSat>
void two(Warp &w, const Inst &i, Mask m) {
  map3<T>(w, i, m, 2, [](uint16_t a, uint16_t b, uint16_t) {
    return out_h<H, kFtz, kSat, false>(F::of(H::to(in_h<H, kFtz>(a)), H::to(in_h<H, kFtz>(b))));
  });
}
template <class H, class T, bool kFtz, bool kSat, bool kRelu>
void fma_of(Warp &w, const Inst &i, Mask m) {
  map3<T>(w, i, m, 3, [](uint16_t a, uint16_t b, uint16_t c) {
    return out_h<H, kFtz, kSat, kRelu>(Fma::of(H::to(in_h<H, kFtz>(a)), H::to(in_h<H, kFtz>(b)), H::to(in_h<H, kFtz>(c))));
  });
}
template <class H, class T, class F, bool kFtz>
void approx(Warp &w, const Inst &i, Mask m) {
  map1<T>(w, i, m, [](uint16_t a) { return out_h<H, kFtz, false, false>(F::of(H::to(in_h<H, kFtz>(a)))); });
}
template <class H, class T, bool kAbs, bool kFtz>
void sign(Warp &w, const Inst &i, Mask m) {
  map1<T>(w, i, m, [](uint16_t a) { return H::quiet(uint16_t(kAbs ? in_h<H, kFtz>(a) & 0x7fff : in_h<H, kFtz>(a) ^ 0x8000)); });
}
template <class H, class T, bool kMax, bool kNan, bool kFtz>
void extreme(Warp &w, const Inst &i, Mask m) {
  map3<T>(w, i, m, 2, [](uint16_t a, uint16_t b, uint16_t) {
    a = in_h<H, kFtz>(a), b = in_h<H, kFtz>(b);
    double x = H::to(a), y = H::to(b);
    if (x != x) return H::quiet(kNan ? a : b);
    if (y != y) return H::quiet(kNan ? b : a);
    bool first = x == y ? bool(a >> 15) != kMax : (x < y) != kMax;
    return first ? a : b;
  });
}

template <class H, class T>
void format(Registry &add, const char *t, bool ftz) {
  add({"add.", t}, two<H, T, Add, false, false>), add({"add.sat.", t}, two<H, T, Add, false, true>);
  add({"sub.", t}, two<H, T, Sub, false, false>), add({"sub.sat.", t}, two<H, T, Sub, false, true>);
  add({"mul.", t}, two<H, T, Mul, false, false>), add({"mul.sat.", t}, two<H, T, Mul, false, true>);
  add({"fma.", t}, fma_of<H, T, false, false, false>), add({"fma.sat.", t}, fma_of<H, T, false, true, false>);
  add({"fma.relu.", t}, fma_of<H, T, false, false, true>);
  add({"neg.", t}, sign<H, T, false, false>), add({"abs.", t}, sign<H, T, true, false>);
  add({"min.", t}, extreme<H, T, false, false, false>), add({"min.NaN.", t}, extreme<H, T, false, true, false>);
  add({"max.", t}, extreme<H, T, true, false, false>), add({"max.NaN.", t}, extreme<H, T, true, true, false>);
  add({"ex2.", t}, approx<H, T, Ex2, false>), add({"tanh.", t}, approx<H, T, Tanh, false>);
  add({"ex2.ftz.", t}, approx<H, T, Ex2, true>);
  if (!ftz) return;
  add({"add.ftz.", t}, two<H, T, Add, true, false>), add({"sub.ftz.", t}, two<H, T, Sub, true, false>);
  add({"mul.ftz.", t}, two<H, T, Mul, true, false>), add({"fma.ftz.", t}, fma_of<H, T, true, false, false>);
  add({"fma.ftz.relu.", t}, fma_of<H, T, true, false, true>);
  add({"neg.ftz.", t}, sign<H, T, false, true>), add({"abs.ftz.", t}, sign<H, T, true, true>);
  add({"min.ftz.", t}, extreme<H, T, false, false, true>), add({"max.ftz.", t}, extreme<H, T, true, false, true>);
}

SIM_OPS(half) {
  format<F16, uint16_t>(add, "f16", true), format<F16, uint32_t>(add, "f16x2", true);
  format<Bf16, uint16_t>(add, "bf16", false), format<Bf16, uint32_t>(add, "bf16x2", false);
}

}  // namespace
}  // namespace sim
