// Reductions in memory: integers wrap, halves are added in double and rounded once.
#include "reduce.h"

#include <algorithm>
#include <cstring>

#include "numbers.h"

namespace sim {
namespace {

template <class T, class F>
void over(uint8_t *to, const uint8_t *from, uint64_t bytes, F f) {
  for (uint64_t k = 0; k + sizeof(T) <= bytes; k += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + k, sizeof a);
    std::memcpy(&b, from + k, sizeof b);
    a = f(a, b);
    std::memcpy(to + k, &a, sizeof a);
  }
}

template <class T>
void integers(int op, uint8_t *to, const uint8_t *from, uint64_t bytes) {
  over<T>(to, from, bytes, [op](T a, T b) -> T {
    switch (op) {
      case kAdd: return T(uint64_t(a) + uint64_t(b));
      case kMin: return std::min(a, b);
      case kMax: return std::max(a, b);
      case kInc: return a >= b ? T(0) : T(a + 1);
      case kDec: return a == 0 || a > b ? b : T(a - 1);
      case kAnd: return a & b;
      case kOr: return a | b;
      default: return a ^ b;
    }
  });
}

double combine(int op, double a, double b) { return op == kAdd ? add_to_odd(a, b) : op == kMin ? std::fmin(a, b) : std::fmax(a, b); }

}  // namespace

void reduce(int op, int type, uint8_t *to, const uint8_t *from, uint64_t bytes) {
  switch (type) {
    case kU32: case kB32: return integers<uint32_t>(op, to, from, bytes);
    case kS32: return integers<int32_t>(op, to, from, bytes);
    case kU64: case kB64: return integers<uint64_t>(op, to, from, bytes);
    case kS64: return integers<int64_t>(op, to, from, bytes);
    case kU16: return integers<uint16_t>(op, to, from, bytes);
    case kU8: return integers<uint8_t>(op, to, from, bytes);
    case kF16: return over<uint16_t>(to, from, bytes, [op](uint16_t a, uint16_t b) { return f16_from(combine(op, f16_to(a), f16_to(b))); });
    case kBf16: return over<uint16_t>(to, from, bytes, [op](uint16_t a, uint16_t b) { return bf16_from(combine(op, bf16_to(a), bf16_to(b))); });
    case kF32: return over<float>(to, from, bytes, [op](float a, float b) { return op == kAdd ? a + b : op == kMin ? std::fmin(a, b) : std::fmax(a, b); });
    default: return over<double>(to, from, bytes, [op](double a, double b) { return op == kAdd ? a + b : op == kMin ? std::fmin(a, b) : std::fmax(a, b); });
  }
}

}  // namespace sim
