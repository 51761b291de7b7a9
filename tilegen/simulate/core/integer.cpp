// Integer arithmetic and logic (PTX ISA 9.7.1, 9.7.2, 9.7.8). Division by zero gives all ones, as hardware does.
#include <type_traits>

#include "lanes.h"

namespace sim {
namespace {

template <class T> using U = std::make_unsigned_t<T>;
template <class T> struct Wider;
template <> struct Wider<uint16_t> { using type = uint32_t; };
template <> struct Wider<int16_t> { using type = int32_t; };
template <> struct Wider<uint32_t> { using type = uint64_t; };
template <> struct Wider<int32_t> { using type = int64_t; };
template <> struct Wider<uint64_t> { using type = unsigned __int128; };
template <> struct Wider<int64_t> { using type = __int128; };
template <class T> using W = typename Wider<T>::type;

template <class T> struct Add { static T of(T a, T b) { return T(a + b); } };
template <class T> struct Sub { static T of(T a, T b) { return T(a - b); } };
template <class T> struct MulLo { static T of(T a, T b) { return T(uint64_t(a) * uint64_t(b)); } };
template <class T> struct MulHi { static T of(T a, T b) { return T(W<T>(W<T>(a) * W<T>(b)) >> (8 * sizeof(T))); } };
template <class T> struct MulWide { static W<T> of(T a, T b) { return W<T>(W<T>(a) * W<T>(b)); } };
template <class T> struct MadLo { static T of(T a, T b, T c) { return T(uint64_t(a) * uint64_t(b) + uint64_t(c)); } };
template <class T> struct MadHi { static T of(T a, T b, T c) { return T(MulHi<T>::of(a, b) + c); } };
template <class T> struct MadWide { static W<T> of(T a, T b, W<T> c) { return W<T>(U<W<T>>(W<T>(a) * W<T>(b)) + U<W<T>>(c)); } };
template <class T> struct Min { static T of(T a, T b) { return a < b ? a : b; } };
template <class T> struct Max { static T of(T a, T b) { return a > b ? a : b; } };
template <class T> struct Div {
  static T of(T a, T b) {
    if (b == 0) return T(-1);
    if (std::is_signed<T>::value && b == T(-1)) return T(U<T>(0) - U<T>(a));
    return T(a / b);
  }
};
template <class T> struct Rem {
  static T of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed<T>::value && b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class T> struct Neg { static T of(T a) { return T(U<T>(0) - U<T>(a)); } };
template <class T> struct Abs { static T of(T a) { return a < 0 ? Neg<T>::of(a) : a; } };
template <class T> struct And { static T of(T a, T b) { return a & b; } };
template <class T> struct Or { static T of(T a, T b) { return a | b; } };
template <class T> struct Xor { static T of(T a, T b) { return a ^ b; } };
template <class T> struct Invert { static T of(T a) { return T(~a); } };
template <class T> struct CNot { static T of(T a) { return a == 0; } };
// Shift amounts clamp at the width; they do not wrap.
template <class T> struct Shl { static T of(T a, uint32_t n) { return n >= 8 * sizeof(T) ? T(0) : T(a << n); } };
template <class T> struct Shr {
  static T of(T a, uint32_t n) {
    constexpr uint32_t bits = 8 * sizeof(T);
    return T(a >> (n >= bits ? (std::is_signed<T>::value ? bits - 1 : 0) : n)) * T(std::is_signed<T>::value || n < bits);
  }
};
template <class T> struct Popc { static uint32_t of(T a) { return uint32_t(__builtin_popcountll(a)); } };
template <class T> struct Clz {
  static uint32_t of(T a) { return a ? uint32_t(__builtin_clzll(a)) - (64 - 8 * sizeof(T)) : 8 * sizeof(T); }
};
template <class T> struct Brev {
  static T of(T a) {
    T r = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) r = T(r << 1 | (a >> i & 1));
    return r;
  }
};
template <class T> struct Bfind {
  static uint32_t of(T a) {
    U<T> v = U<T>(std::is_signed<T>::value && a < 0 ? ~a : a);
    return v ? uint32_t(8 * sizeof(T) - 1 - Clz<U<T>>::of(v)) : 0xffffffffu;
  }
};
template <class T> struct BfindShift {
  static uint32_t of(T a) { uint32_t p = Bfind<T>::of(a); return p == 0xffffffffu ? p : uint32_t(8 * sizeof(T) - 1) - p; }
};
template <class T> struct Bfe {
  static T of(T a, uint32_t start, uint32_t length) {
    constexpr uint32_t bits = 8 * sizeof(T);
    uint32_t pos = start & 255, len = length & 255;
    if (len == 0) return 0;
    uint32_t top = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
    bool sign = std::is_signed<T>::value && (U<T>(a) >> top & 1);
    U<T> v = pos >= bits ? 0 : U<T>(a) >> pos;
    if (pos >= bits) return sign ? T(-1) : T(0);
    if (len < bits) {
      U<T> keep = (U<T>(1) << len) - 1;
      v &= keep;
      if (pos + len > bits) keep = (U<T>(1) << (bits - pos)) - 1;
      if (sign) v |= ~keep;
    } else if (sign) {
      v |= pos ? ~(U<T>(-1) >> pos) : 0;
    }
    return T(v);
  }
};
template <class T>
void bfi(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]);
  const uint32_t *c = w.in<uint32_t>(i.a[3]), *d = w.in<uint32_t>(i.a[4]);
  constexpr uint32_t bits = 8 * sizeof(T);
  each_lane(w.out<T>(i.a[0]), m, [=](int l) {
    uint32_t pos = c[l] & 255, len = d[l] & 255;
    if (len == 0 || pos >= bits) return b[l];
    T field = len >= bits ? T(-1) : T((T(1) << len) - 1);
    return T((b[l] & ~T(field << pos)) | T((a[l] & field) << pos));
  });
}

