// The tensor-map encoders: every rule that cuda.h (13.0) states for cuTensorMapEncodeTiled and
// cuTensorMapEncodeIm2col, and a 128-byte object that only the simulator can read.
#include "record.h"

#include <cstring>

using namespace tilegen_host;

namespace {

struct Type {
  const char *name;
  unsigned bits;
  bool floating;
};

constexpr Type kTypes[] = {
    {"u8", 8, false},    {"u16", 16, false}, {"u32", 32, false}, {"s32", 32, false},
    {"u64", 64, false},  {"s64", 64, false}, {"f16", 16, true},  {"f32", 32, true},
    {"f64", 64, true},   {"bf16", 16, true}, {"f32_ftz", 32, true},
    {"tf32", 32, true},  {"tf32_ftz", 32, true},
};
constexpr unsigned kSpans[] = {0, 32, 64, 128, 128, 128, 128};  // bytes, by CUtensorMapSwizzle

struct Map {
  CUtensorMapDataType type;
  unsigned rank;
  uint64_t base;
  const cuuint64_t *sizes, *strides;  // strides[i] belongs to dimension i + 1, in bytes
  const cuuint32_t *steps;            // element strides
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
  unsigned element() const { return kTypes[type].bits / 8; }
};

// Rules common to both encoders. Reads no array before its length is known to be legal.
void check_common(const CUtensorMap *out, const Map &map, unsigned least_rank) {
  if (state().device["compute_capability"] < 90) {
    problem("tensor maps need compute capability 9.0");
  }
  if (reinterpret_cast<uintptr_t>(out) % 64) problem("the tensor map object is not 64-byte aligned");
  if (static_cast<unsigned>(map.type) >= sizeof kTypes / sizeof kTypes[0]) {
    problem("data type %d is not modelled", static_cast<int>(map.type));
    return;
  }
  if (map.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) least_rank = 3;
  if (map.rank < least_rank || map.rank > 5) {
    problem("rank %u is outside %u..5", map.rank, least_rank);
    return;
  }
  const bool wide = map.interleave == CU_TENSOR_MAP_INTERLEAVE_32B;
  const unsigned align = wide ? 32 : 16;
  if (map.base == 0 || map.base % align) {
    problem("base address 0x%llx is not a multiple of %u bytes",
            static_cast<unsigned long long>(map.base), align);
  }
  for (unsigned i = 0; i < map.rank; ++i) {
    const unsigned long long size = map.sizes[i];
    if (size == 0 || size > 1ULL << 32) problem("size %llu of dimension %u is outside 1..2^32", size, i);
    const unsigned step = map.steps[i];
    const bool ignored = i == 0 && map.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    if (!ignored && (step == 0 || step > 8)) {
      problem("element stride %u of dimension %u is outside 1..8", step, i);
    }
  }
  for (unsigned i = 0; i + 1 < map.rank; ++i) {
    const unsigned long long stride = map.strides[i];
    if (stride % align || stride >= 1ULL << 40) {
      problem("stride of %llu bytes of dimension %u is not a multiple of %u below 2^40", stride,
              i + 1, align);
    }
  }
  if (static_cast<unsigned>(map.interleave) > 2) {
    problem("interleave %d does not exist", static_cast<int>(map.interleave));
  }
  if (static_cast<unsigned>(map.swizzle) > 6) {
    problem("swizzle %d does not exist", static_cast<int>(map.swizzle));
  } else if (wide && map.swizzle != CU_TENSOR_MAP_SWIZZLE_32B) {
    problem("interleave 32B needs swizzle 32B");
  }
  if (static_cast<unsigned>(map.promotion) > 3) {
    problem("L2 promotion %d does not exist", static_cast<int>(map.promotion));
  }
  if (map.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !kTypes[map.type].floating) {
    problem("NaN fill needs a floating-point type, not %s", kTypes[map.type].name);
  }
}

void check_inner(const Map &map, unsigned elements, const char *what) {
  const unsigned bytes = elements * map.element();
  if (map.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return;
  if (bytes % 16) problem("%s of %u elements is %u bytes, no multiple of 16", what, elements, bytes);
  const unsigned span = static_cast<unsigned>(map.swizzle) <= 6 ? kSpans[map.swizzle] : 0;
  if (span && bytes > span) {
    problem("%s of %u elements is %u bytes, more than the swizzle span of %u", what, elements, bytes,
            span);
  }
}

template <class T>
std::string wide_list(const T *values, unsigned count) {
  std::string result = "[";
  for (unsigned i = 0; i < count; ++i) {
    result += text("%s%lld", i ? "," : "", static_cast<long long>(values[i]));
  }
  return result + "]";
}

CUresult write(CUtensorMap *out, const Map &map, const std::string &mode) {
  const bool legal = state().problems.empty();
  std::string fields = "\"call\":\"tensor_map\"";
  if (legal) {
    const uint64_t index = state().maps++;
    std::memset(static_cast<void *>(out), 0, sizeof *out);
    std::memcpy(static_cast<void *>(out), "tmap\x93sim", 8);
    std::memcpy(reinterpret_cast<char *>(out) + 8, &index, sizeof index);
    fields += text(",\"index\":%llu,\"type\":\"%s\",\"rank\":%u,\"base\":%llu",
                   static_cast<unsigned long long>(index), kTypes[map.type].name, map.rank,
                   static_cast<unsigned long long>(map.base)) +
              ",\"sizes\":" + wide_list(map.sizes, map.rank) +
              ",\"strides\":" + wide_list(map.strides, map.rank - 1) +
              ",\"steps\":" + wide_list(map.steps, map.rank) +
              text(",\"interleave\":%d,\"swizzle\":%d,\"promotion\":%d,\"fill\":%d",
                   static_cast<int>(map.interleave), static_cast<int>(map.swizzle),
                   static_cast<int>(map.promotion), static_cast<int>(map.fill)) +
              mode;
  }
  finish(fields, legal ? cudaSuccess : cudaErrorInvalidValue, false);
  return legal ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

namespace tilegen_host {

CUresult encode_tiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *base,
                      const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                      const cuuint32_t *steps, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                      CUtensorMapFloatOOBfill fill) {
  const Map map{type,  rank,       reinterpret_cast<uint64_t>(base), sizes, strides, steps,
                interleave, swizzle, promotion, fill};
  check_common(out, map, 1);
  if (rank >= 1 && rank <= 5 && static_cast<unsigned>(type) < 13) {
    for (unsigned i = 0; i < rank; ++i) {
      if (box[i] == 0 || box[i] > 256) problem("box %u of dimension %u is outside 1..256", box[i], i);
    }
    check_inner(map, box[0], "the inner box");
  }
  return write(out, map, state().problems.empty() ? ",\"box\":" + list(box, rank) : "");
}

CUresult encode_im2col(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *base,
                       const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower,
                       const int *upper, cuuint32_t channels, cuuint32_t pixels,
                       const cuuint32_t *steps, CUtensorMapInterleave interleave,
                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                       CUtensorMapFloatOOBfill fill) {
  const Map map{type,  rank,       reinterpret_cast<uint64_t>(base), sizes, strides, steps,
                interleave, swizzle, promotion, fill};
  check_common(out, map, 3);
  if (rank >= 3 && rank <= 5 && static_cast<unsigned>(type) < 13) {
    const int bound = rank == 3 ? 32768 : rank == 4 ? 128 : 16;
    for (unsigned i = 0; i + 2 < rank; ++i) {
      for (const int corner : {lower[i], upper[i]}) {
        if (corner < -bound || corner >= bound) {
          problem("corner %d of spatial dimension %u is outside %d..%d", corner, i, -bound,
                  bound - 1);
        }
      }
      const long long extent = static_cast<long long>(sizes[i + 1]) + upper[i] - lower[i];
      if (extent <= 0) problem("the bounding box is empty in spatial dimension %u", i);
    }
    if (channels == 0 || channels > 256) problem("%u channels a pixel are outside 1..256", channels);
    if (pixels == 0 || pixels > 1024) problem("%u pixels a column are outside 1..1024", pixels);
    check_inner(map, channels, "a pixel");
  }
  if (!state().problems.empty()) return write(out, map, "");
  return write(out, map,
               ",\"lower\":" + wide_list(lower, rank - 2) + ",\"upper\":" +
                   wide_list(upper, rank - 2) +
                   text(",\"channels\":%u,\"pixels\":%u", channels, pixels));
}

}  // namespace tilegen_host
