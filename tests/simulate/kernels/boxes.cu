// One bulk copy a launch, and the shared memory that it leaves or starts from, byte for byte.
#include "hopper.cuh"

constexpr int kBytes = 16384;

__device__ inline void begin(uint8_t *s, uint64_t *barrier) {
  for (int i = static_cast<int>(threadIdx.x); i < kBytes; i += 32) s[i] = 0xcd;
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();  // the fill and the barrier are in place
}
__device__ inline void dump(const uint8_t *s, uint8_t *out) {
  for (int i = static_cast<int>(threadIdx.x); i < kBytes; i += 32) out[i] = s[i];
}

extern "C" __global__ void load_2d(const __grid_constant__ CUtensorMap map, uint8_t *out, int x, int y, int bytes, int at) {
  __shared__ alignas(1024) uint8_t s[kBytes];
  __shared__ uint64_t barrier;
  begin(s, &barrier);
  if (threadIdx.x == 0) {
    barrier_expect(&barrier, static_cast<uint32_t>(bytes));
    load_box(s + at, &map, &barrier, x, y);
  }
  __syncwarp();
  barrier_wait(&barrier, 0);
  dump(s, out);
}

extern "C" __global__ void load_im2col(const __grid_constant__ CUtensorMap map, uint8_t *out, int c, int w, int h, int n,
                                       int offset_w, int offset_h, int bytes) {
  __shared__ alignas(1024) uint8_t s[kBytes];
  __shared__ uint64_t barrier;
  begin(s, &barrier);
  if (threadIdx.x == 0) {
    barrier_expect(&barrier, static_cast<uint32_t>(bytes));
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], "
        "{%7, %8};" ::"r"(shared_address(s)),
        "l"(&map), "r"(shared_address(&barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(static_cast<uint16_t>(offset_w)),
        "h"(static_cast<uint16_t>(offset_h))
        : "memory");
  }
  __syncwarp();
  barrier_wait(&barrier, 0);
  dump(s, out);
}

extern "C" __global__ void store_2d(const __grid_constant__ CUtensorMap map, const uint8_t *in, int x, int y) {
  __shared__ alignas(1024) uint8_t s[kBytes];
  for (int i = static_cast<int>(threadIdx.x); i < kBytes; i += 32) s[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();  // the staging buffer is written
  if (threadIdx.x == 0) {
    store_box(&map, s, x, y);
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// y += s through a bulk reduction, in f32.
extern "C" __global__ void reduce(const float *in, float *y, int bytes) {
  __shared__ alignas(1024) float s[kBytes / 4];
  for (int i = static_cast<int>(threadIdx.x); i < bytes / 4; i += 32) s[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();  // the source is written
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(y), "r"(shared_address(s)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// Each block of a pair loads half and sends it to both.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    multicast(const __grid_constant__ CUtensorMap map, uint8_t *out, int bytes) {
  __shared__ alignas(1024) uint8_t s[kBytes];
  __shared__ uint64_t barrier;
  begin(s, &barrier);
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    barrier_expect(&barrier, static_cast<uint32_t>(2 * bytes));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
        "[%2], %5;" ::"r"(shared_address(s + rank * static_cast<uint32_t>(bytes))),
        "l"(&map), "r"(shared_address(&barrier)), "r"(0), "r"(static_cast<int>(rank) * 8), "h"(static_cast<uint16_t>(3))
        : "memory");
  }
  __syncwarp();
  barrier_wait(&barrier, 0);
  dump(s, out + static_cast<int64_t>(blockIdx.x) * kBytes);
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
