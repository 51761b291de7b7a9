// f32 and f64 arithmetic (PTX ISA 9.7.3). NaN results are the canonical NaN; a host fma rounds once.
#include <algorithm>

#include "lanes.h"
#include "numbers.h"

namespace sim {
namespace {

template <bool kFtz> inline float in_f(float v) { return kFtz ? flush(v) : v; }
template <bool kFtz> inline double in_f(double v) { return v; }
template <bool kFtz, bool kSat, class T>
inline T out_f(T v) {
  if (kSat) return in_f<kFtz>(saturate(v));
  v = canonical(v);
  return in_f<kFtz>(v);
}

inline float quiet(float) { return float_of(kNan32); }
inline double quiet(double) { return bit_copy<double>(0x7ff8000000000000ull); }

struct Add { template <class T> static T of(T a, T b) { return a + b; } };
struct Sub { template <class T> static T of(T a, T b) { return a - b; } };
struct Mul { template <class T> static T of(T a, T b) { return a * b; } };
struct Div { template <class T> static T of(T a, T b) { return a / b; } };
struct Fma {
  static float of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double of(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
// A NaN operand loses; the smaller of -0 and +0 is -0.
struct Min { template <class T> static T of(T a, T b) { return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b; } };
struct Max { template <class T> static T of(T a, T b) { return a != a ? b : b != b ? a : a > b || (a == b && !std::signbit(a)) ? a : b; } };
struct MinNan { template <class T> static T of(T a, T b) { return a != a ? a : b != b ? b : Min::of(a, b); } };
struct MaxNan { template <class T> static T of(T a, T b) { return a != a ? a : b != b ? b : Max::of(a, b); } };
// Magnitudes compared, the sign the exclusive or of both signs.
template <class F> struct XorSign {
  template <class T> static T of(T a, T b) {
    T r = F::of(std::fabs(a), std::fabs(b));
    return r != r ? r : std::copysign(r, T(std::signbit(a) != std::signbit(b) ? -1 : 1));
  }
};
struct Neg { template <class T> static T of(T a) { return a != a ? quiet(T()) : -a; } };
struct Abs { template <class T> static T of(T a) { return a != a ? quiet(T()) : std::fabs(a); } };
struct Sqrt { template <class T> static T of(T a) { return std::sqrt(a); } };
struct Rcp { template <class T> static T of(T a) { return T(1) / a; } };
struct Rsqrt {
  static float of(float a) { return float(1.0 / std::sqrt(double(a))); }
  static double of(double a) { return 1.0 / std::sqrt(a); }
};
struct Lg2 { static float of(float a) { return float(std::log2(double(a))); } };
struct Sin { static float of(float a) { return float(std::sin(double(a))); } };
struct Cos { static float of(float a) { return float(std::cos(double(a))); } };
struct Tanh { static float of(float a) { return float(std::tanh(double(a))); } };
// 2^x within 1 ulp, in code that vectorises: x = n + f, |f| <= 1/2, Taylor terms of 2^f, two steps of scaling.
struct Ex2 {
  static float of(float x) {
    float c = x > 200.0f ? 200.0f : (x < -200.0f ? -200.0f : x);
    c = x != x ? 0.0f : c;
    float n = (c + 12582912.0f) - 12582912.0f, f = c - n;
    float p = 1.5252733804e-5f;
    p = p * f + 1.5403530394e-4f;
    p = p * f + 1.3333558146e-3f;
    p = p * f + 9.6181291076e-3f;
    p = p * f + 5.5504108664e-2f;
    p = p * f + 2.4022650696e-1f;
    p = p * f + 6.9314718056e-1f;
    p = p * f + 1.0f;
    int32_t whole = int32_t(n), half = whole >> 1;
    float r = p * float_of(uint32_t(127 + half) << 23) * float_of(uint32_t(127 + (whole - half)) << 23);
    return x != x ? x : r;
  }
};

template <class T, class F, bool kFtz, bool kSat>
void one(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) { return out_f<kFtz, kSat>(F::of(in_f<kFtz>(a[l]))); });
}
template <class T, class F, bool kFtz, bool kSat>
void two(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) { return out_f<kFtz, kSat>(F::of(in_f<kFtz>(a[l]), in_f<kFtz>(b[l]))); });
}
template <class T, class F, bool kFtz, bool kSat>
void three(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]), *c = w.in<T>(i.a[3]);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) {
    return out_f<kFtz, kSat>(F::of(in_f<kFtz>(a[l]), in_f<kFtz>(b[l]), in_f<kFtz>(c[l])));
  });
}

