// C = A B^T of 64 x 16 and 8 x 16 bf16 with one wgmma, and two warpgroups that take turns at a buffer through named
// barriers. Each Bug is one mistake; kNone is right.
#include <cuda_bf16.h>

#include "primitives.cuh"

namespace {

enum Bug {
  kNone,
  kNoProxyFence,    // wgmma reads what generic stores have not made visible to the async proxy
  kNoBarrier,       // wgmma reads what other warps may not have written yet
  kWaitOne,         // the result is read while wgmma may still write it
  kReuseEarly,      // A is overwritten while wgmma may still read it
  kNoPriming,       // the first turn is nobody's: both groups wait
  kArriveCount,     // a named barrier counts one warp less than takes part
  kNoTurn,          // both groups use the buffer at once
  kNoWgmmaFence,    // registers set by other instructions are not ordered before wgmma
  kBugs
};

__device__ __forceinline__ uint64_t descriptor(const void *matrix) {
  // K-major without swizzle: 128 bytes from one 8-element column to the next, 256 to the next 8 rows.
  return static_cast<uint64_t>((shared_address(matrix) & 0x3ffff) >> 4) | 8ull << 16 | 16ull << 32;
}

template <Bug kBug>
__global__ void __launch_bounds__(128)
    product(const uint16_t *a, const uint16_t *b, float *c, int repeats) {
  __shared__ alignas(128) uint16_t a_tile[64 * 16], b_tile[8 * 16];
  float sums[4] = {};
  for (int round = 0; round < repeats; ++round) {
    for (int i = threadIdx.x; i < 64 * 16; i += 128) {
      // Core matrices of 8 rows of 16 bytes.
      const int row = i / 16, column = i % 16;
      a_tile[row / 8 * 128 + column / 8 * 64 + row % 8 * 8 + column % 8] = a[round * 64 * 16 + i];
    }
    {
      const int row = threadIdx.x / 16, column = threadIdx.x % 16;
      b_tile[column / 8 * 64 + row * 8 + column % 8] = b[threadIdx.x];
    }
    if (kBug != kNoProxyFence) proxy_fence();
    // Both tiles are written, and visible to the async proxy, before wgmma reads them.
    if (kBug != kNoBarrier) __syncthreads();
    if (kBug != kNoWgmmaFence) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "l"(descriptor(a_tile)), "l"(descriptor(b_tile)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (kBug == kWaitOne) {
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    } else if (kBug != kReuseEarly) {
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      // wgmma has read both tiles before they are written again.
      __syncthreads();
    }
  }
  if (kBug == kReuseEarly) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + column + i % 2] = sums[i];
}

// Two warpgroups add to one buffer in turns: group 0 first. Barrier g lets group g go.
template <Bug kBug>
__global__ void __launch_bounds__(256) turns(float *y, int rounds) {
  __shared__ float buffer[128];
  const int group = threadIdx.x / 128, lane = threadIdx.x % 128;
  if (group == 0) buffer[lane] = 0;
  // Group 1 lets group 0 go first.
  if (group == 1 && kBug != kNoPriming) named_arrive(1, 256);
  for (int round = 0; round < rounds; ++round) {
    if (kBug != kNoTurn) named_sync(1 + group, kBug == kArriveCount ? 224 : 256);
    buffer[(lane + round) % 128] += static_cast<float>(1 + group);
    // The other group's turn; nobody waits for the very last one.
    if (kBug != kNoTurn && (group == 0 || round + 1 < rounds)) named_arrive(2 - group, 256);
  }
  __syncthreads();
  if (group == 0) y[lane] = buffer[lane];
}

template <int kBug>
void launch(int bug, const uint16_t *a, const uint16_t *b, float *c, float *y, int rounds) {
  if (bug == kBug) {
    product<static_cast<Bug>(kBug)><<<1, 128>>>(a, b, c, rounds);
    turns<static_cast<Bug>(kBug)><<<1, 256>>>(y, rounds);
  } else if constexpr (kBug + 1 < kBugs) {
    launch<kBug + 1>(bug, a, b, c, y, rounds);
  }
}

}  // namespace

extern "C" cudaError_t run(int64_t bug, const void *a, const void *b, void *c, void *y,
                           int64_t rounds) {
  launch<0>(static_cast<int>(bug), static_cast<const uint16_t *>(a),
            static_cast<const uint16_t *>(b), static_cast<float *>(c), static_cast<float *>(y),
            static_cast<int>(rounds));
  return cudaPeekAtLastError();
}
