// The recorder's state, its text, and the few calls that Python makes: describe, reset, read.
#include "record.h"

#include <cstdarg>
#include <cstdio>

namespace tilegen_host {

State &state() {
  static State only;
  return only;
}

long long Device::operator[](const char *name) const {
  const auto found = limits.find(name);
  return found == limits.end() ? 0 : found->second;
}

static std::string formatted(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string result(static_cast<size_t>(length), '\0');
  std::vsnprintf(&result[0], static_cast<size_t>(length) + 1, format, again);
  va_end(again);
  return result;
}

std::string text(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string result = formatted(format, arguments);
  va_end(arguments);
  return result;
}

void problem(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  state().problems.push_back(formatted(format, arguments));
  va_end(arguments);
}

std::string quoted(const std::string &raw) {
  std::string result = "\"";
  for (const char c : raw) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 32) result += c;
  }
  return result + '"';
}

std::string list(const unsigned *values, size_t count) {
  std::string result = "[";
  for (size_t i = 0; i < count; ++i) result += text("%s%u", i ? "," : "", values[i]);
  return result + "]";
}

cudaError_t finish(const std::string &fields, cudaError_t status, bool sticky) {
  State &s = state();
  std::string event = "{" + fields + text(",\"status\":%d,\"problems\":[", static_cast<int>(status));
  for (size_t i = 0; i < s.problems.size(); ++i) {
    event += (i ? "," : "") + quoted(s.problems[i]);
  }
  s.events.push_back(event + "]}");
  s.problems.clear();
  if (status != cudaSuccess && sticky) s.last_error = status;
  return status;
}

}  // namespace tilegen_host

using namespace tilegen_host;

extern "C" {

void tilegen_host_limit(const char *name, long long value) { state().device.limits[name] = value; }

// sizes: bytes of each parameter; shape: {static shared, .maxntid, .reqntid, cluster x, y, z}.
void tilegen_host_kernel(const char *name, const long long *sizes, int count,
                         const long long *shape) {
  Kernel &kernel = state().by_name[name];
  kernel = Kernel();
  kernel.name = name;
  kernel.parameters.assign(sizes, sizes + count);
  kernel.static_shared = static_cast<size_t>(shape[0]);
  kernel.max_threads = static_cast<unsigned>(shape[1]);
  kernel.required_threads = static_cast<unsigned>(shape[2]);
  for (int i = 0; i < 3; ++i) kernel.cluster[i] = static_cast<unsigned>(shape[3 + i]);
  kernel.described = true;
}

// Forget the calls made so far, not what was set on kernels: as between two calls in one process.
void tilegen_host_reset(int capturing) {
  State &s = state();
  s.events.clear();
  s.problems.clear();
  s.pending.clear();
  s.last_error = cudaSuccess;
  s.maps = 0;
  s.capturing = capturing != 0;
}

const char *tilegen_host_json() {
  static std::string json;
  json = "[";
  for (const std::string &event : state().events) json += (json.size() > 1 ? "," : "") + event;
  json += "]";
  return json.c_str();
}

}  // extern "C"
