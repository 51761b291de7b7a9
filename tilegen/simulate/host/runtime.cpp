// The rest of the CUDA runtime that a launcher may call, and what it must not: allocate, synchronise.
#include "record.h"

#include <algorithm>
#include <cstring>

using namespace tilegen_host;

namespace tilegen_host {
Kernel *kernel_of(const void *function);
}

namespace {

unsigned long long address(const void *pointer) {
  return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer));
}

cudaError_t forbidden(const char *call, const char *what) {
  problem("the launcher calls %s: a launcher must not %s", call, what);
  return finish("\"call\":\"forbidden\",\"name\":" + quoted(call), cudaErrorNotPermitted);
}

// Resident blocks a multiprocessor by threads, shared memory and slots; registers are ptxas's to say.
int resident(const Kernel &kernel, int threads, size_t shared) {
  const Device &device = state().device;
  if (threads <= 0) return 0;
  const long long warps = (threads + 31) / 32;
  long long blocks = device["blocks_sm"];
  blocks = std::min(blocks, device["threads_sm"] / (warps * 32));
  const long long bytes = static_cast<long long>(shared + kernel.static_shared) +
                          device["shared_reserved"];
  return static_cast<int>(std::min(blocks, device["shared_sm"] / bytes));
}

}  // namespace

extern "C" {

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value) {
  Kernel *kernel = kernel_of(function);
  cudaError_t status = cudaSuccess;
  if (!kernel) {
    problem("cudaFuncSetAttribute on a function that is no kernel");
    status = cudaErrorInvalidDeviceFunction;
  } else if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const long long limit = state().device["shared_block"] -
                            static_cast<long long>(kernel->static_shared);
    if (value < 0 || value > limit) {
      problem("%d bytes of dynamic shared memory asked for; a block may have %lld beside its %zu "
              "static ones",
              value, limit, kernel->static_shared);
      status = cudaErrorInvalidValue;
    } else {
      kernel->dynamic_limit = static_cast<size_t>(value);
      kernel->dynamic_limit_set = true;
    }
  } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    kernel->non_portable_cluster = value != 0;
  } else if (attribute != cudaFuncAttributePreferredSharedMemoryCarveout) {
    problem("function attribute %d is not modelled", static_cast<int>(attribute));
    status = cudaErrorInvalidValue;
  }
  return finish("\"call\":\"set_attribute\",\"kernel\":" + quoted(kernel ? kernel->name : "") +
                    text(",\"attribute\":%d,\"value\":%d", static_cast<int>(attribute), value),
                status);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *function) {
  const Kernel *kernel = kernel_of(function);
  std::memset(out, 0, sizeof *out);
  if (!kernel) return state().last_error = cudaErrorInvalidDeviceFunction;
  out->sharedSizeBytes = kernel->static_shared;
  out->maxThreadsPerBlock = static_cast<int>(kernel->max_threads ? kernel->max_threads : 1024);
  out->numRegs = static_cast<int>(std::min(255LL, state().device["registers_sm"] /
                                                      std::max(out->maxThreadsPerBlock, 1)));
  out->maxDynamicSharedSizeBytes = static_cast<int>(
      kernel->dynamic_limit_set
          ? kernel->dynamic_limit
          : static_cast<size_t>(state().device["shared_default"]) - kernel->static_shared);
  out->ptxVersion = out->binaryVersion = static_cast<int>(state().device["compute_capability"]);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  const Device &device = state().device;
  const long long cc = device["compute_capability"];
  long long result = 0;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: result = cc / 10; break;
    case cudaDevAttrComputeCapabilityMinor: result = cc % 10; break;
    case cudaDevAttrMultiProcessorCount: result = device["multiprocessors"]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: result = device["shared_default"]; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: result = device["shared_block"]; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: result = device["shared_sm"]; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: result = device["shared_reserved"]; break;
    case cudaDevAttrMaxThreadsPerBlock: result = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: result = device["threads_sm"]; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: result = device["blocks_sm"]; break;
    case cudaDevAttrMaxRegistersPerBlock: result = device["registers_sm"]; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: result = device["registers_sm"]; break;
    case cudaDevAttrMaxGridDimX: result = 2147483647; break;
    case cudaDevAttrMaxGridDimY: result = 65535; break;
    case cudaDevAttrMaxGridDimZ: result = 65535; break;
    case cudaDevAttrMaxBlockDimX: result = 1024; break;
    case cudaDevAttrMaxBlockDimY: result = 1024; break;
    case cudaDevAttrMaxBlockDimZ: result = 64; break;
    case cudaDevAttrWarpSize: result = 32; break;
    case cudaDevAttrL2CacheSize: result = device["l2_bytes"]; break;
    case cudaDevAttrCooperativeLaunch: result = 1; break;
    case cudaDevAttrClusterLaunch: result = cc >= 90; break;
    default:
      problem("device attribute %d is not modelled", static_cast<int>(attribute));
      return finish("\"call\":\"device_attribute\"", cudaErrorInvalidValue);
  }
  *value = static_cast<int>(result);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int) {
  const Device &device = state().device;
  std::memset(static_cast<void *>(out), 0, sizeof *out);
  std::strcpy(out->name, "simulated");
  out->major = static_cast<int>(device["compute_capability"] / 10);
  out->minor = static_cast<int>(device["compute_capability"] % 10);
  out->multiProcessorCount = static_cast<int>(device["multiprocessors"]);
  out->sharedMemPerBlock = static_cast<size_t>(device["shared_default"]);
  out->sharedMemPerBlockOptin = static_cast<size_t>(device["shared_block"]);
  out->sharedMemPerMultiprocessor = static_cast<size_t>(device["shared_sm"]);
  out->reservedSharedMemPerBlock = static_cast<size_t>(device["shared_reserved"]);
  out->regsPerBlock = out->regsPerMultiprocessor = static_cast<int>(device["registers_sm"]);
  out->maxThreadsPerBlock = 1024;
  out->maxThreadsPerMultiProcessor = static_cast<int>(device["threads_sm"]);
  out->maxBlocksPerMultiProcessor = static_cast<int>(device["blocks_sm"]);
  out->warpSize = 32;
  out->l2CacheSize = static_cast<int>(device["l2_bytes"]);
  out->cooperativeLaunch = 1;
  out->clusterLaunch = out->major >= 9;
  const int block[3] = {1024, 1024, 64}, grid[3] = {2147483647, 65535, 65535};
  std::memcpy(out->maxThreadsDim, block, sizeof block);
  std::memcpy(out->maxGridSize, grid, sizeof grid);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  const Kernel *kernel = kernel_of(function);
  if (!kernel) return state().last_error = cudaErrorInvalidDeviceFunction;
  *blocks = resident(*kernel, threads, shared);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                           const cudaLaunchConfig_t *config) {
  const Kernel *kernel = kernel_of(function);
  if (!kernel) return state().last_error = cudaErrorInvalidDeviceFunction;
  unsigned cluster[3] = {1, 1, 1};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute &a = config->attrs[i];
    if (a.id == cudaLaunchAttributeClusterDimension) {
      cluster[0] = a.val.clusterDim.x, cluster[1] = a.val.clusterDim.y;
      cluster[2] = a.val.clusterDim.z;
    }
  }
  if (kernel->cluster[0]) std::copy_n(kernel->cluster, 3, cluster);
  const dim3 &g = config->gridDim;
  if (g.x % cluster[0] || g.y % cluster[1] || g.z % cluster[2]) {
    return state().last_error = cudaErrorInvalidClusterSize;
  }
  const long long size = 1LL * cluster[0] * cluster[1] * cluster[2];
  const dim3 &b = config->blockDim;
  const int blocks = resident(*kernel, static_cast<int>(b.x * b.y * b.z), config->dynamicSmemBytes);
  *clusters = static_cast<int>(state().device["multiprocessors"] * blocks / size);
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError() { return state().last_error; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = state().last_error;
  state().last_error = cudaSuccess;
  return error;
}

