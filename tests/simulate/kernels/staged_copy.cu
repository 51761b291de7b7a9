// y = x + 1 over a [rows, 64] matrix in bf16: a producer warp loads boxes of 8 rows, four consumer warps add and stage,
// one thread stores. A weakness for each macro; none of them changes a value in a quiet run.
#include "hopper.cuh"

constexpr int kStages = 2, kBox = 8 * 64;  // elements of a box

struct alignas(1024) Shared {
  __nv_bfloat16 in[kStages][kBox];  // [stage][row][column], swizzled by 128 bytes
  __nv_bfloat16 out[kBox];
  uint64_t full[kStages], empty[kStages];
};

extern "C" __global__ void __launch_bounds__(160, 1)
    staged_copy(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, int boxes) {
  __shared__ Shared s;
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&s.full[i], 1);
      barrier_init(&s.empty[i], 4);
    }
#ifndef NO_INIT_FENCE
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  __syncthreads();  // barriers are initialised
  if (warp == 4) {
    if (lane == 0) {
      for (int b = 0; b < boxes; ++b) {
        int stage = b % kStages;
#ifdef WRONG_PARITY
        barrier_wait(&s.empty[stage], b / kStages & 1);
#else
        barrier_wait(&s.empty[stage], (b / kStages & 1) ^ 1);
#endif
#ifdef WRONG_BYTES
        barrier_expect(&s.full[stage], kBox * 2 + 16);
#else
        barrier_expect(&s.full[stage], kBox * 2);
#endif
        load_box(s.in[stage], &x, &s.full[stage], 0, b * 8);
      }
    }
    return;
  }
  for (int b = 0; b < boxes; ++b) {
    int stage = b % kStages;
    barrier_wait(&s.full[stage], b / kStages & 1);
    int at = static_cast<int>(threadIdx.x) * 4;
    __nv_bfloat16 v[4];
    for (int i = 0; i < 4; ++i) v[i] = s.in[stage][at + i] + __float2bfloat16(1.0f);
#ifndef NO_WARP_SYNC
    __syncwarp();  // the whole warp has read its part of the stage
#endif
#ifdef EARLY_RELEASE
    for (int i = 0; i < 4; ++i) v[i] = v[i] + s.in[stage][at + i];
    if (lane == 0) barrier_arrive(&s.empty[stage]);
    for (int i = 0; i < 4; ++i) v[i] = v[i] - s.in[stage][at + i];
#else
    if (lane == 0) barrier_arrive(&s.empty[stage]);
#endif
#ifndef NO_READ_WAIT
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
    asm volatile("bar.sync 1, 128;" ::: "memory");  // the last store has read the staging buffer
    for (int i = 0; i < 4; ++i) s.out[at + i] = v[i];
#ifndef NO_PROXY_FENCE
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    asm volatile("bar.sync 1, 128;" ::: "memory");  // the staging buffer is written
    if (threadIdx.x == 0) {
      store_box(&y, s.out, 0, b * 8);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
#ifndef NO_LAST_WAIT
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}
