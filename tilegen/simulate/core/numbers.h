// Number formats: f16, bf16, tf32, e4m3, e5m2 to and from float and double, round to nearest even unless said.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sim {

template <class To, class From>
inline To bit_copy(From v) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To r;
  std::memcpy(&r, &v, sizeof r);
  return r;
}
inline uint32_t bits_of(float v) { return bit_copy<uint32_t>(v); }
inline float float_of(uint32_t v) { return bit_copy<float>(v); }

constexpr uint32_t kNan32 = 0x7fffffffu;  // what hardware returns for every float NaN
// Results of saturation and of relu: NaN is kept by relu only, and -0 becomes +0.
template <class T> inline T saturate(T v) { return v > T(0) ? (v > T(1) ? T(1) : v) : T(0); }
template <class T> inline T positive(T v) { return v <= T(0) ? T(0) : v; }
inline float canonical(float v) { return v != v ? float_of(kNan32) : v; }
inline double canonical(double v) { return v; }
inline float flush(float v) { return (bits_of(v) & 0x7f800000u) ? v : float_of(bits_of(v) & 0x80000000u); }

enum class Round { kNearest, kZero, kDown, kUp };

// Rounds a finite double to `kFraction` bits with exponents down to `kMinExponent` (of a normal number).
// Returns the value as sign, exponent field and fraction of a format with `kExponentBits`; overflow is the caller's.
template <int kFraction, int kBias>
inline uint32_t narrow(double v, Round round, uint32_t infinity) {
  uint64_t b = bit_copy<uint64_t>(v);
  uint32_t sign = uint32_t(b >> 63);
  int exponent = int(b >> 52 & 2047) - 1023;
  uint64_t fraction = (b & ((1ull << 52) - 1)) | 1ull << 52;
  if ((b << 1) == 0) return 0;
  int shift = 52 - kFraction;
  if (exponent < 1 - kBias) shift += 1 - kBias - exponent;
  if (shift > 62) shift = 62, fraction = fraction ? 1 : 0;
  uint64_t kept = fraction >> shift, rest = fraction & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  bool up = false;
  if (round == Round::kNearest) up = rest > half || (rest == half && (kept & 1));
  if (round == Round::kUp) up = rest && !sign;
  if (round == Round::kDown) up = rest && sign;
  kept += up;
  // A carry out of the fraction moves into the exponent by itself.
  int field = exponent < 1 - kBias ? 0 : exponent + kBias - 1;
  uint64_t r = (uint64_t(field) << kFraction) + kept;
  if (r >= infinity) {
    bool stay = round == Round::kZero || (round == Round::kUp && sign) || (round == Round::kDown && !sign);
    return stay ? infinity - 1 : infinity;
  }
  return uint32_t(r);
}
inline uint32_t sign_of(double v) { return uint32_t(bit_copy<uint64_t>(v) >> 63); }

inline uint16_t f16_from(double v, Round round = Round::kNearest) {
  if (v != v) return 0x7fff;
  uint32_t s = sign_of(v) << 15;
  if (std::isinf(v)) return uint16_t(s | 0x7c00);
  return uint16_t(s | narrow<10, 15>(v, round, 0x7c00));
}
inline uint16_t bf16_from(double v, Round round = Round::kNearest) {
  if (v != v) return 0x7fff;
  uint32_t s = sign_of(v) << 15;
  if (std::isinf(v)) return uint16_t(s | 0x7f80);
  return uint16_t(s | narrow<7, 127>(v, round, 0x7f80));
}
inline uint16_t bf16_from_float(float v) {
  uint32_t b = bits_of(v);
  return v != v ? 0x7fff : uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
inline float f32_from(double v, Round round) {
  if (v != v) return float_of(kNan32);
  uint32_t s = sign_of(v) << 31;
  if (std::isinf(v)) return float_of(s | 0x7f800000);
  return float_of(s | narrow<23, 127>(v, round, 0x7f800000));
}
inline float bf16_to(uint16_t v) { return float_of(uint32_t(v) << 16); }
inline float f16_to(uint16_t v) {
  uint32_t sign = uint32_t(v & 0x8000) << 16, magnitude = v & 0x7fff;
  // Scale through a float multiply: exact for normal and subnormal values alike.
  float scaled = float_of(magnitude << 13) * float_of(0x77800000u);
  if (magnitude >= 0x7c00) scaled = float_of(0x7f800000u | (magnitude & 0x3ff) << 13);
  return float_of(bits_of(scaled) | sign);
}
// Without branches, so that loops over lanes vectorise: a float addition rounds subnormal results at their bit.
inline uint16_t f16_from_float(float v) {
  uint32_t b = bits_of(v), sign = b >> 16 & 0x8000, magnitude = b & 0x7fffffff;
  uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
  uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t r = magnitude < 0x38800000u ? subnormal : normal;
  r = magnitude >= 0x477ff000u ? 0x7c00u : r;
  return uint16_t(magnitude > 0x7f800000u ? 0x7fffu : r | sign);
}

// tf32 operands of tensor cores: the low 13 bits are ignored.
inline float tf32_to(uint32_t v) { return float_of(v & 0xffffe000u); }
inline uint32_t tf32_rna(float v) {
  uint32_t b = bits_of(v);
  if (v != v) return 0x7fc00000u;
  if ((b & 0x7f800000) == 0x7f800000) return b;
  return (b + 0x1000) & 0xffffe000u;
}
inline uint32_t tf32_rz(float v) { return v != v ? 0x7fffe000u : bits_of(v) & 0xffffe000u; }
inline uint32_t tf32_rn(float v) {
  uint32_t b = bits_of(v);
  if (v != v) return 0x7fffe000u;
  if ((b & 0x7f800000) == 0x7f800000) return b;
  return (b + 0xfff + (b >> 13 & 1)) & 0xffffe000u;
}

inline float e4m3_to(uint8_t v) {
  int exponent = v >> 3 & 15, fraction = v & 7;
  if ((v & 0x7f) == 0x7f) return float_of(kNan32);
  float r = exponent ? std::ldexp(float(8 + fraction), exponent - 10) : std::ldexp(float(fraction), -9);
  return v & 0x80 ? -r : r;
}
inline float e5m2_to(uint8_t v) { return f16_to(uint16_t(v << 8)); }
// Conversions to fp8 saturate: the largest finite value in place of an overflow or an infinity.
inline uint8_t e4m3_from(double v) {
  if (v != v) return 0x7f;
  uint32_t s = sign_of(v) << 7;
  if (std::isinf(v)) return uint8_t(s | 0x7e);
  uint32_t r = narrow<3, 7>(v, Round::kNearest, 0x7f);
  return uint8_t(s | (r > 0x7e ? 0x7e : r));
}
inline uint8_t e5m2_from(double v) {
  if (v != v) return 0x7f;
  uint32_t s = sign_of(v) << 7;
  if (std::isinf(v)) return uint8_t(s | 0x7b);
  uint32_t r = narrow<2, 15>(v, Round::kNearest, 0x7c);
  return uint8_t(s | (r > 0x7b ? 0x7b : r));
}

// a + b in double, rounded to odd: a second rounding to a narrower format is then exact.
inline double add_to_odd(double a, double b) {
  double s = a + b;
  if (!std::isfinite(s)) return s;
  double bb = s - a, error = (a - (s - bb)) + (b - bb);
  uint64_t bits = bit_copy<uint64_t>(s);
  if (error != 0 && !(bits & 1)) bits += (error > 0) == (s > 0) ? 1 : uint64_t(-1);
  return bit_copy<double>(bits);
}

}  // namespace sim