const char *cudaGetErrorString(cudaError_t) { return "an error of the simulated CUDA runtime"; }
const char *cudaGetErrorName(cudaError_t) { return "cudaError"; }

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
  *status = state().capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t count, cudaStream_t) {
  return finish(text("\"call\":\"memset\",\"to\":%llu,\"pitch\":%zu,\"value\":%d,\"width\":%zu,"
                     "\"height\":1",
                     address(to), count, value & 255, count),
                cudaSuccess);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t) {
  if (width > pitch) problem("memset of %zu bytes in rows of pitch %zu", width, pitch);
  return finish(text("\"call\":\"memset\",\"to\":%llu,\"pitch\":%zu,\"value\":%d,\"width\":%zu,"
                     "\"height\":%zu",
                     address(to), pitch, value & 255, width, height),
                width > pitch ? cudaErrorInvalidPitchValue : cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t count, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (kind != cudaMemcpyDeviceToDevice) {
    return forbidden("cudaMemcpyAsync with a host pointer", "touch host memory");
  }
  return finish(text("\"call\":\"memcpy\",\"to\":%llu,\"from\":%llu,\"bytes\":%zu", address(to),
                     address(from), count),
                cudaSuccess);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult *result) {
  *function = nullptr;
  const bool known = version >= 12000;
  if (known && std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0) {
    *function = reinterpret_cast<void *>(&encode_tiled);
  } else if (known && std::strcmp(symbol, "cuTensorMapEncodeIm2col") == 0) {
    *function = reinterpret_cast<void *>(&encode_im2col);
  }
  if (result) {
    *result = *function ? cudaDriverEntryPointSuccess
              : known   ? cudaDriverEntryPointSymbolNotFound
                        : cudaDriverEntryPointVersionNotSufficent;
  }
  if (*function) return cudaSuccess;
  problem("driver entry point %s of version %u is not modelled", symbol, version);
  return finish("\"call\":\"entry_point\",\"name\":" + quoted(symbol), cudaSuccess);
}

cudaError_t cudaMalloc(void **, size_t) { return forbidden("cudaMalloc", "allocate"); }
cudaError_t cudaMallocAsync(void **, size_t, cudaStream_t) {
  return forbidden("cudaMallocAsync", "allocate");
}
cudaError_t cudaFree(void *) { return forbidden("cudaFree", "free memory"); }
cudaError_t cudaFreeAsync(void *, cudaStream_t) { return forbidden("cudaFreeAsync", "free memory"); }
cudaError_t cudaDeviceSynchronize() { return forbidden("cudaDeviceSynchronize", "synchronise"); }
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return forbidden("cudaStreamSynchronize", "synchronise");
}
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind) {
  return forbidden("cudaMemcpy", "synchronise");
}
cudaError_t cudaMemset(void *, int, size_t) { return forbidden("cudaMemset", "use no stream"); }

}  // extern "C"
