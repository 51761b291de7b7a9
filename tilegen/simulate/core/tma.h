// A tensor copy as a list of rows: where each lies in shared memory, and which part of it exists in the tensor.
#pragma once
#include "async.h"

namespace sim {

struct TensorRow {
  uint64_t shared;   // byte offset from the box's start, before swizzling
  uint64_t global;   // address of the row's first byte that exists; 0 if none does
  uint32_t bytes;    // of the row
  uint32_t first;    // bytes of the row before those that exist
  uint32_t valid;    // bytes that exist
};

struct TensorBox {
  std::vector<TensorRow> rows;
  uint64_t bytes = 0;   // what counts towards the transaction
  uint64_t extent = 0;  // of shared memory, from the first byte to the last
};

// coordinates: innermost first. offsets: im2col, of the filter element. Returns false after a report.
bool tile_box(Warp &w, int lane, const TensorMap &map, const int32_t *coordinates, bool store, TensorBox &box);
bool im2col_box(Warp &w, int lane, const TensorMap &map, const int32_t *coordinates, const uint16_t *offsets, TensorBox &box);

// The swizzle: an exclusive or of address bits, on the absolute offset in the block's shared memory.
inline uint64_t swizzled(uint64_t address, int swizzle) {
  if (swizzle == 128) return address ^ ((address >> 7 & 7) << 4);
  if (swizzle == 64) return address ^ ((address >> 7 & 3) << 4);
  if (swizzle == 32) return address ^ ((address >> 7 & 1) << 4);
  return address;
}

}  // namespace sim
