// Conversions between number types (PTX ISA 9.7.9.21). The lowering passes type widths and modes as immediates.
#include "lanes.h"
#include "numbers.h"

namespace sim {
namespace {

// imm of an integer type: width in bits | signed << 8; of a conversion: bit fields below.
struct Modes {
  Round round;
  int integer;  // 0, or 1..4: rni, rzi, rmi, rpi
  bool sat, relu, ftz;
  explicit Modes(int64_t imm)
      : round(Round(imm >> 16 & 3)), integer(int(imm >> 18 & 7)), sat(imm >> 21 & 1), relu(imm >> 22 & 1), ftz(imm >> 23 & 1) {}
};
inline int width(int64_t imm) { return int(imm & 255); }
inline bool is_signed(int64_t imm) { return imm >> 8 & 1; }

inline uint64_t extend(uint64_t v, int bits, bool sign) {
  int s = 64 - bits;
  return sign ? uint64_t(int64_t(v << s) >> s) : v << s >> s;
}

// imm: destination type in bits 0-8, source type in bits 32-40, saturation in bit 21.
template <class D, class S>
void integer(Warp &w, const Inst &i, Mask m) {
  const S *a = w.in<S>(i.a[1]);
  int64_t dt = i.imm & 0x1ff, st = i.imm >> 32;
  int sb = width(st), db = width(dt);
  bool ss = is_signed(st), ds = is_signed(dt), sat = i.imm >> 21 & 1;
  if (!sat) {
    if (ss) each_lane(w.out<D>(i.a[0]), m, [=](int l) { return D(extend(extend(a[l], sb, true), db, ds)); });
    else each_lane(w.out<D>(i.a[0]), m, [=](int l) { return D(extend(extend(a[l], sb, false), db, ds)); });
    return;
  }
  each_lane(w.out<D>(i.a[0]), m, [=](int l) {
    __int128 v = ss ? __int128(int64_t(extend(a[l], sb, true))) : __int128(extend(a[l], sb, false));
    __int128 low = ds ? -(__int128(1) << (db - 1)) : 0, high = (__int128(1) << (ds ? db - 1 : db)) - 1;
    return D(v < low ? low : v > high ? high : v);
  });
}

struct F16 {
  using type = uint16_t;
  static double to(type v) { return f16_to(v); }
  static type from(double v, Round r) { return f16_from(v, r); }
};
struct Bf16 {
  using type = uint16_t;
  static double to(type v) { return bf16_to(v); }
  static type from(double v, Round r) { return bf16_from(v, r); }
};
struct F32 {
  using type = float;
  static double to(type v) { return v; }
  static type from(double v, Round r) { return r == Round::kNearest ? canonical(float(v)) : f32_from(v, r); }
};
struct F64 {
  using type = double;
  static double to(type v) { return v; }
  static type from(double v, Round) { return v; }
};

inline double to_integer(double v, int mode) {
  if (mode == 1) return std::nearbyint(v);
  if (mode == 2) return std::trunc(v);
  if (mode == 3) return std::floor(v);
  return std::ceil(v);
}

template <class To, class From>
void real(Warp &w, const Inst &i, Mask m) {
  auto *a = w.in<typename From::type>(i.a[1]);
  Modes k(i.imm);
  constexpr bool small_in = sizeof(typename From::type) == 4, small_out = sizeof(typename To::type) == 4;
  each_lane(w.out<typename To::type>(i.a[0]), m, [=](int l) {
    double v = From::to(a[l]);
    if (k.ftz && small_in) v = flush(float(v));
    if (k.integer) v = to_integer(v, k.integer);
    bool nan = v != v;
    if (k.sat) v = saturate(v);
    if (k.relu) v = positive(v);
    auto r = To::from(v, k.round);
    // From f64 the NaN of a narrower type is the plain quiet one.
    if (nan && v != v && sizeof(a[0]) == 8 && sizeof(r) < 8) {
      uint32_t bits = sizeof(r) == 4 ? 0x7fc00000u : 0x7e00u;
      std::memcpy(&r, &bits, sizeof r);
    }
    if (k.ftz && small_out) r = typename To::type(flush(float(r)));
    return r;
  });
}

template <class From, class C>
void to_int(Warp &w, const Inst &i, Mask m) {
  auto *a = w.in<typename From::type>(i.a[1]);
  Modes k(i.imm);
  int bits = width(i.imm);
  bool sign = is_signed(i.imm);
  double low = sign ? -std::ldexp(1.0, bits - 1) : 0.0, high = std::ldexp(1.0, sign ? bits - 1 : bits);
  uint64_t top = sign ? (uint64_t(1) << (bits - 1)) - 1 : bits == 64 ? ~0ull : (uint64_t(1) << bits) - 1;
  uint64_t bottom = sign ? uint64_t(-1) << (bits - 1) : 0;
  each_lane(w.out<C>(i.a[0]), m, [=](int l) {
    double v = From::to(a[l]);
    if (k.ftz && sizeof(a[0]) == 4) v = flush(float(v));
    // NaN: 0, but from f64 or to 64 bits the top bit alone.
    if (v != v) return C(bits == 64 || sizeof(a[0]) == 8 ? uint64_t(1) << (bits - 1) : 0);
    v = to_integer(v, k.integer);
    if (v >= high) return C(top);
    if (v <= low) return C(bottom);
    return C(sign ? uint64_t(int64_t(v)) : uint64_t(v));
  });
}

// A 64-bit integer as a double, rounded to odd: a second rounding to at most 24 bits is then exact.
inline double odd_double(uint64_t v, bool sign) {
  bool negative = sign && int64_t(v) < 0;
  uint64_t magnitude = negative ? 0 - v : v;
  if (magnitude >> 53) magnitude = (magnitude >> 11 | ((magnitude & 2047) ? 1 : 0)) << 11;
  return negative ? -double(magnitude) : double(magnitude);
}
// To double in a direction: the nearest, moved by one step where it lies on the wrong side.
inline double directed_double(uint64_t v, bool sign, Round round) {
  double d = sign ? double(int64_t(v)) : double(v);
  __int128 exact = sign ? __int128(int64_t(v)) : __int128(v), got = __int128(d);
  bool up = got > exact, down = got < exact, negative = exact < 0;
  if (up && (round == Round::kDown || (round == Round::kZero && !negative))) return std::nextafter(d, -HUGE_VAL);
  if (down && (round == Round::kUp || (round == Round::kZero && negative))) return std::nextafter(d, HUGE_VAL);
  return d;
}
template <class To, class C>
void from_int(Warp &w, const Inst &i, Mask m) {
  const C *a = w.in<C>(i.a[1]);
  Modes k(i.imm);
  int bits = width(i.imm);
  bool sign = is_signed(i.imm);
  each_lane(w.out<typename To::type>(i.a[0]), m, [=](int l) {
    uint64_t v = extend(a[l], bits, sign);
    if (sizeof(typename To::type) == 8) return typename To::type(directed_double(v, sign, k.round));
    return To::from(bits == 64 ? odd_double(v, sign) : sign ? double(int64_t(v)) : double(v), k.round);
  });
}

// cvt.pack: saturate two 32-bit integers to 16 or 8 bits; 8-bit results go below what the third operand holds.
// imm: width | destination signed << 8 | source signed << 9.
void pack_integers(Warp &w, const Inst &i, Mask m) {
  const uint32_t *a = w.in<uint32_t>(i.a[1]), *b = w.in<uint32_t>(i.a[2]), *c = w.in<uint32_t>(i.a[3]);
  int bits = width(i.imm);
  bool to = i.imm >> 8 & 1, from = i.imm >> 9 & 1;
  int64_t low = to ? -(int64_t(1) << (bits - 1)) : 0, high = (int64_t(1) << (to ? bits - 1 : bits)) - 1;
  auto clamp = [=](uint32_t v) {
    int64_t x = from ? int64_t(int32_t(v)) : int64_t(v);
    return uint32_t(x < low ? low : x > high ? high : x) & ((1u << bits) - 1);
  };
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) {
    uint32_t pair = clamp(a[l]) << bits | clamp(b[l]);
    return bits == 16 ? pair : c[l] << 16 | pair;
  });
}

