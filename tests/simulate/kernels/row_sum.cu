// Row sums: one block a row, warps reduce with shuffles, the first warp adds what they left in shared memory.
// MISSING_BARRIER leaves out the barrier between the two steps; OFF_BY_ONE reads one element too many.
#include <cstdint>

constexpr int kWarps = 4;

extern "C" __global__ void row_sum(const float *x, float *y, int columns) {
  __shared__ float partial[kWarps];  // [kWarps]
  const float *row = x + static_cast<int64_t>(blockIdx.x) * columns;
  float sum = 0.0f;
#ifdef OFF_BY_ONE
  for (int i = threadIdx.x; i <= columns; i += 32 * kWarps) {
#else
  for (int i = threadIdx.x; i < columns; i += 32 * kWarps) {
#endif
    sum += row[i];
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
#ifndef MISSING_BARRIER
  __syncthreads();  // the sums of all warps are in place
#endif
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int w = 0; w < kWarps; ++w) total += partial[w];
    y[blockIdx.x] = total;
  }
}
