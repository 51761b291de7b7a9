// The inner product loops, in vector types that any GCC or Clang target has. Built with contraction: products of
// the narrow formats are exact in f32, so a fused multiply-add and a multiply then add give the same.
#include "tensor.h"

#include <cstring>

#include "numbers.h"

namespace sim {
namespace {

template <class T>
struct Vec16 { typedef T type __attribute__((vector_size(16 * sizeof(T)))); };
template <class T>
struct Vec4 { typedef T type __attribute__((vector_size(4 * sizeof(T)))); };

template <class T>
inline typename Vec16<T>::type repeat4(const T *p) {
  typename Vec4<T>::type q;
  std::memcpy(&q, p, sizeof q);
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(q, q, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
#else
  typename Vec16<T>::type r;
  for (int k = 0; k < 16; ++k) r[k] = q[k & 3];
  return r;
#endif
}

template <class T>
void multiply_of(const Left<T> &a, const T *b, int n8, int depth, T *const *d) {
  using V = typename Vec16<T>::type;
  for (int j = 0; j < n8; ++j) {
    V acc[2][2][2];
    for (int h = 0; h < 2; ++h)
      for (int p = 0; p < 2; ++p) std::memcpy(acc[h][p], d[4 * j + 2 * h + p], sizeof acc[h][p]);
    const T *b0 = b + size_t(j) * 2 * size_t(depth) * 4, *b1 = b0 + size_t(depth) * 4;
    for (int k = 0; k < depth; ++k) {
      V x = repeat4(b0 + 4 * k), y = repeat4(b1 + 4 * k);
      for (int h = 0; h < 2; ++h)
        for (int s = 0; s < 2; ++s) {
          V l;
          std::memcpy(&l, &a.v[h][k][16 * s], sizeof l);
          acc[h][0][s] += l * x;
          acc[h][1][s] += l * y;
        }
    }
    for (int h = 0; h < 2; ++h)
      for (int p = 0; p < 2; ++p) std::memcpy(d[4 * j + 2 * h + p], acc[h][p], sizeof acc[h][p]);
  }
}

struct Tables {
  float e4m3[256], e5m2[256];
  Tables() {
    for (int k = 0; k < 256; ++k) e4m3[k] = e4m3_to(uint8_t(k)), e5m2[k] = e5m2_to(uint8_t(k));
  }
};
const Tables &tables() {
  static const Tables t;
  return t;
}

}  // namespace

void multiply(const Left<float> &a, const float *b, int n8, int k, float *const *d) { multiply_of(a, b, n8, k, d); }
void multiply(const Left<double> &a, const double *b, int n8, int k, double *const *d) { multiply_of(a, b, n8, k, d); }
void multiply(const Left<int32_t> &a, const int32_t *b, int n8, int k, int32_t *const *d) {
  multiply_of<uint32_t>(reinterpret_cast<const Left<uint32_t> &>(a), reinterpret_cast<const uint32_t *>(b), n8, k,
                        reinterpret_cast<uint32_t *const *>(d));
}

void widen(Number type, const void *from, int count, float *to) {
  auto *h = static_cast<const uint16_t *>(from);
  auto *b = static_cast<const uint8_t *>(from);
  switch (type) {
    case Number::kF16:
      for (int k = 0; k < count; ++k) to[k] = f16_to(h[k]);
      break;
    case Number::kBf16:
      for (int k = 0; k < count; ++k) to[k] = bf16_to(h[k]);
      break;
    case Number::kTf32:
      for (int k = 0; k < count; ++k) to[k] = tf32_to(static_cast<const uint32_t *>(from)[k]);
      break;
    case Number::kE4m3:
      for (int k = 0; k < count; ++k) to[k] = tables().e4m3[b[k]];
      break;
    default:
      for (int k = 0; k < count; ++k) to[k] = tables().e5m2[b[k]];
  }
}
void widen(Number, const void *from, int count, double *to) { std::memcpy(to, from, size_t(count) * sizeof *to); }
void widen(Number type, const void *from, int count, int32_t *to) {
  if (type == Number::kS8)
    for (int k = 0; k < count; ++k) to[k] = static_cast<const int8_t *>(from)[k];
  else
    for (int k = 0; k < count; ++k) to[k] = static_cast<const uint8_t *>(from)[k];
}

}  // namespace sim
