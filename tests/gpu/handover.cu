// The smallest handing over of a value through a raw mbarrier: one thread writes it and arrives,
// which releases; the others wait, which acquires, and read it.
//
//   nvcc -arch=sm_90a -lineinfo -o /tmp/handover tests/gpu/handover.cu
//   compute-sanitizer --tool racecheck /tmp/handover
//
// In both orders of the PTX memory model that is no race: mbarrier.arrive is .release and
// mbarrier.try_wait .acquire unless they say otherwise. What racecheck prints of it tells whether
// it follows such barriers. `tilegen simulate tests/gpu/handover.cu` does: it finds nothing, and with
// -DWITHOUT_WAIT among the flags of handover.toml it finds the read.
#include <cstdint>
#include <cstdio>

constexpr int kThreads = 64;

__device__ uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

extern "C" __global__ void __launch_bounds__(kThreads) handover(int *result) {
  __shared__ alignas(8) uint64_t full;
  __shared__ volatile int value;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
  }
  // Nobody touches the barrier before it is initialised.
  __syncthreads();
  if (threadIdx.x == 0) {
    value = 42;
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&full)) : "memory");
  }
#ifndef WITHOUT_WAIT
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(&full))
        : "memory");
  }
#endif
  if (threadIdx.x >= 32) {
    result[threadIdx.x - 32] = value;
  }
}

#ifndef TILEGEN_DEVICE_ONLY
int main() {
  int *result = nullptr;
  int last = 0;
  if (cudaMalloc(&result, 32 * sizeof(int)) != cudaSuccess) {
    return 1;
  }
  handover<<<1, kThreads>>>(result);
  const cudaError_t error =
      cudaMemcpy(&last, result + 31, sizeof(int), cudaMemcpyDeviceToHost);
  std::printf("%s, %d\n", cudaGetErrorString(error), last);
  return last == 42 ? 0 : 1;
}
#endif