// prmt: byte selectors with sign replication, and the six fixed modes.
uint32_t permute(uint64_t bytes, uint32_t selector) {
  uint32_t r = 0;
  for (int k = 0; k < 4; ++k) {
    uint32_t s = selector >> (4 * k) & 15;
    uint32_t v = uint32_t(bytes >> (8 * (s & 7))) & 255;
    if (s & 8) v = v & 128 ? 255 : 0;
    r |= v << (8 * k);
  }
  return r;
}
void prmt(Warp &w, const Inst &i, Mask m) {
  static const uint32_t table[7][4] = {{0, 0, 0, 0},
                                       {0x3210, 0x4321, 0x5432, 0x6543},   // f4e
                                       {0x5670, 0x6701, 0x7012, 0x0123},   // b4e
                                       {0x0000, 0x1111, 0x2222, 0x3333},   // rc8
                                       {0x3210, 0x3211, 0x3222, 0x3333},   // ecl
                                       {0x0000, 0x1110, 0x2210, 0x3210},   // ecr
                                       {0x1010, 0x3232, 0x1010, 0x3232}};  // rc16
  const uint32_t *a = w.in<uint32_t>(i.a[1]), *b = w.in<uint32_t>(i.a[2]), *c = w.in<uint32_t>(i.a[3]);
  int mode = int(i.imm);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) {
    uint32_t selector = mode ? table[mode][c[l] & 3] : c[l];
    return permute(a[l] | uint64_t(b[l]) << 32, mode ? selector & 0x7777 : selector);
  });
}
void lop3(Warp &w, const Inst &i, Mask m) {
  const uint32_t *a = w.in<uint32_t>(i.a[1]), *b = w.in<uint32_t>(i.a[2]), *c = w.in<uint32_t>(i.a[3]);
  uint32_t lut = uint32_t(i.imm);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) {
    uint32_t r = 0;
    for (uint32_t k = 0; k < 8; ++k)
      if (lut >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
    return r;
  });
}
template <bool kLeft, bool kWrap>
void shf(Warp &w, const Inst &i, Mask m) {
  const uint32_t *a = w.in<uint32_t>(i.a[1]), *b = w.in<uint32_t>(i.a[2]), *c = w.in<uint32_t>(i.a[3]);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) {
    uint32_t n = kWrap ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]);
    uint64_t v = uint64_t(b[l]) << 32 | a[l];
    return uint32_t(kLeft ? (n == 0 ? v >> 32 : v >> (32 - n)) : v >> n);
  });
}
struct AddSat { static int32_t of(int32_t a, int32_t b) { int64_t r = int64_t(a) + b; return int32_t(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r); } };
struct SubSat { static int32_t of(int32_t a, int32_t b) { int64_t r = int64_t(a) - b; return int32_t(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r); } };
struct Sad {
  template <class T> static T of(T a, T b, T c) { return T(c + (a < b ? b - a : a - b)); }
};
template <class A, class B>
void dp4a(Warp &w, const Inst &i, Mask m) {
  const uint32_t *a = w.in<uint32_t>(i.a[1]), *b = w.in<uint32_t>(i.a[2]), *c = w.in<uint32_t>(i.a[3]);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) {
    uint32_t r = c[l];
    for (int k = 0; k < 4; ++k) r += uint32_t(int32_t(A(a[l] >> (8 * k))) * int32_t(B(b[l] >> (8 * k))));
    return r;
  });
}
// Carry chains: the carry is a predicate row.
template <class T, bool kSub, bool kIn, bool kOut>
void carry(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]), *b = w.in<T>(i.a[2]);
  T *d = w.out<T>(i.a[0]);
  Mask flag = w.preds[i.a[3]], out = flag;
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    unsigned __int128 x = a[l], y = b[l], c = kIn ? flag >> l & 1 : 0;
    unsigned __int128 r = kSub ? x - y - c : x + y + c;
    d[l] = T(r);
    bool carried = (r >> (8 * sizeof(T))) & 1;
    out = (out & ~(1u << l)) | Mask(carried) << l;
  }
  if (kOut) w.preds[i.a[3]] = out;
}

