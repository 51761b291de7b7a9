// y = 2 x over tiles of 8 x 32 floats: one warp loads tiles through TMA into a ring of two stages, another doubles them
// into a staging buffer and stores that through TMA. Each Bug is one mistake; kNone is right.
#include "primitives.cuh"

namespace {

enum Bug {
  kNone,
  kConsumerParity,   // the consumer takes the other parity for complete
  kProducerParity,   // the producer waits for a release that nobody has made yet
  kExpectMore,       // 16 bytes more than a box has
  kExpectLess,       // half the bytes of a box
  kNoProxyFence,     // generic writes of the staging buffer are not fenced before TMA reads it
  kNoReadWait,       // the staging buffer is written while the last store still reads it
  kReleaseEarly,     // the stage is given back before it is read
  kNoEmptyWait,      // the stage is loaded before it is given back
  kNoInitFence,      // the barriers' initialisation is not fenced for the async proxy
  kNoInitBarrier,    // the consumer may wait on a barrier that is not initialised
  kNoFinalWait,      // the block exits while its store reads shared memory
  kDestination,      // a destination that is not 128-byte aligned
  kCoordinate,       // an inner coordinate that is not a multiple of 16 bytes
  kNegativeStore,    // a store at a negative coordinate
  kNoWarpBarrier,    // one lane stores what the other lanes have not written yet
  kBugs
};

constexpr int kRows = 8, kColumns = 32, kStages = 2;
constexpr int kTileBytes = kRows * kColumns * 4;

template <Bug kBug>
__global__ void __launch_bounds__(64)
    pipeline(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y,
             int tiles) {
  __shared__ alignas(128) float ring[kStages][kRows * kColumns];
  __shared__ alignas(128) float staging[kRows * kColumns];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], 1);
    }
    if (kBug != kNoInitFence) barrier_init_fence();
  }
  // The barriers are initialised before anyone uses them.
  if (kBug != kNoInitBarrier) __syncthreads();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0 && lane == 0) {
    uint32_t parity = kBug == kProducerParity ? 0 : 1;
    for (int tile = blockIdx.x, s = 0; tile < tiles; tile += gridDim.x) {
      if (kBug != kNoEmptyWait) barrier_wait(&empty[s], parity);
      barrier_expect(&full[s], kBug == kExpectMore   ? kTileBytes + 16
                               : kBug == kExpectLess ? kTileBytes / 2
                                                     : kTileBytes);
      float *to = ring[s] + (kBug == kDestination ? 4 : 0);
      load_tile(to, &x, &full[s], kBug == kCoordinate ? 1 : 0, tile * kRows);
      if (++s == kStages) s = 0, parity ^= 1;
    }
  } else if (warp == 1) {
    uint32_t parity = kBug == kConsumerParity ? 1 : 0;
    for (int tile = blockIdx.x, s = 0; tile < tiles; tile += gridDim.x) {
      barrier_wait(&full[s], parity);
      if (kBug == kReleaseEarly && lane == 0) barrier_arrive(&empty[s]);
      float values[kRows];
      for (int row = 0; row < kRows; ++row) values[row] = 2 * ring[s][row * kColumns + lane];
      // Every lane has read the stage before it is given back.
      __syncwarp();
      if (kBug != kReleaseEarly && lane == 0) barrier_arrive(&empty[s]);
      // The last store has read the staging buffer.
      if (kBug != kNoReadWait && lane == 0) store_wait_read();
      __syncwarp();
      for (int row = 0; row < kRows; ++row) staging[row * kColumns + lane] = values[row];
      if (kBug != kNoProxyFence) proxy_fence();
      // Every lane's part is written before one lane stores it.
      if (kBug != kNoWarpBarrier) __syncwarp();
      if (lane == 0) store_tile(&y, staging, kBug == kNegativeStore ? -4 : 0, tile * kRows);
      if (++s == kStages) s = 0, parity ^= 1;
    }
    if (kBug != kNoFinalWait && lane == 0) store_wait();
  }
}

template <int kBug>
void launch(int bug, dim3 grid, const CUtensorMap &x, const CUtensorMap &y, int tiles) {
  if (bug == kBug) {
    pipeline<static_cast<Bug>(kBug)><<<grid, 64>>>(x, y, tiles);
  } else if constexpr (kBug + 1 < kBugs) {
    launch<kBug + 1>(bug, grid, x, y, tiles);
  }
}

}  // namespace

extern "C" cudaError_t run(int64_t bug, const void *x, void *y, int64_t rows, int64_t blocks) {
  CUtensorMap from, to;
  if (encode(&from, x, kColumns, static_cast<uint64_t>(rows), kColumns, kRows) != CUDA_SUCCESS ||
      encode(&to, y, kColumns, static_cast<uint64_t>(rows), kColumns, kRows) != CUDA_SUCCESS) {
    return cudaErrorInvalidValue;
  }
  launch<0>(static_cast<int>(bug), dim3(static_cast<unsigned>(blocks)), from, to,
            static_cast<int>((rows + kRows - 1) / kRows));
  return cudaPeekAtLastError();
}
