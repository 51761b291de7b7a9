// Sums of 256 elements; with LATE, a barrier of the tree is missing.
#include <cuda_runtime.h>

__global__ void block_sum(const float *x, float *y, int n) {
  __shared__ float part[256];
  int i = int(blockIdx.x * 256 + threadIdx.x);
  part[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (int(threadIdx.x) < half) part[threadIdx.x] += part[threadIdx.x + half];
#ifndef LATE
    __syncthreads();
#endif
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

extern "C" cudaError_t launch(const float *x, float *y, int n, cudaStream_t stream) {
  block_sum<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
  return cudaGetLastError();
}