// Names: operation [.ftz] [.sat] .f32
#define SIM_VARIANTS(shape, name, F)                                                     \
  add(name ".f32", shape<float, F, false, false>), add(name ".ftz.f32", shape<float, F, true, false>); \
  add(name ".sat.f32", shape<float, F, false, true>), add(name ".ftz.sat.f32", shape<float, F, true, true>); \
  add(name ".f64", shape<double, F, false, false>)
#define SIM_APPROX(name, F) \
  add(name ".f32", one<float, F, false, false>), add(name ".ftz.f32", one<float, F, true, false>)

#define SIM_APPROX2(name, F) \
  add(name ".f32", two<float, F, false, false>), add(name ".ftz.f32", two<float, F, true, false>)

template <class T, class B>
void copysign_of(Warp &w, const Inst &i, Mask m) {
  const B *a = w.in<B>(i.a[1]), *b = w.in<B>(i.a[2]);
  constexpr B sign = B(1) << (8 * sizeof(B) - 1);
  each_lane(w.out<B>(i.a[0]), m, [=](int l) { return B((b[l] & ~sign) | (a[l] & sign)); });
}

template <class T, int kClass>
void testp(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]);
  Mask r = lane_bits(m, [=](int l) {
    int c = std::fpclassify(a[l]);
    if (kClass == 0) return c != FP_NAN && c != FP_INFINITE;
    if (kClass == 1) return c == FP_INFINITE;
    if (kClass == 2) return c != FP_NAN;
    if (kClass == 3) return c == FP_NAN;
    if (kClass == 4) return c == FP_NORMAL || c == FP_ZERO;  // zero counts as normal
    return c == FP_SUBNORMAL;
  });
  w.preds[i.a[0]] = (w.preds[i.a[0]] & ~m) | r;
}

SIM_OPS(real) {
  SIM_VARIANTS(two, "add", Add);
  SIM_VARIANTS(two, "sub", Sub);
  SIM_VARIANTS(two, "mul", Mul);
  SIM_VARIANTS(two, "div", Div);
  SIM_VARIANTS(three, "fma", Fma);
  SIM_VARIANTS(two, "min", Min);
  SIM_VARIANTS(two, "max", Max);
  SIM_VARIANTS(two, "min.NaN", MinNan);
  SIM_VARIANTS(two, "max.NaN", MaxNan);
  SIM_APPROX2("min.xorsign.abs", XorSign<Min>);
  SIM_APPROX2("max.xorsign.abs", XorSign<Max>);
  SIM_APPROX2("min.NaN.xorsign.abs", XorSign<MinNan>);
  SIM_APPROX2("max.NaN.xorsign.abs", XorSign<MaxNan>);
  SIM_VARIANTS(one, "neg", Neg);
  SIM_VARIANTS(one, "abs", Abs);
  SIM_VARIANTS(one, "sqrt", Sqrt);
  SIM_VARIANTS(one, "rcp", Rcp);
  SIM_VARIANTS(one, "rsqrt", Rsqrt);
  SIM_APPROX("ex2", Ex2);
  SIM_APPROX("lg2", Lg2);
  SIM_APPROX("sin", Sin);
  SIM_APPROX("cos", Cos);
  SIM_APPROX("tanh", Tanh);
  add("copysign.f32", copysign_of<float, uint32_t>), add("copysign.f64", copysign_of<double, uint64_t>);
  add("testp.finite.f32", testp<float, 0>), add("testp.infinite.f32", testp<float, 1>);
  add("testp.number.f32", testp<float, 2>), add("testp.notanumber.f32", testp<float, 3>);
  add("testp.normal.f32", testp<float, 4>), add("testp.subnormal.f32", testp<float, 5>);
  add("testp.finite.f64", testp<double, 0>), add("testp.infinite.f64", testp<double, 1>);
  add("testp.number.f64", testp<double, 2>), add("testp.notanumber.f64", testp<double, 3>);
}

}  // namespace
}  // namespace sim
