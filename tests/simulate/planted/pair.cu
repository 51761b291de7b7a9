// y[t] = x[t] + w over tiles of 8 x 32 floats, with clusters of two blocks: each block of a pair has its own tile of x and
// loads half of the shared tile w, multicast to both. Each Bug is one mistake; kNone is right.
#include "primitives.cuh"

namespace {

enum Bug {
  kNone,
  kOddTiles,       // a block without a tile does not load its half of w for its peer
  kNoClusterSync,  // the peer's barriers may not be initialised when the first half arrives
  kLocalRelease,   // a stage counts as free when one block of the pair has read it
  kEarlyExit,      // a block exits while its peer may still arrive at its barriers
  kHalfBytes,      // only the own half of w is expected
  kBugs
};

constexpr int kRows = 8, kColumns = 32;
constexpr int kTileBytes = kRows * kColumns * 4;

template <Bug kBug>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    pair(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, float *y,
         int rows, int tiles) {
  __shared__ alignas(128) float own[kRows * kColumns];
  __shared__ alignas(128) float shared[kRows * kColumns];
  __shared__ uint64_t full, empty;
  const uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barrier_init(&empty, kBug == kLocalRelease ? 1 : 2);
    barrier_init_fence();
  }
  // The barriers of both blocks are initialised before either block's copies complete on them.
  if (kBug == kNoClusterSync) {
    __syncthreads();
  } else {
    cluster_sync();
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Both blocks of a pair make the same number of rounds, whether or not there is a tile for each.
  const int end = kBug == kOddTiles ? tiles : (tiles + 1) / 2 * 2;
  uint32_t parity = 0;
  for (int tile = blockIdx.x; tile < end; tile += gridDim.x, parity ^= 1) {
    if (warp == 0 && lane == 0) {
      barrier_wait(&empty, parity ^ 1);
      barrier_expect(&full, kBug == kHalfBytes ? kTileBytes + kTileBytes / 2 : 2 * kTileBytes);
      load_tile(own, &x, &full, 0, tile * kRows);
      load_tile_multicast(shared + rank * kRows / 2 * kColumns, &w, &full, 0,
                          static_cast<int>(rank) * kRows / 2, 3);
    } else if (warp == 1) {
      barrier_wait(&full, parity);
      for (int row = 0; row < kRows; ++row) {
        const int at = row * kColumns + lane;
        if (tile * kRows + row < rows) {
          y[static_cast<int64_t>(tile) * kRows * kColumns + at] = own[at] + shared[at];
        }
      }
      // Every lane has read both tiles before both blocks may load the next.
      __syncwarp();
      if (kBug == kLocalRelease) {
        if (lane == 0) barrier_arrive(&empty);
      } else if (lane < 2) {
        barrier_arrive_at(&empty, static_cast<uint32_t>(lane));
      }
    }
  }
  // No block exits while its peer may still write to it.
  if (kBug != kEarlyExit) cluster_sync();
}

template <int kBug>
void launch(int bug, dim3 grid, const CUtensorMap &x, const CUtensorMap &w, float *y, int rows,
            int tiles) {
  if (bug == kBug) {
    pair<static_cast<Bug>(kBug)><<<grid, 64>>>(x, w, y, rows, tiles);
  } else if constexpr (kBug + 1 < kBugs) {
    launch<kBug + 1>(bug, grid, x, w, y, rows, tiles);
  }
}

}  // namespace

extern "C" cudaError_t run(int64_t bug, const void *x, const void *w, void *y, int64_t rows,
                           int64_t blocks) {
  CUtensorMap tiles, half;
  if (encode(&tiles, x, kColumns, static_cast<uint64_t>(rows), kColumns, kRows) != CUDA_SUCCESS ||
      encode(&half, w, kColumns, kRows, kColumns, kRows / 2) != CUDA_SUCCESS) {
    return cudaErrorInvalidValue;
  }
  launch<0>(static_cast<int>(bug), dim3(static_cast<unsigned>(blocks)), tiles, half,
            static_cast<float *>(y), static_cast<int>(rows),
            static_cast<int>((rows + kRows - 1) / kRows));
  return cudaPeekAtLastError();
}
