// What one load of an emitted launcher has done: kernels it registered, calls it made, rules it broke.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tilegen_host {

// What the PTX says of a kernel, told by Python before the launcher runs.
struct Kernel {
  std::string name;                // as in the PTX
  std::vector<size_t> parameters;  // bytes of each
  size_t static_shared = 0;        // bytes
  unsigned max_threads = 0;        // .maxntid; 0 = not given
  unsigned required_threads = 0;   // .reqntid; 0 = not given
  unsigned cluster[3] = {0, 0, 0}; // .reqnctapercluster; 0 = not given
  bool described = false;
  // Set by the launcher.
  size_t dynamic_limit = 0;        // cudaFuncAttributeMaxDynamicSharedMemorySize
  bool dynamic_limit_set = false;
  bool non_portable_cluster = false;
};

// The limits of the target's machine, named as in the Python side's table.
struct Device {
  std::map<std::string, long long> limits;
  long long operator[](const char *name) const;
};

struct State {
  std::map<const void *, Kernel *> by_stub;  // address of the host stub -> kernel
  std::map<std::string, Kernel> by_name;
  Device device;
  std::vector<std::string> events;           // one JSON object each
  std::vector<std::string> problems;         // of the call in progress
  cudaError_t last_error = cudaSuccess;
  uint64_t maps = 0;                         // tensor maps encoded so far
  bool capturing = false;
  struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
  };
  std::vector<Configuration> pending;        // of <<<...>>>, pushed and not yet popped
};

State &state();

// Note a broken rule of the call in progress.
void problem(const char *format, ...) __attribute__((format(printf, 1, 2)));

// End the call in progress: keep its JSON fields, its status and its problems; return the status.
cudaError_t finish(const std::string &fields, cudaError_t status, bool sticky = true);

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string quoted(const std::string &raw);
std::string list(const unsigned *values, size_t count);

// The driver's encoders, handed out by cudaGetDriverEntryPointByVersion.
CUresult encode_tiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                      const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                      CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                      CUtensorMapFloatOOBfill);
CUresult encode_im2col(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                       const cuuint64_t *, const int *, const int *, cuuint32_t, cuuint32_t,
                       const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

}  // namespace tilegen_host
