// Kernel registration and launches: the entry points that nvcc's generated host code calls.
#include "record.h"

#include <cstdio>

using namespace tilegen_host;

namespace {

struct Launch {
  dim3 grid, block, cluster{0, 0, 0};
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  std::string attributes = "[]";
};

std::string bytes(const void *data, size_t size) {
  std::string hex;
  for (size_t i = 0; i < size; ++i) hex += text("%02x", static_cast<const uint8_t *>(data)[i]);
  return quoted(hex);
}

unsigned long long volume(const dim3 &d) { return 1ULL * d.x * d.y * d.z; }

// CUDA C++ Programming Guide, table of technical specifications by compute capability.
cudaError_t check_shape(const Kernel &kernel, const Launch &launch) {
  const dim3 &g = launch.grid, &b = launch.block;
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 2147483647u || g.y > 65535 || g.z > 65535) {
    problem("grid %ux%ux%u is outside 1..2147483647 x 1..65535 x 1..65535", g.x, g.y, g.z);
    return cudaErrorInvalidConfiguration;
  }
  if (volume(b) == 0 || b.x > 1024 || b.y > 1024 || b.z > 64 || volume(b) > 1024) {
    problem("block %ux%ux%u is outside 1..1024 x 1..1024 x 1..64 with at most 1024 threads", b.x,
            b.y, b.z);
    return cudaErrorInvalidConfiguration;
  }
  if (kernel.max_threads && volume(b) > kernel.max_threads) {
    problem("block of %llu threads, but the kernel was compiled for at most %u", volume(b),
            kernel.max_threads);
    return cudaErrorLaunchOutOfResources;
  }
  if (kernel.required_threads && volume(b) != kernel.required_threads) {
    problem("block of %llu threads, but the kernel was compiled for exactly %u", volume(b),
            kernel.required_threads);
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t check_cluster(const Kernel &kernel, Launch &launch) {
  dim3 &c = launch.cluster;
  const unsigned *wanted = kernel.cluster;
  if (wanted[0] && c.x && (c.x != wanted[0] || c.y != wanted[1] || c.z != wanted[2])) {
    problem("cluster %ux%ux%u, but the kernel was compiled for %ux%ux%u", c.x, c.y, c.z, wanted[0],
            wanted[1], wanted[2]);
    return cudaErrorInvalidClusterSize;
  }
  if (wanted[0]) c = dim3(wanted[0], wanted[1], wanted[2]);
  if (c.x == 0 && c.y == 0 && c.z == 0) {
    c = dim3(1, 1, 1);
    return cudaSuccess;
  }
  if (state().device["compute_capability"] < 90) {
    problem("a cluster needs compute capability 9.0");
    return cudaErrorNotSupported;
  }
  const unsigned long long limit = kernel.non_portable_cluster ? 16 : 8;
  if (volume(c) == 0 || volume(c) > limit) {
    problem("cluster %ux%ux%u has %llu blocks; 1..%llu are allowed here", c.x, c.y, c.z, volume(c),
            limit);
    return cudaErrorInvalidClusterSize;
  }
  if (launch.grid.x % c.x || launch.grid.y % c.y || launch.grid.z % c.z) {
    problem("grid %ux%ux%u is not a multiple of the cluster %ux%ux%u", launch.grid.x, launch.grid.y,
            launch.grid.z, c.x, c.y, c.z);
    return cudaErrorInvalidClusterSize;
  }
  return cudaSuccess;
}

cudaError_t check_memory(const Kernel &kernel, const Launch &launch) {
  const size_t total = launch.shared + kernel.static_shared;
  const size_t free_limit = static_cast<size_t>(state().device["shared_default"]);
  if (kernel.dynamic_limit_set ? launch.shared > kernel.dynamic_limit && total > free_limit
                               : total > free_limit) {
    problem("%zu bytes of dynamic and %zu of static shared memory; %zu without opting in, and %s",
            launch.shared, kernel.static_shared, free_limit,
            kernel.dynamic_limit_set
                ? text("the kernel opted in to %zu dynamic", kernel.dynamic_limit).c_str()
                : "the kernel did not opt in to more");
    return cudaErrorInvalidValue;
  }
  size_t parameters = 0;
  for (const size_t size : kernel.parameters) parameters += size;
  if (parameters > 4096) {
    problem("%zu bytes of kernel parameters; drivers before CUDA 12.1 take 4096", parameters);
  }
  return cudaSuccess;
}

cudaError_t record(Kernel *kernel, Launch launch, void **arguments) {
  if (!kernel || !kernel->described) {
    problem("launch of a kernel that the PTX does not hold: %s",
            kernel ? kernel->name.c_str() : "never registered");
    return finish("\"call\":\"launch\",\"kernel\":\"\"", cudaErrorInvalidDeviceFunction);
  }
  cudaError_t status = check_shape(*kernel, launch);
  if (status == cudaSuccess) status = check_cluster(*kernel, launch);
  if (status == cudaSuccess) status = check_memory(*kernel, launch);
  std::string parameters = "[";
  for (size_t i = 0; i < kernel->parameters.size(); ++i) {
    parameters += (i ? "," : "") + bytes(arguments[i], kernel->parameters[i]);
  }
  const unsigned shape[9] = {launch.grid.x,    launch.grid.y,    launch.grid.z,
                             launch.block.x,   launch.block.y,   launch.block.z,
                             launch.cluster.x, launch.cluster.y, launch.cluster.z};
  return finish("\"call\":\"launch\",\"kernel\":" + quoted(kernel->name) +
                    ",\"grid\":" + list(shape, 3) + ",\"block\":" + list(shape + 3, 3) +
                    ",\"cluster\":" + list(shape + 6, 3) +
                    text(",\"shared\":%zu,\"stream\":%llu,\"attributes\":", launch.shared,
                         static_cast<unsigned long long>(
                             reinterpret_cast<uintptr_t>(launch.stream))) +
                    launch.attributes + ",\"parameters\":" + parameters + "]",
                status);
}

Kernel *find(const void *function) {
  const auto found = state().by_stub.find(function);
  if (found != state().by_stub.end()) return found->second;
  for (auto &entry : state().by_name) {
    if (&entry.second == function) return &entry.second;
  }
  return nullptr;
}

}  // namespace

namespace tilegen_host {
Kernel *kernel_of(const void *function) { return find(function); }
}  // namespace tilegen_host

extern "C" {

void **__cudaRegisterFatBinary(void *) {
  static void *handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
char __cudaInitModule(void **) { return 1; }

void __cudaRegisterFunction(void **, const char *stub, char *, const char *name, int, uint3 *,
                            uint3 *, dim3 *, dim3 *, int *) {
  Kernel &kernel = state().by_name[name];
  kernel.name = name;
  state().by_stub[stub] = &kernel;
}

// A module variable lives in the PTX; the host side never touches one.
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st *stream) {
  state().pending.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  if (state().pending.empty()) return cudaErrorMissingConfiguration;
  const State::Configuration top = state().pending.back();
  state().pending.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t *>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *stub) {
  *handle = reinterpret_cast<cudaKernel_t>(find(stub));
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.shared = shared;
  launch.stream = stream;
  return record(find(function), launch, arguments);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, arguments, shared,
                          stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream) {
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.shared = shared;
  launch.stream = stream;
  launch.attributes = "[\"cooperative\"]";
  return record(find(function), launch, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments) {
  Launch launch;
  launch.grid = config->gridDim;
  launch.block = config->blockDim;
  launch.shared = config->dynamicSmemBytes;
  launch.stream = config->stream;
  std::string names;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute &attribute = config->attrs[i];
    std::string name;
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      launch.cluster =
          dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
      name = "cluster";
    } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      name = attribute.val.programmaticStreamSerializationAllowed ? "programmatic" : "";
    } else if (attribute.id == cudaLaunchAttributeCooperative) {
      name = attribute.val.cooperative ? "cooperative" : "";
    } else if (attribute.id != cudaLaunchAttributeIgnore) {
      problem("launch attribute %d is not modelled", static_cast<int>(attribute.id));
    }
    if (!name.empty()) names += (names.empty() ? "" : ",") + quoted(name);
  }
  launch.attributes = "[" + names + "]";
  return record(find(function), launch, arguments);
}

}  // extern "C"
