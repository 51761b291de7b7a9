// The sum of a vector over several blocks: each leaves a partial sum, the block that arrives last adds them.
// NO_FENCE leaves out the fence before the arrival; NO_READER_FENCE the one after it.
#include <cstdint>

extern "C" __global__ void split_sum(const float *x, float *partial, unsigned *arrivals, float *y, int per_block) {
  __shared__ bool is_last;
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < per_block; i += 32) sum += x[static_cast<int64_t>(blockIdx.x) * per_block + i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
#ifndef NO_FENCE
    __threadfence();
#endif
    is_last = atomicAdd(arrivals, 1u) == gridDim.x - 1;
#ifndef NO_READER_FENCE
    __threadfence();
#endif
  }
  __syncthreads();  // is_last is known to the block
  if (is_last && threadIdx.x == 0) {
    float total = 0.0f;
    for (unsigned b = 0; b < gridDim.x; ++b) total += partial[b];
    *y = total;
  }
}

// Every block waits until all have come: blocks that are not resident together would hang.
extern "C" __global__ void grid_barrier(unsigned *arrivals, int *values, int *sums) {
  if (threadIdx.x == 0) {
    values[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
    __threadfence();
    atomicAdd(arrivals, 1u);
    while (*static_cast<volatile unsigned *>(arrivals) < gridDim.x) {
    }
    __threadfence();
    int sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += values[b];
    sums[blockIdx.x] = sum;
  }
}

// Two blocks write the same place.
extern "C" __global__ void same_place(int *y) {
  if (threadIdx.x == 0) y[blockIdx.x / 2] = static_cast<int>(blockIdx.x);
}
