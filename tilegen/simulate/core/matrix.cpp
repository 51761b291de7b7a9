// ldmatrix, stmatrix, mma.sync (PTX ISA 9.7.14.5).
#include <algorithm>

#include "memory.h"
#include "numbers.h"
#include "tensor.h"

namespace sim {
namespace {

bool all_lanes(Warp &w, Mask m, const char *what) {
  if (m == kFull) return true;
  if (w.alive != kFull) {
    w.m->report("divergence", format("%s needs all 32 lanes of the warp; lanes 0x%08x have exited or do not exist", what, ~w.alive), &w, -1);
    return m == w.alive;
  }
  w.block_on(format("%s waits for lanes 0x%08x of its warp, which run elsewhere", what, w.alive & ~m));
  return false;
}

// Row addresses: lane 8j + r holds row r of matrix j; lanes beyond the count are not read.
// a: unused, address slot, register bytes, space, matrices, transposed. list: registers.
template <bool kStore>
void matrix(Warp &w, const Inst &i, Mask m) {
  if (!all_lanes(w, m, kStore ? "stmatrix" : "ldmatrix")) return;
  uint64_t address[kLanes];
  addresses(w, i.a[1], i.a[2], i.imm, address);
  if (i.a[2] == 0)
    for (uint64_t &a : address) a += shared_base(w);
  int count = i.a[4];
  const int32_t *regs = &w.m->pool[size_t(i.list)];
  Access access = access_of(w, m, i, kStore);
  access.stamp.lanes = kManyLanes;
  Locator find(w, i, i.a[3], kStore);
  uint8_t *rows[kLanes];
  for (int r = 0; r < 8 * count; ++r) {
    Place p = find.at(address[r], 16, r, 16);
    rows[r] = p.host;
    if (p.host && p.region->shadow) p.region->shadow->touch(*w.m, p.offset / 16, 0xffff, access);
  }
  for (int j = 0; j < count; ++j) {
    // Eight rows of 16 bytes: a pass each time the eight cover the banks once.
    uint64_t depth[8] = {}, worst = 0;
    for (int r = 0; r < 8; ++r) worst = std::max(worst, ++depth[address[8 * j + r] / 16 & 7]);
    w.m->wavefronts[size_t(i.index)] += worst;
    w.m->ideal_wavefronts[size_t(i.index)] += 1;
  }
  for (int j = 0; j < count; ++j) {
    uint16_t tile[8][8];
    uint32_t *reg = w.out<uint32_t>(regs[j]);
    if (!kStore)
      for (int r = 0; r < 8; ++r) {
        if (rows[8 * j + r]) std::memcpy(tile[r], rows[8 * j + r], 16);
        else std::memset(tile[r], 0xff, 16);
      }
    for (int l = 0; l < kLanes; ++l) {
      int row = l / 4, column = 2 * (l % 4);
      uint16_t *low = i.a[5] ? &tile[column][row] : &tile[row][column];
      uint16_t *high = i.a[5] ? &tile[column + 1][row] : &tile[row][column + 1];
      if (kStore) *low = uint16_t(reg[l]), *high = uint16_t(reg[l] >> 16);
      else reg[l] = *low | uint32_t(*high) << 16;
    }
    if (kStore)
      for (int r = 0; r < 8; ++r)
        if (rows[8 * j + r]) std::memcpy(rows[8 * j + r], tile[r], 16);
  }
  if (kStore) ++w.block->cluster->progress;
}

// Register q of lane 4g + t holds, with E elements a register, row g + 8(q & 1) and columns
// (q >> 1) 4E + tE onwards of the left operand; k from q 4E + tE onwards and column g of the right one.
template <class T, int E>
void load_left(const Warp &w, Number type, const int32_t *regs, int count, bool half_rows, Left<T> &a) {
  alignas(64) T part[32 * E];
  for (int q = 0; q < count; ++q) {
    widen(type, w.in<T>(regs[q]), 32 * E, part);
    int h = half_rows ? 0 : q & 1, base = (half_rows ? q : q >> 1) * 4 * E;
    for (int t = 0; t < 4; ++t)
      for (int e = 0; e < E; ++e) {
        T *row = a.v[h][base + t * E + e];
        for (int g = 0; g < 8; ++g) {
          T v = part[(4 * g + t) * E + e];
          row[4 * g] = row[4 * g + 1] = row[4 * g + 2] = row[4 * g + 3] = v;
        }
      }
  }
  if (half_rows)
    for (int k = 0; k < count * 4 * E; ++k) std::memset(a.v[1][k], 0, sizeof a.v[1][k]);
}
template <class T, int E>
void load_right(const Warp &w, Number type, const int32_t *regs, int count, T *b) {
  alignas(64) T part[32 * E];
  int depth = count * 4 * E;
  for (int q = 0; q < count; ++q) {
    widen(type, w.in<T>(regs[q]), 32 * E, part);
    for (int g = 0; g < 8; ++g)
      for (int t = 0; t < 4; ++t)
        for (int e = 0; e < E; ++e)
          b[((g & 1) * depth + q * 4 * E + t * E + e) * 4 + g / 2] = part[(4 * g + t) * E + e];
  }
}

// imm: type of A | type of B << 4 | rows 8 << 8 | saturate << 9. a: counts of A, B and D registers, kind of
// accumulator (0 f32, 1 f16, 2 s32, 3 f64). list: D, A, B, C.
template <class T, int E>
void product(Warp &w, const Inst &i, T (*acc)[kLanes]) {
  Number ta = Number(i.imm & 15), tb = Number(i.imm >> 4 & 15);
  const int32_t *d = &w.m->pool[size_t(i.list)], *ra = d + i.a[2], *rb = ra + i.a[0];
  Left<T> a;
  alignas(64) T b[2 * kMaxDepth * 4];
  load_left<T, E>(w, ta, ra, i.a[0], i.imm >> 8 & 1, a);
  load_right<T, E>(w, tb, rb, i.a[1], b);
  T *rows[4] = {acc[0], acc[1], acc[2], acc[3]};
  multiply(a, b, 1, i.a[1] * 4 * E, rows);
}

template <class T, int E>
void mma(Warp &w, const Inst &i, Mask m) {
  if (!all_lanes(w, m, "mma.sync")) return;
  const int32_t *d = &w.m->pool[size_t(i.list)], *c = d + i.a[2] + i.a[0] + i.a[1];
  alignas(64) T acc[4][kLanes] = {};
  if (i.a[3] == 1) {
    for (int r = 0; r < i.a[2]; ++r) {
      const uint32_t *v = w.in<uint32_t>(c[r]);
      for (int l = 0; l < kLanes; ++l) acc[2 * r][l] = T(f16_to(uint16_t(v[l]))), acc[2 * r + 1][l] = T(f16_to(uint16_t(v[l] >> 16)));
    }
  } else {
    for (int r = 0; r < i.a[2]; ++r) std::memcpy(acc[r], w.in<T>(c[r]), sizeof acc[r]);
  }
  if (i.imm >> 9 & 1) {
    // Saturating integer accumulation: in 64 bits, clamped at the end.
    alignas(64) T sum[4][kLanes] = {};
    product<T, E>(w, i, sum);
    for (int r = 0; r < i.a[2]; ++r)
      for (int l = 0; l < kLanes; ++l)
        acc[r][l] = T(std::clamp<int64_t>(int64_t(acc[r][l]) + int64_t(sum[r][l]), INT32_MIN, INT32_MAX));
  } else {
    product<T, E>(w, i, acc);
  }
  for (int r = 0; r < i.a[2]; ++r) {
    if (i.a[3] == 1) {
      uint32_t *v = w.out<uint32_t>(d[r]);
      for (int l = 0; l < kLanes; ++l)
        v[l] = f16_from_float(float(acc[2 * r][l])) | uint32_t(f16_from_float(float(acc[2 * r + 1][l]))) << 16;
    } else {
      T *v = w.out<T>(d[r]);
      for (int l = 0; l < kLanes; ++l) v[l] = i.a[3] == 0 ? T(canonical(double(acc[r][l]))) : acc[r][l];
    }
  }
}

// movmatrix: transpose an 8x8 matrix of 16-bit elements held in registers.
void movmatrix(Warp &w, const Inst &i, Mask m) {
  if (!all_lanes(w, m, "movmatrix")) return;
  uint32_t a[kLanes];
  std::memcpy(a, w.in<uint32_t>(i.a[1]), sizeof a);
  auto element = [&](int row, int column) { return a[4 * row + column / 2] >> (16 * (column & 1)) & 0xffff; };
  uint32_t *d = w.out<uint32_t>(i.a[0]);
  for (int l = 0; l < kLanes; ++l) {
    int row = l / 4, column = 2 * (l % 4);
    d[l] = element(column, row) | element(column + 1, row) << 16;
  }
}

SIM_OPS(matrix) {
  add("ldmatrix", matrix<false>, kControl), add("stmatrix", matrix<true>, kControl), add("movmatrix", movmatrix, kControl);
  add("mma.f.1", mma<float, 1>, kControl), add("mma.f.2", mma<float, 2>, kControl), add("mma.f.4", mma<float, 4>, kControl);
  add("mma.i.4", mma<int32_t, 4>, kControl), add("mma.d.1", mma<double, 1>, kControl);
}

}  // namespace
}  // namespace sim
