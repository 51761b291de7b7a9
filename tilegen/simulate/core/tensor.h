// The product of a 16-row tile and N columns in the register layout that mma.sync and wgmma share.
//
// Accumulator row i = 4j + 2h + p of lane l is row l/4 + 8h, column 8j + 2(l%4) + p. Left operands are kept as
// a[h][k][lane] (the lane's row), right operands as b[j][p][k][4] (the four columns that repeat over the lanes).
#pragma once
#include <cstdint>

namespace sim {

constexpr int kMaxDepth = 64;  // k of one instruction, elements

enum class Number : int { kF16, kBf16, kTf32, kE4m3, kE5m2, kS8, kU8 };
inline int bytes_of(Number n) { return n == Number::kTf32 ? 4 : n == Number::kF16 || n == Number::kBf16 ? 2 : 1; }
inline bool is_integer(Number n) { return n == Number::kS8 || n == Number::kU8; }

template <class T>
struct alignas(64) Left {
  T v[2][kMaxDepth][32];
};

// d[i] points to 32 lanes; n8 column groups of 8, depth k.
void multiply(const Left<float> &a, const float *b, int n8, int k, float *const *d);
void multiply(const Left<int32_t> &a, const int32_t *b, int n8, int k, int32_t *const *d);
void multiply(const Left<double> &a, const double *b, int n8, int k, double *const *d);

// Elements of raw bytes as numbers.
void widen(Number type, const void *from, int count, float *to);
void widen(Number type, const void *from, int count, int32_t *to);
void widen(Number type, const void *from, int count, double *to);

}  // namespace sim
