// Happens-before: what a party knows to have finished, and the stamps left on memory.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sim {

// Dimensions belong to a cluster: two for each warp (all lanes, one lane alone), one for each mbarrier's
// bulk loads, and one for each queue of asynchronous work. Clock 0 is "nothing".
struct Stamp {
  uint32_t clock = 0;
  uint32_t cluster = 0;
  uint16_t dim = 0;
  uint16_t lanes = 0;    // which lane touched which byte, see lane_of
  uint32_t inst = 0;     // instruction index, flags in the top byte
};

enum StampFlags : uint32_t {
  kAsync = 1u << 24,     // made through the async proxy
  kStrong = 2u << 24,    // atomic, volatile, relaxed or stronger
  kBarrierObject = 4u << 24,
};
constexpr uint32_t kInstBits = 0x00ffffffu;

using Vector = std::vector<uint32_t>;

inline void join(Vector &to, const Vector &from) {
  if (to.size() < from.size()) to.resize(from.size(), 0);
  uint32_t *t = to.data();
  const uint32_t *f = from.data();
  for (size_t i = 0, n = from.size(); i < n; ++i) t[i] = t[i] > f[i] ? t[i] : f[i];
}
inline void raise(Vector &to, uint32_t dim, uint32_t clock) {
  if (to.size() <= dim) to.resize(dim + 1, 0);
  if (to[dim] < clock) to[dim] = clock;
}

// Clocks of other clusters, learned through global memory: rare, therefore sparse and shared until written.
using Foreign = std::unordered_map<uint64_t, uint32_t>;
inline uint64_t foreign_key(uint32_t cluster, uint32_t dim) { return uint64_t(cluster) << 16 | dim; }

struct Knowledge {
  Vector seen;      // clocks whose events have happened before
  Vector fenced;    // the part of them that a proxy fence has covered
  std::shared_ptr<Foreign> foreign;

  void join_with(const Knowledge &other) {
    join(seen, other.seen);
    join(fenced, other.fenced);
    if (other.foreign && other.foreign != foreign) {
      auto merged = foreign ? std::make_shared<Foreign>(*foreign) : std::make_shared<Foreign>();
      for (auto &[key, clock] : *other.foreign) {
        uint32_t &mine = (*merged)[key];
        if (mine < clock) mine = clock;
      }
      foreign = merged;
    }
  }
  bool knows(const Stamp &s, uint32_t cluster) const {
    if (s.cluster == cluster) return s.dim < seen.size() && s.clock <= seen[s.dim];
    if (!foreign) return false;
    auto it = foreign->find(foreign_key(s.cluster, s.dim));
    return it != foreign->end() && s.clock <= it->second;
  }
  bool has_fenced(const Stamp &s, uint32_t cluster) const {
    return s.cluster != cluster || (s.dim < fenced.size() && s.clock <= fenced[s.dim]);
  }
};

// Lane patterns: lane of byte b of a granule is first + ((b - start) >> step); kManyLanes is "several lanes".
constexpr uint16_t kManyLanes = 0x8000;
inline uint16_t lane_pattern(int first, int step, int start) { return uint16_t(first | step << 5 | start << 8); }
inline int lane_of(uint16_t pattern, int byte) {
  return (pattern & 31) + ((byte - ((pattern >> 8) & 15)) >> ((pattern >> 5) & 7));
}

}  // namespace sim
