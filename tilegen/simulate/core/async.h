// mbarriers and bulk copies: what the files of the asynchronous path share.
#pragma once
#include "memory.h"

namespace sim {

// The live mbarrier that holds `offset` of a block, or null.
Mbarrier *mbarrier_at(Block &b, uint64_t offset);
// Arrivals and transaction bytes; a phase completes when both counts reach zero.
void expect_tx(Block &b, Mbarrier &k, int64_t bytes, int inst);
void complete_tx(Block &b, uint64_t offset, int64_t bytes, int inst);
void settle(Block &b, Mbarrier &k);

// Looks up the mbarrier that an instruction names; reports misuse. `remote`: other blocks' are allowed.
struct BarrierPlace {
  Block *block = nullptr;
  Mbarrier *barrier = nullptr;
  uint64_t offset = 0;
};
BarrierPlace find_barrier(Warp &w, Locator &find, uint64_t address, int lane, bool remote, bool async);

// Runs work now, or keeps it for later where asynchronous work completes late. Returns its identity, 0 if it ran.
uint64_t start(Cluster &c, std::function<void()> work);
// Runs one piece of kept work, if it has not run.
void finish(Cluster &c, uint64_t id);

// The open bulk-group of a lane.
BulkGroup &open_group(Warp &w, int lane);
uint16_t bulk_dim(Warp &w, int lane, bool writes);

}  // namespace sim
