// Blocks of a cluster read each other's shared memory. NO_FIRST_SYNC reads before the other has written;
// NO_LAST_SYNC lets a block exit while it is still read.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(const int *x, int *y) {
  __shared__ int mine[32];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned lane = threadIdx.x;
  mine[lane] = x[blockIdx.x * 32 + lane];
#ifndef NO_FIRST_SYNC
  cluster.sync();
#endif
  const int *other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
  int got = other[lane];
#ifndef NO_LAST_SYNC
  cluster.sync();
#endif
  y[blockIdx.x * 32 + lane] = got;
}
