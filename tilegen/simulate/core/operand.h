// Operands of wgmma: what an instruction says of them, and how they become the rows that multiply() takes.
#pragma once
#include "descriptor.h"
#include "lanes.h"
#include "tensor.h"

namespace sim {

// Instruction: a: scale-d condition, descriptor A slot (or ABSENT: registers), descriptor B slot, D registers, A
// registers, accumulator (0 f32, 1 f16, 2 s32), N, first entry of the wgmma register indices. list: D, A, indices.
// imm: type A | type B << 4 | trans A << 8 | trans B << 9 | negate A << 10 | negate B << 11 | saturate << 12.
struct Shape {
  Number ta, tb;
  bool trans_a, trans_b, saturate;
  float sign;
  int n, depth;
  explicit Shape(const Inst &i)
      : ta(Number(i.imm & 15)), tb(Number(i.imm >> 4 & 15)), trans_a(i.imm >> 8 & 1), trans_b(i.imm >> 9 & 1), saturate(i.imm >> 12 & 1),
        sign(((i.imm >> 10) ^ (i.imm >> 11)) & 1 ? -1.0f : 1.0f), n(i.a[6]), depth(32 / bytes_of(ta)) {}
};

// Every 16-byte piece of an operand: f(address, row, k) with k in elements.
template <class F>
inline void pieces(const Descriptor &d, bool trans, int rows, int depth, int bytes, F f) {
  if (trans) {
    for (int k = 0; k < depth; ++k)
      for (int r = 0; r < rows; r += 8) f(d.along_rows(uint32_t(r), uint32_t(k)), r, k);
  } else {
    for (int r = 0; r < rows; ++r)
      for (int b = 0; b < 32; b += 16) f(d.along_depth(uint32_t(r), uint32_t(b)), r, b / bytes);
  }
}

inline bool in_bounds(const Block &b, uint64_t a) { return a >= kSharedStart && a + 16 <= b.shared.size() && a % 16 == 0; }

template <class T>
void load_left(const Block &b, const Shape &s, uint64_t descriptor, int warp, Left<T> &a) {
  Descriptor d(descriptor);
  T part[16];
  auto put = [&](int r, int k, T v) {
    T *row = a.v[r / 8][k] + 4 * (r % 8);
    row[0] = row[1] = row[2] = row[3] = T(v * T(s.sign));
  };
  int each = 16 / bytes_of(s.ta);
  if (s.trans_a) {
    for (int k = 0; k < s.depth; ++k)
      for (int r = 0; r < 16; r += 8) {
        uint64_t at = d.along_rows(uint32_t(16 * warp + r), uint32_t(k));
        if (!in_bounds(b, at)) continue;
        widen(s.ta, b.shared.data() + at, each, part);
        for (int e = 0; e < each; ++e) put(r + e, k, part[e]);
      }
    return;
  }
  for (int r = 0; r < 16; ++r)
    for (int byte = 0; byte < 32; byte += 16) {
      uint64_t at = d.along_depth(uint32_t(16 * warp + r), uint32_t(byte));
      if (!in_bounds(b, at)) continue;
      widen(s.ta, b.shared.data() + at, each, part);
      for (int e = 0; e < each; ++e) put(r, byte / bytes_of(s.ta) + e, part[e]);
    }
}

// The fragment of mma.sync: register q of lane 4g + t is row g + 8(q & 1), columns (q >> 1) 4E + tE onwards.
template <class T>
void left_registers(const Warp &w, const Shape &s, const int32_t *regs, Left<T> &a) {
  int each = 4 / bytes_of(s.ta);
  T part[32 * 4];
  for (int q = 0; q < 4; ++q) {
    widen(s.ta, w.in<uint32_t>(regs[q]), 32 * each, part);
    for (int l = 0; l < kLanes; ++l)
      for (int e = 0; e < each; ++e) {
        T *row = a.v[q & 1][(q >> 1) * 4 * each + (l % 4) * each + e] + 4 * (l / 4);
        row[0] = row[1] = row[2] = row[3] = T(part[l * each + e] * T(s.sign));
      }
  }
}

template <class T>
void load_right(const Block &b, const Shape &s, uint64_t descriptor, T *out) {
  int each = 16 / bytes_of(s.tb);
  T part[16];
  size_t depth = size_t(s.depth);
  pieces(Descriptor(descriptor), s.trans_b, s.n, s.depth, bytes_of(s.tb), [&](uint64_t at, int r, int k) {
    if (!in_bounds(b, at)) return;
    widen(s.tb, b.shared.data() + at, each, part);
    if (s.trans_b) {
      for (int e = 0; e < 8; ++e) out[((size_t(r / 8) * 2 + (e & 1)) * depth + size_t(k)) * 4 + size_t(e / 2)] = part[e];
    } else {
      T *to = out + ((size_t(r / 8) * 2 + (r & 1)) * depth + size_t(k)) * 4 + (r % 8) / 2;
      for (int e = 0; e < each; ++e) to[4 * e] = part[e];
    }
  });
}

}  // namespace sim
