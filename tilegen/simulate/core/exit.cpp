// What must not be outstanding when a block ends.
#include "machine.h"

namespace sim {

void finish_block(Block &b) {
  Machine &m = *b.cluster->m;
  for (Warp &w : b.warps)
    for (const BulkGroup &g : w.bulk)
      if (g.reads) {
        m.report_at("pending-at-exit", "the block ends and has not waited (cp.async.bulk.wait_group) for a bulk store to read its shared memory",
                    g.inst, -1, int(b.linear), w.index, g.lane);
        break;
      }
  for (const Mbarrier &k : b.barriers) {
    if (!k.live) continue;
    if (k.tx != 0)
      m.report_at("pending-at-exit", format("the block ends and its mbarrier at shared byte %u still has tx-count %lld", k.offset, (long long)k.tx),
                  k.last_tx, -1, int(b.linear), -1, -1);
    else if (k.bulk_phase && k.bulk_phase > k.observed_phase)
      m.report_at("pending-at-exit", format("the block ends and nothing has waited for the bulk loads of phase %u of the mbarrier at shared byte %u",
                                            k.bulk_phase - 1, k.offset), k.last_tx, -1, int(b.linear), -1, -1);
  }
}

}  // namespace sim
