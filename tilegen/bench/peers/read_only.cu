// Reads memory and keeps nothing: as fast as a reduction can be.
#include <cuda_runtime_api.h>
#include <stdint.h>

namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 4;  // 16-byte loads of a thread that are under way together
constexpr int kBlocks = 1056;

__global__ void __launch_bounds__(kThreads) read_only(const uint4 *from, int64_t count, uint32_t *never) {
  uint32_t mixed = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kLoads;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kLoads + threadIdx.x; first < count;
       first += stride) {
    uint4 loaded[kLoads] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (first + i * kThreads < count) {
        loaded[i] = from[first + i * kThreads];
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      mixed |= loaded[i].x & loaded[i].y & loaded[i].z & loaded[i].w;
    }
  }
  // True of nothing that a random number generator draws; the compiler cannot know.
  if (mixed == 0x9e3779b9u) {
    *never = mixed;
  }
}

}  // namespace

extern "C" int read_all(const void *from, int64_t bytes, void *never, cudaStream_t stream) {
  read_only<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4 *>(from), bytes / 16,
                                              static_cast<uint32_t *>(never));
  return cudaPeekAtLastError();
}
