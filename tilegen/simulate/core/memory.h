// Addresses to host memory: windows, bounds, alignment, and the shadow of what they name.
#pragma once
#include "lanes.h"

namespace sim {

// A stretch of the address space that is one piece of host memory.
struct Region {
  uint64_t low = 1, size = 0;
  uint8_t *host = nullptr;
  Shadow *shadow = nullptr;  // null where accesses are not tracked
  uint64_t shadow_offset = 0;
  bool writable = true;
  Block *shared_of = nullptr;

  bool holds(uint64_t address, uint64_t bytes) const { return address - low < size && size - (address - low) >= bytes; }
};

struct Place {
  uint8_t *host = nullptr;
  const Region *region = nullptr;
  uint64_t offset = 0;       // into the shadow
};

// Finds the host memory of addresses of one instruction; remembers the last region.
class Locator {
 public:
  Locator(Warp &w, const Inst &i, int space, bool write) : w_(w), i_(i), space_(space), write_(write) {}
  // Reports and returns no host pointer where the access is out of bounds, misaligned or refused.
  Place at(uint64_t address, uint64_t bytes, int lane, uint64_t align);

 private:
  bool look_up(uint64_t address, uint64_t bytes, int lane);
  Warp &w_;
  const Inst &i_;
  int space_;
  bool write_;
  Region region_;
};

// Gathers the accesses of a warp's lanes into whole granules before they are checked.
class Gatherer {
 public:
  Gatherer(Machine &m, Access a) : m_(m), a_(a) {}
  ~Gatherer() { flush(); }
  void add(const Place &p, unsigned bytes, int lane);
  void flush();

 private:
  Machine &m_;
  Access a_;
  Shadow *shadow_ = nullptr;
  uint64_t granule_ = 0;
  uint16_t bytes_ = 0;
  int first_ = 0, last_ = -1, step_ = 0, start_ = 0;
  bool many_ = false;
};

// Addresses of an operand: a register row of 4 or 8 bytes a lane (0: none) and a constant.
inline void addresses(const Warp &w, int slot, int register_bytes, int64_t offset, uint64_t *out) {
  if (register_bytes == 4) {
    const uint32_t *r = w.in<uint32_t>(slot);
    for (int l = 0; l < kLanes; ++l) out[l] = uint32_t(r[l] + uint32_t(offset));
  } else if (register_bytes == 8) {
    const uint64_t *r = w.in<uint64_t>(slot);
    for (int l = 0; l < kLanes; ++l) out[l] = r[l] + uint64_t(offset);
  } else {
    for (int l = 0; l < kLanes; ++l) out[l] = uint64_t(offset);
  }
}
// Addresses of an operand that names shared memory by symbol count from the block's own window.
inline uint64_t shared_base(const Warp &w) { return uint64_t(w.block->rank) << kRankShift; }

void count_shared(Machine &m, const Inst &i, const uint64_t *address, Mask mask, unsigned bytes);
void count_global(Machine &m, const Inst &i, const uint64_t *address, Mask mask, unsigned bytes);
int space_of(uint64_t generic);

}  // namespace sim
