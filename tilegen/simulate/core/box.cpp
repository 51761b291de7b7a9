// Which bytes a tensor copy moves (PTX ISA 5.5): boxes of a tiled map, columns of an im2col map.
#include <algorithm>

#include "tma.h"

namespace sim {
namespace {

uint32_t row_pitch(const TensorMap &map, uint32_t bytes) {
  // Rows narrower than the swizzle span lie at the span's pitch; the bytes between are not touched.
  return map.swizzle && bytes < uint32_t(map.swizzle) ? uint32_t(map.swizzle) : bytes;
}

bool aligned_start(Warp &w, int lane, const TensorMap &map, int32_t coordinate) {
  if (map.interleave) {
    w.m->report("tma", "interleaved tensor maps are not modelled", &w, lane);
    return false;
  }
  if (int64_t(coordinate) * map.element_bytes % 16 == 0) return true;
  w.m->report("tma", format("coordinate 0 is %d: times %d bytes it must be a multiple of 16 (the copy raises an illegal instruction)",
                            coordinate, map.element_bytes), &w, lane);
  return false;
}

// The part of a row of `count` elements from `start` that exists. Stores clip in units of 16 bytes: they write up to
// 15 bytes past the end of the tensor's rows.
void clip(const TensorMap &map, int64_t start, uint32_t count, bool inside, bool store, uint64_t base, TensorRow &row) {
  int64_t unit = store ? 16 / map.element_bytes : 1;
  int64_t extent = (int64_t(map.dims[0]) + unit - 1) / unit * unit, low = std::max<int64_t>(start, 0), high = std::min<int64_t>(start + count, extent);
  row.bytes = count * uint32_t(map.element_bytes);
  if (!inside || high <= low) {
    row.first = row.bytes, row.valid = 0, row.global = 0;
    return;
  }
  row.first = uint32_t((low - start) * map.element_bytes);
  row.valid = uint32_t((high - low) * map.element_bytes);
  row.global = base + uint64_t(low) * uint64_t(map.element_bytes);
}

}  // namespace

bool tile_box(Warp &w, int lane, const TensorMap &map, const int32_t *coordinates, bool store, TensorBox &box) {
  if (!aligned_start(w, lane, map, coordinates[0])) return false;
  int count[5] = {1, 1, 1, 1, 1};
  for (int d = 0; d < map.rank; ++d) {
    int stride = d ? int(map.element_strides[d]) : 1;  // that of dimension 0 is ignored without interleaving
    count[d] = (int(map.box[d]) + stride - 1) / stride;
  }
  uint32_t row_bytes = uint32_t(count[0] * map.element_bytes), pitch = row_pitch(map, row_bytes);
  int at[5] = {};
  box.rows.reserve(size_t(count[1] * count[2]));
  for (uint64_t n = 0;; ++n) {
    bool inside = true;
    uint64_t base = map.address;
    for (int d = 1; d < map.rank; ++d) {
      int64_t c = int64_t(coordinates[d]) + int64_t(at[d]) * map.element_strides[d];
      inside &= c >= 0 && uint64_t(c) < map.dims[d];
      base += uint64_t(c) * map.strides[d];
    }
    TensorRow row{n * pitch, 0, 0, 0, 0};
    clip(map, coordinates[0], uint32_t(count[0]), inside, store, base, row);
    box.rows.push_back(row);
    box.bytes += row_bytes;
    int d = 1;
    while (d < map.rank && ++at[d] == count[d]) at[d++] = 0;
    if (d >= map.rank) break;
  }
  box.extent = (box.rows.size() - 1) * pitch + row_bytes;
  return true;
}

bool im2col_box(Warp &w, int lane, const TensorMap &map, const int32_t *coordinates, const uint16_t *offsets, TensorBox &box) {
  if (!aligned_start(w, lane, map, coordinates[0])) return false;
  // Dimensions: channels, then up to three of space, then the batch. The walk goes over base pixels within the
  // corners, with the traversal stride, and carries into the next dimension; the batch has no corner.
  int space = map.rank - 2;
  int64_t at[5], low[5], high[5];
  for (int d = 0; d < space; ++d) {
    low[d] = map.lower[d];
    high[d] = int64_t(map.dims[d + 1]) - 1 + map.upper[d];
    at[d] = coordinates[d + 1];
  }
  int64_t batch = coordinates[map.rank - 1];
  uint32_t row_bytes = uint32_t(map.channels * map.element_bytes), pitch = row_pitch(map, row_bytes);
  for (int p = 0; p < map.pixels; ++p) {
    bool inside = batch >= 0 && uint64_t(batch) < map.dims[map.rank - 1];
    uint64_t base = map.address + uint64_t(batch) * map.strides[map.rank - 1];
    for (int d = 0; d < space; ++d) {
      int64_t c = at[d] + offsets[d];
      inside &= c >= 0 && uint64_t(c) < map.dims[d + 1];
      base += uint64_t(c) * map.strides[d + 1];
    }
    TensorRow row{uint64_t(p) * pitch, 0, 0, 0, 0};
    clip(map, coordinates[0], uint32_t(map.channels), inside, false, base, row);
    box.rows.push_back(row);
    box.bytes += row_bytes;
    int d = 0;
    for (; d < space; ++d) {
      at[d] += map.element_strides[d + 1];
      if (at[d] <= high[d]) break;
      at[d] = low[d];
    }
    if (d == space) ++batch;
  }
  box.extent = (box.rows.size() - 1) * pitch + row_bytes;
  return true;
}

}  // namespace sim
