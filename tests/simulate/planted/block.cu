// Kernels for sm_80: a ring of cp.async stages, a block's sum through shared memory, a flag between two blocks. Each Bug is
// one mistake; kNone is right.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

enum Bug {
  kNone,
  kWaitOneMore,          // the newest stage may still be on its way when it is read
  kNoArrivalBarrier,     // other threads' copies are read without a barrier
  kNoReleaseBarrier,     // a stage is loaded again while others read it
  kNoCommit,             // copies in no group are not waited for
  kTail,                 // the last tile is loaded whole, past the array's end
  kMisaligned,           // 16-byte copies from an address that is a multiple of 4
  kNoSum,                // the sum reads what other warps may not have written yet
  kNoWarpSync,           // lanes of a warp read what others may not have written yet
  kSharedEnd,            // far past the shared array
  kUninitialised,        // a partial sum that nobody wrote
  kDivergent,            // half a warp at a barrier of the block
  kSameElement,          // every block writes one element
  kInputWritten,         // the input is changed
  kGlobalUninitialised,  // the output is read before it is written
  kRelaxedFlag,          // data published through a flag without release and acquire
  kBugs
};

constexpr int kThreads = 64, kStages = 3, kTile = kThreads * 4;  // floats

__device__ __forceinline__ void copy16(float *to, const float *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(bytes)
               : "memory");
}

// y[i] = sum over tiles t of x[t][(i + 4) mod kTile]: each thread reads what its neighbour copied.
template <Bug kBug>
__global__ void __launch_bounds__(kThreads) ring(const float *x, float *y, int n) {
  __shared__ alignas(16) float stage[kStages][kTile];
  const int tiles = (n + kTile - 1) / kTile, first = threadIdx.x * 4;
  auto load = [&](int tile) {
    const int at = tile * kTile + first + (kBug == kMisaligned ? 1 : 0);
    const int left = n - at, count = left < 0 ? 0 : left < 4 ? left : 4;
    if (tile < tiles) {
      copy16(&stage[tile % kStages][first], x + (left > 0 || kBug == kTail ? at : 0),
             kBug == kTail ? 16 : count * 4);
    }
    if (kBug != kNoCommit) asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int tile = 0; tile < kStages - 1; ++tile) load(tile);
  float sums[4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    if (kBug == kWaitOneMore) {
      asm volatile("cp.async.wait_group 2;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
    // The stage has arrived for every thread, and the one to load next has been read by all.
    if (kBug != kNoArrivalBarrier) __syncthreads();
    if (kBug == kNoReleaseBarrier) load(tile + kStages);
    for (int i = 0; i < 4; ++i) sums[i] += stage[tile % kStages][(first + 4 + i) % kTile];
    if (kBug != kNoReleaseBarrier) load(tile + kStages - 1);
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) y[first + i] = sums[i];
}

// y[block] = sum of the block's 64 elements of x.
template <Bug kBug>
__global__ void __launch_bounds__(kThreads) sum(float *x, float *y) {
  __shared__ float part[kThreads], warps[3];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float *from = x + blockIdx.x * kThreads;
  part[threadIdx.x] = kBug == kGlobalUninitialised ? y[blockIdx.x] : from[threadIdx.x];
  __syncwarp();
  for (int step = 16; step > 0; step /= 2) {
    const float other = lane < step ? part[threadIdx.x + step] : 0;
    if (kBug != kNoWarpSync) __syncwarp();
    if (lane < step) part[threadIdx.x] += other;
    if (kBug != kNoWarpSync) __syncwarp();
  }
  if (kBug == kSharedEnd) part[threadIdx.x + 4096] = 0;
  if (lane == 0) warps[warp] = part[threadIdx.x];
  // Both warps' sums are there.
  if (kBug == kDivergent) {
    if (threadIdx.x % 32 < 16 || warp == 1) __syncthreads();
  } else if (kBug != kNoSum) {
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    y[kBug == kSameElement ? 0 : blockIdx.x] = warps[0] + warps[kBug == kUninitialised ? 2 : 1];
    if (kBug == kInputWritten) x[0] = 0;
  }
  // The half that passed by comes to this barrier instead.
  if (kBug == kDivergent) __syncthreads();
}

// Block 0 publishes 32 values, block 1 adds one to them.
template <Bug kBug>
__global__ void __launch_bounds__(32) message(float *data, unsigned *flag, float *y) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = static_cast<float>(threadIdx.x);
    __syncwarp();
    if (threadIdx.x == 0) {
      if (kBug == kRelaxedFlag) {
        asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
      } else {
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
      }
    }
  } else {
    if (threadIdx.x == 0) {
      unsigned seen = 0;
      while (seen == 0) {
        if (kBug == kRelaxedFlag) {
          asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        } else {
          asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        }
      }
    }
    __syncwarp();
    y[threadIdx.x] = data[threadIdx.x] + 1;
  }
}

template <int kBug>
void launch(int bug, float *x, int n, float *tiles, float *sums, float *data, unsigned *flag,
            float *answer) {
  if (bug == kBug) {
    constexpr Bug kThis = static_cast<Bug>(kBug);
    ring<kThis><<<1, kThreads>>>(x, tiles, n);
    sum<kThis><<<2, kThreads>>>(x, sums);
    cudaMemsetAsync(flag, 0, 4, nullptr);
    message<kThis><<<2, 32>>>(data, flag, answer);
  } else if constexpr (kBug + 1 < kBugs) {
    launch<kBug + 1>(bug, x, n, tiles, sums, data, flag, answer);
  }
}

}  // namespace

extern "C" cudaError_t run(int64_t bug, void *x, int64_t n, void *tiles, void *sums, void *data,
                           void *flag, void *answer) {
  launch<0>(static_cast<int>(bug), static_cast<float *>(x), static_cast<int>(n),
            static_cast<float *>(tiles), static_cast<float *>(sums), static_cast<float *>(data),
            static_cast<unsigned *>(flag), static_cast<float *>(answer));
  return cudaPeekAtLastError();
}