void half_to_float(Warp &w, const Inst &i, Mask m) {
  const uint16_t *a = w.in<uint16_t>(i.a[1]);
  each_lane(w.out<float>(i.a[0]), m, [=](int l) { return canonical(f16_to(a[l])); });
}
void bf16_to_float(Warp &w, const Inst &i, Mask m) {
  const uint16_t *a = w.in<uint16_t>(i.a[1]);
  each_lane(w.out<float>(i.a[0]), m, [=](int l) { return bf16_to(a[l]); });
}

// Packed forms: the first operand goes to the upper half.
template <class Fn>
void pack16(Warp &w, const Inst &i, Mask m, Fn f) {
  const float *a = w.in<float>(i.a[1]), *b = w.in<float>(i.a[2]);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) { return uint32_t(f(a[l])) << 16 | f(b[l]); });
}
void pack_bf16(Warp &w, const Inst &i, Mask m) { pack16(w, i, m, bf16_from_float); }
void pack_f16(Warp &w, const Inst &i, Mask m) { pack16(w, i, m, f16_from_float); }
inline double finite(double v, double largest) { return v > largest ? largest : v < -largest ? -largest : v; }
template <class H>
void pack_modes(Warp &w, const Inst &i, Mask m) {
  Modes k(i.imm);
  double largest = H::from(1.0, Round::kNearest) == 0x3f80 ? bf16_to(0x7f7f) : f16_to(0x7bff);
  pack16(w, i, m, [=](float v) {
    double x = k.relu && v <= 0 ? 0.0 : k.sat && v == v ? finite(v, largest) : double(v);
    return H::from(x, k.round);
  });
}
template <bool kE4>
void pack_fp8(Warp &w, const Inst &i, Mask m) {
  const float *a = w.in<float>(i.a[1]), *b = w.in<float>(i.a[2]);
  bool relu = Modes(i.imm).relu;
  auto f = [=](float v) {
    if (relu) v = positive(v);
    return kE4 ? e4m3_from(v) : e5m2_from(v);
  };
  each_lane(w.out<uint16_t>(i.a[0]), m, [=](int l) { return uint16_t(f(a[l]) << 8 | f(b[l])); });
}
template <bool kE4>
void half2_to_fp8(Warp &w, const Inst &i, Mask m) {
  const uint32_t *a = w.in<uint32_t>(i.a[1]);
  bool relu = Modes(i.imm).relu;
  auto f = [=](uint16_t h) {
    float v = f16_to(h);
    if (relu) v = positive(v);
    return kE4 ? e4m3_from(v) : e5m2_from(v);
  };
  each_lane(w.out<uint16_t>(i.a[0]), m, [=](int l) { return uint16_t(f(uint16_t(a[l] >> 16)) << 8 | f(uint16_t(a[l]))); });
}
template <bool kE4>
void fp8_to_half2(Warp &w, const Inst &i, Mask m) {
  const uint16_t *a = w.in<uint16_t>(i.a[1]);
  bool relu = Modes(i.imm).relu;
  auto f = [=](uint8_t b) {
    float v = kE4 ? e4m3_to(b) : e5m2_to(b);
    if (relu) v = positive(v);
    return f16_from_float(v);
  };
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) { return uint32_t(f(uint8_t(a[l] >> 8))) << 16 | f(uint8_t(a[l])); });
}
template <int kRound>
void to_tf32(Warp &w, const Inst &i, Mask m) {
  const float *a = w.in<float>(i.a[1]);
  bool relu = Modes(i.imm).relu;
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) {
    float v = relu ? positive(a[l]) : a[l];
    return kRound == 0 ? tf32_rn(v) : kRound == 1 ? tf32_rz(v) : tf32_rna(v);
  });
}

