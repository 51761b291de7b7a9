// D[64,64] = A[64,K] B[64,K]^T in bf16 with one warpgroup: TMA loads of [64][64] boxes, wgmma, two stages.
#include "hopper.cuh"

constexpr int kStages = 2, kBox = 64 * 64;

struct alignas(1024) Shared {
  __nv_bfloat16 a[kStages][kBox], b[kStages][kBox];  // [stage][row][depth], swizzled by 128 bytes
  uint64_t full[kStages];
};

__device__ inline uint64_t descriptor(const void *p) {
  return ((shared_address(p) & 0x3ffff) >> 4) | (uint64_t{1} << 16) | (uint64_t{64} << 32) | (uint64_t{1} << 62);
}

__device__ inline void product(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      " %32, %33, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(128, 1) warpgroup_product(const __grid_constant__ CUtensorMap a,
                                                                       const __grid_constant__ CUtensorMap b, float *c, int k) {
  __shared__ Shared s;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) barrier_init(&s.full[i], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();  // barriers are initialised
  int blocks = k / 64;
  float d[32];
  auto load = [&](int block) {
    int stage = block % kStages;
    barrier_expect(&s.full[stage], 2 * kBox * 2);
    load_box(s.a[stage], &a, &s.full[stage], block * 64, 0);
    load_box(s.b[stage], &b, &s.full[stage], block * 64, 0);
  };
  if (threadIdx.x == 0) load(0);
  for (int block = 0; block < blocks; ++block) {
    int stage = block % kStages;
    if (threadIdx.x == 0 && block + 1 < blocks) load(block + 1);
    __syncwarp();
    barrier_wait(&s.full[stage], block / kStages & 1);
#ifndef NO_MATRIX_FENCE
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
#pragma unroll
    for (int q = 0; q < 4; ++q) product(d, descriptor(s.a[stage]) + q * 2, descriptor(s.b[stage]) + q * 2, (block | q) != 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#ifdef LATE_WAIT
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#else
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
#ifndef NO_STAGE_BARRIER
    __syncthreads();  // the stage has been read by all four warps
#endif
  }
#ifdef LATE_WAIT
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
  int row = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    c[(row + (i >> 1 & 1) * 8) * 64 + (i >> 2) * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + (i & 1)] = d[i];
  }
}