template <class T>
void bits(Registry &add, const char *t) {
  add({"add.", t}, binary<T, T, T, Add<T>>);
  add({"sub.", t}, binary<T, T, T, Sub<T>>);
  add({"mul.lo.", t}, binary<T, T, T, MulLo<T>>);
  add({"mad.lo.", t}, ternary<T, T, T, T, MadLo<T>>);
  add({"and.", t}, binary<T, T, T, And<T>>);
  add({"or.", t}, binary<T, T, T, Or<T>>);
  add({"xor.", t}, binary<T, T, T, Xor<T>>);
  add({"not.", t}, unary<T, T, Invert<T>>);
  add({"cnot.", t}, unary<T, T, CNot<T>>);
  add({"shl.", t}, binary<T, T, uint32_t, Shl<T>>);
}
template <class T>
void wide(Registry &add, const char *t) {
  add({"mul.wide.", t}, binary<W<T>, T, T, MulWide<T>>);
  add({"mad.wide.", t}, ternary<W<T>, T, T, W<T>, MadWide<T>>);
}
template <class T>
void typed(Registry &add, const char *t) {
  add({"mul.hi.", t}, binary<T, T, T, MulHi<T>>);
  add({"mad.hi.", t}, ternary<T, T, T, T, MadHi<T>>);
  add({"min.", t}, binary<T, T, T, Min<T>>);
  add({"max.", t}, binary<T, T, T, Max<T>>);
  add({"div.", t}, binary<T, T, T, Div<T>>);
  add({"rem.", t}, binary<T, T, T, Rem<T>>);
  add({"shr.", t}, binary<T, T, uint32_t, Shr<T>>);
  add({"sad.", t}, ternary<T, T, T, T, Sad>);
}
template <class T>
void fields(Registry &add, const char *t) {
  add({"bfe.", t}, ternary<T, T, uint32_t, uint32_t, Bfe<T>>);
  add({"bfind.", t}, unary<uint32_t, T, Bfind<T>>);
  add({"bfind.shiftamt.", t}, unary<uint32_t, T, BfindShift<T>>);
}
template <class T>
void carries(Registry &add, const char *t) {
  add({"add.cc.", t}, carry<T, false, false, true>);
  add({"addc.", t}, carry<T, false, true, false>);
  add({"addc.cc.", t}, carry<T, false, true, true>);
  add({"sub.cc.", t}, carry<T, true, false, true>);
  add({"subc.", t}, carry<T, true, true, false>);
  add({"subc.cc.", t}, carry<T, true, true, true>);
}

SIM_OPS(integer) {
  bits<uint16_t>(add, "b16"), bits<uint32_t>(add, "b32"), bits<uint64_t>(add, "b64");
  wide<uint16_t>(add, "u16"), wide<int16_t>(add, "s16"), wide<uint32_t>(add, "u32"), wide<int32_t>(add, "s32");
  typed<uint16_t>(add, "u16"), typed<int16_t>(add, "s16"), typed<uint32_t>(add, "u32");
  typed<int32_t>(add, "s32"), typed<uint64_t>(add, "u64"), typed<int64_t>(add, "s64");
  add("neg.s16", unary<int16_t, int16_t, Neg<int16_t>>), add("abs.s16", unary<int16_t, int16_t, Abs<int16_t>>);
  add("neg.s32", unary<int32_t, int32_t, Neg<int32_t>>), add("abs.s32", unary<int32_t, int32_t, Abs<int32_t>>);
  add("neg.s64", unary<int64_t, int64_t, Neg<int64_t>>), add("abs.s64", unary<int64_t, int64_t, Abs<int64_t>>);
  fields<uint32_t>(add, "u32"), fields<int32_t>(add, "s32"), fields<uint64_t>(add, "u64"), fields<int64_t>(add, "s64");
  add("popc.b32", unary<uint32_t, uint32_t, Popc<uint32_t>>), add("popc.b64", unary<uint32_t, uint64_t, Popc<uint64_t>>);
  add("clz.b32", unary<uint32_t, uint32_t, Clz<uint32_t>>), add("clz.b64", unary<uint32_t, uint64_t, Clz<uint64_t>>);
  add("brev.b32", unary<uint32_t, uint32_t, Brev<uint32_t>>), add("brev.b64", unary<uint64_t, uint64_t, Brev<uint64_t>>);
  add("bfi.b32", bfi<uint32_t>), add("bfi.b64", bfi<uint64_t>);
  add("prmt.b32", prmt), add("lop3.b32", lop3);
  add("shf.l.wrap.b32", shf<true, true>), add("shf.l.clamp.b32", shf<true, false>);
  add("shf.r.wrap.b32", shf<false, true>), add("shf.r.clamp.b32", shf<false, false>);
  add("dp4a.u32.u32", dp4a<uint8_t, uint8_t>), add("dp4a.s32.s32", dp4a<int8_t, int8_t>);
  add("dp4a.u32.s32", dp4a<uint8_t, int8_t>), add("dp4a.s32.u32", dp4a<int8_t, uint8_t>);
  add("add.sat.s32", binary<int32_t, int32_t, int32_t, AddSat>), add("sub.sat.s32", binary<int32_t, int32_t, int32_t, SubSat>);
  carries<uint32_t>(add, "b32"), carries<uint64_t>(add, "b64");
}

}  // namespace
}  // namespace sim