template <class D>
void integers(Registry &add, const char *d) {
  add({"cvt.i", d, ".i16"}, integer<D, uint16_t>);
  add({"cvt.i", d, ".i32"}, integer<D, uint32_t>);
  add({"cvt.i", d, ".i64"}, integer<D, uint64_t>);
}
template <class F>
void reals(Registry &add, const char *t) {
  add({"cvt.i16.", t}, to_int<F, uint16_t>), add({"cvt.i32.", t}, to_int<F, uint32_t>), add({"cvt.i64.", t}, to_int<F, uint64_t>);
  add({"cvt.", t, ".i16"}, from_int<F, uint16_t>), add({"cvt.", t, ".i32"}, from_int<F, uint32_t>), add({"cvt.", t, ".i64"}, from_int<F, uint64_t>);
  add({"cvt.f16.", t}, real<F16, F>), add({"cvt.bf16.", t}, real<Bf16, F>), add({"cvt.f32.", t}, real<F32, F>), add({"cvt.f64.", t}, real<F64, F>);
}

SIM_OPS(convert) {
  integers<uint16_t>(add, "16"), integers<uint32_t>(add, "32"), integers<uint64_t>(add, "64");
  reals<F16>(add, "f16"), reals<Bf16>(add, "bf16"), reals<F32>(add, "f32"), reals<F64>(add, "f64");
  add("cvt.plain.f32.f16", half_to_float), add("cvt.plain.f32.bf16", bf16_to_float);
  add("cvt.plain.f16x2.f32", pack_f16), add("cvt.plain.bf16x2.f32", pack_bf16);
  add("cvt.f16x2.f32", pack_modes<F16>), add("cvt.bf16x2.f32", pack_modes<Bf16>);
  add("cvt.e4m3x2.f32", pack_fp8<true>), add("cvt.e5m2x2.f32", pack_fp8<false>);
  add("cvt.e4m3x2.f16x2", half2_to_fp8<true>), add("cvt.e5m2x2.f16x2", half2_to_fp8<false>);
  add("cvt.f16x2.e4m3x2", fp8_to_half2<true>), add("cvt.f16x2.e5m2x2", fp8_to_half2<false>);
  add("cvt.pack", pack_integers);
  add("cvt.rn.tf32.f32", to_tf32<0>), add("cvt.rz.tf32.f32", to_tf32<1>), add("cvt.rna.tf32.f32", to_tf32<2>);
}

}  // namespace
}  // namespace sim
