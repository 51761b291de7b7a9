// One fault an entry.
#include <cstdint>

__device__ uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void no_warp_sync(int *y) {
  __shared__ int s[32];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void with_warp_sync(int *y) {
  __shared__ int s[32];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();  // the other lane has written
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void divergent_barrier(int *y) {
  if (threadIdx.x < 16) __syncthreads();
  else y[threadIdx.x] = 1;
  asm volatile("bar.sync 1, 64;" ::: "memory");
}
extern "C" __global__ void early_exit(int *y) {
  if (threadIdx.x < 32) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}
extern "C" __global__ void misaligned(int *y) {
  asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(y + threadIdx.x), "r"(1) : "memory");
}
extern "C" __global__ void uninitialised(int *y) {
  __shared__ int s[64];
  s[threadIdx.x] = 1;
  __syncwarp();
  y[threadIdx.x] = s[threadIdx.x + 1];
}
extern "C" __global__ void stops(int *y) {
  if (y[0] == 7) __trap();
}
extern "C" __global__ void endless(volatile int *y) {
  while (y[0] == 7) {
  }
}
extern "C" __global__ void too_many_arrivals(int *y) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 2;" ::"r"(shared_address(&barrier)) : "memory");
  }
  __syncthreads();
  uint64_t state;
  if (threadIdx.x < 3) asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&barrier)) : "memory");
  y[threadIdx.x] = 0;
}
extern "C" __global__ void plain_access_to_barrier(int *y) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    y[0] = static_cast<int>(barrier);
  }
}
extern "C" __global__ void conflicts(const int *x, int *y) {
  __shared__ int s[32 * 33];
  for (int i = 0; i < 32; ++i) s[i * 32 + threadIdx.x] = x[threadIdx.x * 32 + i];
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += s[threadIdx.x * 32 + i];
  y[threadIdx.x] = sum;
}
