// Element-wise reductions that bulk copies perform in memory.
#pragma once
#include <cstdint>

namespace sim {

// Numbered as in lower/bulk.py.
enum Reduction : int { kNone, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };
enum ElementType : int { kU32, kS32, kU64, kS64, kB32, kB64, kF16, kBf16, kF32, kF64, kU8, kU16 };

// to[i] = to[i] op from[i] over `bytes`.
void reduce(int operation, int type, uint8_t *to, const uint8_t *from, uint64_t bytes);

}  // namespace sim
