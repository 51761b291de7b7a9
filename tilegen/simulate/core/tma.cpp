// Bulk tensor copies (PTX ISA 9.7.9.27): loads with multicast, stores, reductions.
#include <algorithm>

#include "numbers.h"
#include "reduce.h"
#include "tma.h"

namespace sim {
namespace {

constexpr char kMagic[9] = "tmap\x93sim";
// Element types of a map (in the order of TENSOR_MAP_TYPES) as reductions know them.
constexpr int kReduceType[] = {kU8, kU16, kU32, kS32, kU64, kS64, kF16, kF32, kF64, kBf16, kF32, kF32, kF32};

const TensorMap *map_at(Warp &w, const Inst &i, uint64_t address, int lane) {
  Machine &k = *w.m;
  if (address & 63) {
    k.report("tma", "the address of the tensor map is not a multiple of 64", &w, lane);
    return nullptr;
  }
  Locator find(w, i, kGeneric, false);
  Place p = find.at(address, 128, lane, 64);
  if (!p.host) return nullptr;
  uint64_t index;
  std::memcpy(&index, p.host + 8, 8);
  if (std::memcmp(p.host, kMagic, 8) || index >= k.maps.size()) {
    k.report("tma", "the operand is not a tensor map", &w, lane);
    return nullptr;
  }
  return &k.maps[index];
}

// Shared offsets of a box: its swizzled 16-byte pieces, checked against the block's memory.
bool box_fits(Warp &w, int lane, const TensorBox &box, uint64_t offset, const Block &b) {
  if (offset % 128) {
    w.m->report("misaligned", format("shared byte %llu of a tensor copy is not a multiple of 128", (unsigned long long)offset), &w, lane);
    return false;
  }
  if (offset < kSharedStart || offset + box.extent > b.shared.size()) {
    w.m->report("out-of-bounds", format("a box of %llu bytes at shared byte %llu; the block has %zu (to %zu)", (unsigned long long)box.extent,
                                        (unsigned long long)offset, b.shared.size() - kSharedStart, b.shared.size()), &w, lane);
    return false;
  }
  return true;
}

template <class F>
void pieces(const TensorRow &row, uint64_t offset, int swizzle, F f) {
  for (uint32_t x = 0; x < row.bytes; x += 16) f(x, swizzled(offset + row.shared + x, swizzle), std::min(16u, row.bytes - x));
}

void shadow_box(Machine &k, Block &b, const TensorMap &map, const TensorBox &box, uint64_t offset, const Access &a) {
  if (!k.detect) return;
  for (const TensorRow &row : box.rows)
    pieces(row, offset, map.swizzle, [&](uint32_t, uint64_t at, uint32_t n) { b.shadow.touch(k, at / 16, uint16_t((1u << n) - 1), a); });
}

// Host memory of each row's existing part; reports what lies in no buffer.
bool locate(Warp &w, int lane, const TensorBox &box, bool write, const Access &a, std::vector<uint8_t *> &host) {
  Machine &k = *w.m;
  host.assign(box.rows.size(), nullptr);
  for (size_t r = 0; r < box.rows.size(); ++r) {
    const TensorRow &row = box.rows[r];
    if (!row.valid) continue;
    GlobalBuffer *g = k.find(row.global);
    if (!g || row.global - g->address + row.valid > g->size) {
      k.report("out-of-bounds", format("the tensor map reaches address 0x%llx (%u bytes), which %s", (unsigned long long)row.global, row.valid,
                                       g ? format("leaves '%s' of %llu bytes", g->name, (unsigned long long)g->size).c_str() : "is in no buffer"), &w, lane);
      return false;
    }
    if (write && !g->writable) {
      k.report("read-only", format("a tensor store writes to %s, which is read-only", g->name), &w, lane);
      return false;
    }
    host[r] = g->data + (row.global - g->address);
    if (g->tracked) g->shadow.range(k, (g->address & 15) + (row.global - g->address), row.valid, a);
  }
  return true;
}

// The fill of elements outside the tensor: zero, or the format's NaN as hardware writes it.
void fill(const TensorMap &map, uint8_t *to, uint32_t bytes) {
  if (!map.nan_fill) {
    std::memset(to, 0, bytes);
    return;
  }
  static const uint64_t pattern = 0x7ff77ff77ff77ff7ull;
  for (uint32_t x = 0; x + 8 <= bytes; x += 8) std::memcpy(to + x, &pattern, 8);
}

// Loads round to tf32 and flush subnormals where the map's type says so (types in the order of TENSOR_MAP_TYPES).
void convert_loaded(const TensorMap &map, uint8_t *row, uint32_t bytes) {
  constexpr int kFtz = 10, kTf32 = 11, kTf32Ftz = 12;
  if (map.dtype < kFtz) return;
  for (uint32_t x = 0; x + 4 <= bytes; x += 4) {
    float v;
    std::memcpy(&v, row + x, 4);
    if (map.dtype == kFtz || map.dtype == kTf32Ftz) v = flush(v);
    if (map.dtype == kTf32 || map.dtype == kTf32Ftz) v = v != v ? float_of(kNan32) : float_of(tf32_rna(v));
    std::memcpy(row + x, &v, 4);
  }
}

struct Operands {
  uint64_t map, shared, barrier;
  int32_t coordinates[5];
  uint16_t offsets[3];
  uint32_t mask;
};

// a: rank; shared slot, bytes; map slot, bytes; mbarrier slot, bytes (loads); mask slot or ABSENT; im2col.
// list: offsets of shared, map, mbarrier; coordinates; im2col offsets.
void operands(Warp &w, const Inst &i, int lane, Operands &o) {
  const int32_t *list = &w.m->pool[size_t(i.list)];
  uint64_t row[kLanes];
  addresses(w, i.a[1], i.a[2], list[0], row);
  o.shared = row[lane] + (i.a[2] == 0 ? shared_base(w) : 0);
  addresses(w, i.a[3], i.a[4], list[1], row);
  o.map = row[lane];
  addresses(w, i.a[5], i.a[6], list[2], row);
  o.barrier = row[lane] + (i.a[6] == 0 ? shared_base(w) : 0);
  for (int d = 0; d < i.a[0]; ++d) o.coordinates[d] = w.in<int32_t>(list[3 + d])[lane];
  for (int d = 0; d + 3 + i.a[0] < i.count; ++d) o.offsets[d] = w.in<uint16_t>(list[3 + i.a[0] + d])[lane];
  o.mask = i.a[7] != INT32_MIN ? w.in<uint16_t>(i.a[7])[lane] : 0;
}

bool check_map(Warp &w, const Inst &i, const TensorMap *map, int lane) {
  if (!map) return false;
  if (map->rank != i.a[0] || bool(map->im2col) != bool(i.a[8])) {
    w.m->report("tma", format("a %d-dimensional %s copy with a map of %d dimensions%s", i.a[0], i.a[8] ? "im2col" : "tile", map->rank,
                              map->im2col ? " for im2col" : ""), &w, lane);
    return false;
  }
  return true;
}

void load(Warp &w, const Inst &i, Mask m) {
  Machine &k = *w.m;
  Cluster &c = *w.block->cluster;
  Locator find_to(w, i, kShared, true), find_bar(w, i, kShared, true);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Operands o;
    operands(w, i, l, o);
    const TensorMap *map = map_at(w, i, o.map, l);
    if (!check_map(w, i, map, l)) continue;
    auto box = std::make_shared<TensorBox>();
    if (!(i.a[8] ? im2col_box(w, l, *map, o.coordinates, o.offsets, *box) : tile_box(w, l, *map, o.coordinates, false, *box))) continue;
    Place target = find_to.at(o.shared, 16, l, 16);
    BarrierPlace bar = find_barrier(w, find_bar, o.barrier, l, true, true);
    if (!target.host || !bar.barrier) continue;
    if (!o.mask) {
      if (bar.block != target.region->shared_of) k.report("tma", "destination and mbarrier are in different blocks", &w, l);
      o.mask = 1u << bar.block->rank;
    }
    Access wa = access_of(w, 1u << l, i, true), ra = access_of(w, 1u << l, i, false);
    wa.stamp.inst |= kAsync, ra.stamp.inst |= kAsync;
    wa.stamp.lanes = ra.stamp.lanes = kManyLanes;
    std::vector<Block *> blocks;
    for (uint32_t r = 0; r < 16; ++r) {
      if (!(o.mask >> r & 1)) continue;
      if (r >= c.blocks.size()) {
        k.report("tma", format("multicast to block rank %u in a cluster of %zu", r, c.blocks.size()), &w, l);
        continue;
      }
      Block &b = c.blocks[r];
      Mbarrier *there = mbarrier_at(b, bar.offset);
      if (!there || b.live_warps == 0) {
        k.report("mbarrier", format("multicast: block rank %u %s", r, there ? "has exited" : "has no mbarrier at this offset"), &w, l);
        continue;
      }
      if (!box_fits(w, l, *box, target.offset, b)) continue;
      wa.stamp.dim = ra.stamp.dim = there->dim;
      wa.stamp.clock = ra.stamp.clock = there->phase + 1;
      shadow_box(k, b, *map, *box, target.offset, wa);
      blocks.push_back(&b);
    }
    auto host = std::make_shared<std::vector<uint8_t *>>();
    if (blocks.empty() || !locate(w, l, *box, false, ra, *host)) continue;
    uint64_t offset = target.offset, bar_offset = bar.offset;
    int inst = i.index;
    start(c, [=] {
      std::vector<uint8_t> line;
      for (size_t r = 0; r < box->rows.size(); ++r) {
        const TensorRow &row = box->rows[r];
        line.resize(row.bytes);
        fill(*map, line.data(), row.bytes);
        if (row.valid) std::memcpy(line.data() + row.first, (*host)[r], row.valid);
        convert_loaded(*map, line.data() + row.first, row.valid);
        for (Block *b : blocks)
          pieces(row, offset, map->swizzle, [&](uint32_t x, uint64_t at, uint32_t n) { std::memcpy(b->shared.data() + at, line.data() + x, n); });
      }
      for (Block *b : blocks) complete_tx(*b, bar_offset, int64_t(box->bytes), inst);
    });
  }
}

// imm: reduction, 0 for a plain store.
void store(Warp &w, const Inst &i, Mask m) {
  Machine &k = *w.m;
  Locator find(w, i, kShared, false);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    Operands o;
    operands(w, i, l, o);
    const TensorMap *map = map_at(w, i, o.map, l);
    if (!check_map(w, i, map, l)) continue;
    int negative = -1;
    for (int d = 0; d < map->rank; ++d)
      if (o.coordinates[d] < 0) negative = d;
    if (negative >= 0) {
      k.report("tma", format("coordinate %d of a store is %d: stores take no negative coordinate (the copy raises an illegal instruction)",
                             negative, o.coordinates[negative]), &w, l);
      continue;
    }
    auto box = std::make_shared<TensorBox>();
    uint16_t none[3] = {};
    if (!(i.a[8] ? im2col_box(w, l, *map, o.coordinates, none, *box) : tile_box(w, l, *map, o.coordinates, true, *box))) continue;
    Place source = find.at(o.shared, 16, l, 16);
    if (!source.host) continue;
    Block *b = source.region->shared_of;
    if (b != w.block) k.report("tma", "a tensor store reads another block's shared memory", &w, l);
    if (!box_fits(w, l, *box, source.offset, *b)) continue;
    BulkGroup &group = open_group(w, l);
    Access ra = access_of(w, 1u << l, i, false), wa = access_of(w, 1u << l, i, true);
    ra.stamp.inst |= kAsync, wa.stamp.inst |= kAsync | (i.imm ? kStrong : 0u);
    ra.stamp.lanes = wa.stamp.lanes = kManyLanes;
    ra.stamp.clock = wa.stamp.clock = group.clock;
    ra.stamp.dim = bulk_dim(w, l, false), wa.stamp.dim = bulk_dim(w, l, true);
    shadow_box(k, *b, *map, *box, source.offset, ra);
    auto host = std::make_shared<std::vector<uint8_t *>>();
    if (!locate(w, l, *box, true, wa, *host)) continue;
    ++group.reads;
    uint64_t offset = source.offset;
    int operation = int(i.imm);
    uint64_t id = start(*w.block->cluster, [=] {
      std::vector<uint8_t> line;
      for (size_t r = 0; r < box->rows.size(); ++r) {
        const TensorRow &row = box->rows[r];
        if (!row.valid) continue;
        line.resize(row.bytes);
        pieces(row, offset, map->swizzle, [&](uint32_t x, uint64_t at, uint32_t n) { std::memcpy(line.data() + x, b->shared.data() + at, n); });
        if (operation) reduce(operation, kReduceType[map->dtype], (*host)[r], line.data() + row.first, row.valid);
        else std::memcpy((*host)[r], line.data() + row.first, row.valid);
      }
    });
    if (id) group.work.push_back(id);
    ++k.progress;
  }
}

// A prefetch moves nothing, but its operand has to be a map.
void prefetch(Warp &w, const Inst &i, Mask m) {
  uint64_t row[kLanes];
  addresses(w, i.a[1], i.a[2], i.imm, row);
  for (int l = 0; l < kLanes; ++l)
    if (m >> l & 1) map_at(w, i, row[l], l);
}

SIM_OPS(tma) { add("tma.load", load), add("tma.store", store), add("tma.prefetch", prefetch); }

}  // namespace
}  // namespace sim
