// Launchers that make one call each, so that a test can make it legal or not.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void __launch_bounds__(256) add(const float *x, float *y, int64_t n, float scale) {
  extern __shared__ float dynamic[];
  __shared__ float fixed[64];
  fixed[threadIdx.x % 64] = scale;
  dynamic[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = dynamic[threadIdx.x] + fixed[(threadIdx.x + 1) % 64];
}

__global__ void __cluster_dims__(2, 1, 1) pair(int *out) { out[blockIdx.x] = 1; }

__global__ void mapped(const __grid_constant__ CUtensorMap map, int tile) {
  if (tile > 0) asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

struct Wide {
  int values[1100];
};
__global__ void wide(Wide wide, int *out) { out[0] = wide.values[threadIdx.x]; }

template <class Function>
Function encoder(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  return reinterpret_cast<Function>(found);
}

using Tiled = decltype(&cuTensorMapEncodeTiled);
using Im2col = decltype(&cuTensorMapEncodeIm2col);

}  // namespace

extern "C" {

cudaError_t run_add(const void *x, void *y, int64_t n, float scale, int64_t blocks, int64_t threads,
                    int64_t shared, int64_t opt_in, cudaStream_t stream) {
  if (opt_in >= 0) {
    const cudaError_t error = cudaFuncSetAttribute(
        add, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(opt_in));
    if (error != cudaSuccess) return error;
  }
  add<<<dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
        static_cast<size_t>(shared), stream>>>(static_cast<const float *>(x),
                                               static_cast<float *>(y), n, scale);
  return cudaPeekAtLastError();
}

cudaError_t run_grid(void *out, int64_t x, int64_t y, int64_t z, int64_t bz) {
  const dim3 grid(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
  pair<<<grid, dim3(1, 1, static_cast<unsigned>(bz))>>>(static_cast<int *>(out));
  return cudaGetLastError();
}

cudaError_t run_cluster(void *out, int64_t blocks, int64_t cluster) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(cluster);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(32);
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, mapped, CUtensorMap{}, 0);
  (void)out;
}

cudaError_t run_wide(void *out) {
  wide<<<1, 32>>>(Wide{}, static_cast<int *>(out));
  return cudaGetLastError();
}

cudaError_t run_memory(void *to, const void *from, int64_t bytes, cudaStream_t stream) {
  cudaMemsetAsync(to, 0x15a, static_cast<size_t>(bytes), stream);
  cudaMemset2DAsync(to, 16, 7, 4, 3, stream);
  return cudaMemcpyAsync(static_cast<char *>(to) + 128, from, 32, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t run_forbidden() {
  void *pointer = nullptr;
  cudaMalloc(&pointer, 16);
  return cudaDeviceSynchronize();
}

int64_t read_machine(int64_t attribute) {
  int device = -1, value = -1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(attribute), device);
  return value;
}

int64_t read_occupancy(int64_t threads, int64_t shared) {
  int blocks = -1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, static_cast<int>(threads),
                                                static_cast<size_t>(shared));
  return blocks;
}

int64_t read_clusters(int64_t blocks) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(256);
  int clusters = -1;
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, pair, &config);
  return error == cudaSuccess ? clusters : -static_cast<int64_t>(error);
}

int64_t read_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(nullptr, &status);
  return status == cudaStreamCaptureStatusActive;
}

int run_tiled(const int64_t *f, void *base, const uint64_t *sizes, const uint64_t *strides,
              const uint32_t *box, const uint32_t *steps) {
  alignas(128) unsigned char raw[192];
  CUtensorMap *map = reinterpret_cast<CUtensorMap *>(raw + f[6]);
  const CUresult result = encoder<Tiled>("cuTensorMapEncodeTiled")(
      map, static_cast<CUtensorMapDataType>(f[0]), static_cast<cuuint32_t>(f[1]), base,
      reinterpret_cast<const cuuint64_t *>(sizes), reinterpret_cast<const cuuint64_t *>(strides), box,
      steps, static_cast<CUtensorMapInterleave>(f[2]), static_cast<CUtensorMapSwizzle>(f[3]),
      static_cast<CUtensorMapL2promotion>(f[4]), static_cast<CUtensorMapFloatOOBfill>(f[5]));
  if (result == CUDA_SUCCESS) mapped<<<1, 32>>>(*map, 3);
  return result;
}

int run_im2col(const int64_t *f, void *base, const uint64_t *sizes, const uint64_t *strides,
               const int *lower, const int *upper, const uint32_t *steps) {
  alignas(64) CUtensorMap map;
  const CUresult result = encoder<Im2col>("cuTensorMapEncodeIm2col")(
      &map, static_cast<CUtensorMapDataType>(f[0]), static_cast<cuuint32_t>(f[1]), base,
      reinterpret_cast<const cuuint64_t *>(sizes), reinterpret_cast<const cuuint64_t *>(strides),
      lower, upper, static_cast<cuuint32_t>(f[6]), static_cast<cuuint32_t>(f[7]), steps,
      static_cast<CUtensorMapInterleave>(f[2]), static_cast<CUtensorMapSwizzle>(f[3]),
      static_cast<CUtensorMapL2promotion>(f[4]), static_cast<CUtensorMapFloatOOBfill>(f[5]));
  if (result == CUDA_SUCCESS) mapped<<<1, 32>>>(map, 3);
  return result;
}

int64_t find_encoder(int64_t version) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                   static_cast<unsigned>(version), cudaEnableDefault, &result);
  return found ? -1 : result;
}

}  // extern "C"
