// Parts of CUDA C++ that kernels use now and then, each with a value that is easy to know.
#include <cstdint>
#include <cstdio>

__constant__ int table[4] = {3, 5, 7, 11};
__device__ int counter = 40;
__device__ float scale[2] = {0.5f, 2.0f};

extern "C" __global__ void variables(int *y) {
  int lane = static_cast<int>(threadIdx.x);
  y[lane] = table[lane % 4] + static_cast<int>(scale[1]) * atomicAdd(&counter, 0);
}

extern "C" __global__ void local_array(const int *x, int *y) {
  int values[8];
  for (int i = 0; i < 8; ++i) values[i] = x[i] * static_cast<int>(threadIdx.x + 1);
  y[threadIdx.x] = values[x[threadIdx.x % 8] % 8];
}

extern "C" __global__ void branches(const int *x, int *y) {
  int v = 0;
  switch (x[threadIdx.x] % 7) {
    case 0: v = 10; break;
    case 1: v = x[threadIdx.x] * 3; break;
    case 2: v = -x[threadIdx.x]; break;
    case 3: v = x[threadIdx.x] << 2; break;
    case 4: v = x[threadIdx.x] ^ 99; break;
    case 5: v = 1000 / (x[threadIdx.x] + 1); break;
    default: v = -1;
  }
  y[threadIdx.x] = v;
}

extern "C" __global__ void prints(int *y) {
  if (threadIdx.x == 0) printf("value %d\n", y[0]);
  y[threadIdx.x] = 4;
}

extern "C" __global__ void doubles(const double *x, double *y) {
  double v = x[threadIdx.x];
  y[threadIdx.x] = sqrt(v) / (1.0 + v) + fma(v, v, -1.0) + exp(-v);
}

extern "C" __global__ void votes(int *y) {
  int lane = static_cast<int>(threadIdx.x);
  unsigned odd = __ballot_sync(0xffffffffu, lane & 1);
  int sum = __reduce_add_sync(0xffffffffu, lane);
  unsigned same = __match_any_sync(0xffffffffu, lane / 8);
  y[lane] = __popc(odd) + sum + static_cast<int>(__popc(same)) + (__any_sync(0xffffffffu, lane == 3) ? 1 : 0);
}

extern "C" __global__ void loops(int *y) {
  int n = 0;
  for (int i = static_cast<int>(threadIdx.x); i != 1; i = i % 2 == 0 ? i / 2 : 3 * i + 1) {
    if (i == 0) break;
    ++n;
  }
  y[threadIdx.x] = n;
}
