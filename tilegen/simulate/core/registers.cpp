// Registers of asynchronous matrix operations: no access in flight, and a fence after any other access.
#include "machine.h"

namespace sim {

// The program names, for an instruction that touches a register which some wgmma uses, its index * 2 + written.
void touch_registers(Warp &w, const Inst &i, Mask) {
  if (!w.m->detect) return;
  const int32_t *t = &w.m->pool[size_t(i.touch)];
  for (int k = 0; k < i.touched; ++k) {
    uint32_t index = uint32_t(t[k]) >> 1;
    bool written = t[k] & 1;
    // In flight: 1 and more for accumulators (no access), 0x100 and more for A operands (no write).
    uint16_t flight = w.in_flight[index];
    if ((flight & 0xff) || (written && flight))
      w.m->report("wgmma", format("a register of a wgmma that has not been waited for is %s", written ? "written" : "read"), &w, -1,
                  w.wgmma.empty() ? -1 : w.wgmma.back().inst->index);
    w.dirty[index] = 1;
  }
}

}  // namespace sim
