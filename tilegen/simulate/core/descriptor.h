// wgmma matrix descriptors (PTX ISA 9.7.15.5.1): where an operand's 16-byte pieces lie in shared memory.
#pragma once
#include <cstdint>

namespace sim {

struct Descriptor {
  uint64_t start, leading, stride;  // bytes
  uint32_t base;                    // base offset, in units of 128 bytes
  int span;                         // swizzle span in bytes, 0 for none

  explicit Descriptor(uint64_t d)
      : start((d & 0x3fff) << 4), leading((d >> 16 & 0x3fff) << 4), stride((d >> 32 & 0x3fff) << 4), base(uint32_t(d >> 49 & 7)) {
    static const int spans[4] = {0, 128, 64, 32};
    span = spans[d >> 62];
  }

  // The swizzle works on the absolute address, after all offsets are added.
  uint64_t swizzle(uint64_t a) const {
    if (!span) return a;
    uint64_t repeat = uint64_t(span) / 16;  // 8, 4, 2 rows of 128 bytes
    return a ^ ((((a >> 7) - base) & (repeat - 1)) << 4);
  }
  // K-major: the piece of row r that starts at byte b of the depth (a multiple of 16).
  uint64_t along_depth(uint32_t r, uint32_t b) const {
    if (!span) return start + uint64_t(r / 8) * stride + (r % 8) * 16 + uint64_t(b / 16) * leading;
    return swizzle(start + uint64_t(r / 8) * stride + uint64_t(r % 8) * uint64_t(span) + b);
  }
  // MN-major, 16-bit elements: the piece of depth k that starts at row r (a multiple of 8).
  uint64_t along_rows(uint32_t r, uint32_t k) const {
    if (!span) return start + uint64_t(r / 8) * stride + uint64_t(k / 8) * leading + (k % 8) * 16;
    uint32_t wide = uint32_t(span) / 2;
    return swizzle(start + uint64_t(r / wide) * leading + uint64_t(k / 8) * stride + uint64_t(k % 8) * uint64_t(span) + (r % wide) * 2);
  }
};

}  // namespace sim
