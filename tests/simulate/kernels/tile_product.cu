// C[16,8] = A[16,K] B[8,K]^T in one warp: cp.async in two stages, ldmatrix, mma.sync.
// LATE_WAIT waits for one group too few; REUSED_STAGE leaves out the barrier before a stage is filled again.
#include <cstdint>
#include <cuda_fp16.h>

constexpr int kDepth = 16;

__device__ uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void copy_16(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

extern "C" __global__ void tile_product(const __half *a, const __half *b, float *c, int k) {
  __shared__ alignas(16) __half stage_a[2][16][kDepth];  // [stage][m][k]
  __shared__ alignas(16) __half stage_b[2][8][kDepth];   // [stage][n][k]
  int lane = static_cast<int>(threadIdx.x);
  float sum[4] = {};
  auto load = [&](int block) {
    copy_16(&stage_a[block & 1][lane / 2][lane % 2 * 8], a + (lane / 2) * k + block * kDepth + lane % 2 * 8);
    if (lane < 16) {
      copy_16(&stage_b[block & 1][lane / 2][lane % 2 * 8], b + (lane / 2) * k + block * kDepth + lane % 2 * 8);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  int blocks = k / kDepth;
  load(0);
  for (int block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load(block + 1);
#ifdef LATE_WAIT
      asm volatile("cp.async.wait_group 2;" ::: "memory");
#else
      asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncwarp();  // every lane's copies are visible to all
    uint32_t fa[4], fb[2];
    uint32_t from = shared_address(&stage_a[block & 1][lane % 16][lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(from)
                 : "memory");
    from = shared_address(&stage_b[block & 1][lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(from) : "memory");
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
#ifndef REUSED_STAGE
    __syncwarp();  // the stage has been read and may be filled again
#endif
  }
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}
