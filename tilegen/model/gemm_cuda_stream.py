"""Stream-K on a GPU: which tiles are cut, each cluster's share of their steps, and what it costs to add the sums up."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.model.estimate import Term
from tilegen.model.gemm_cuda_call import Call, Tiles
from tilegen.plans.base import ceil_div
from tilegen.schedules.gemm_wgmma import WgmmaGemm
from tilegen.schedules.gemm_wgmma_rules import LEAST_SHARE

# Nanoseconds until one block's word that its sums are there has reached another.
HAND_OVER = 1500.0
# How much longer shares take that are uneven parts of few tiles: a cluster leaves sums to one, and waits for others'.
UNEVEN = 1.3
# Bytes a nanosecond at which a multiprocessor writes sums to L2, or reads them there.
SUMS = 60.0


@dataclass(frozen=True)
class Shares:
    """How the clusters share tiles, as the launcher decides it.

    Attributes:
        clusters: that have work.
        tiles: of a whole cluster.
        whole: tiles that one cluster computes alone; the others are cut.
        steps: of K, of the cluster that has most.
    """

    clusters: int
    tiles: int
    whole: int
    steps: int

    @classmethod
    def of(cls, tiles: int, steps: int, at_once: int) -> Shares:
        """So many tiles of so many steps, on a device that runs so many clusters at once."""
        busy = min(at_once, tiles * max(1, steps // LEAST_SHARE))
        even = busy // tiles * tiles
        clusters = even if 10 * even >= 9 * busy else busy
        waves = ceil_div(tiles, clusters)
        if waves * steps - tiles * steps // clusters < LEAST_SHARE:
            return cls(clusters, tiles, tiles, waves * steps)
        share = ceil_div(tiles * steps, clusters)
        if clusters > tiles and clusters % tiles:
            share = round(share * UNEVEN)
        return cls(clusters, tiles, max(0, waves - 2) * clusters, share)

    @classmethod
    def at(cls, schedule: WgmmaGemm, call: Call) -> Shares:
        """A schedule's, at the sizes of a call."""
        bm, bn, bk = schedule.tile
        tiles = ceil_div(call.m, bm * schedule.cluster) * ceil_div(call.n, bn) * call.count
        at_once = call.device.processors * schedule.resident // schedule.cluster
        return cls.of(tiles, ceil_div(call.k, bk), at_once)

    @property
    def cuts(self) -> bool:
        """Whether any tile is cut."""
        return self.whole < self.tiles

    def why(self) -> str:
        """What is cut, in words."""
        return f"{self.clusters} clusters share {self.tiles - self.whole} of {self.tiles} tiles"

    def as_tiles(self, schedule: WgmmaGemm, call: Call) -> Tiles:
        """Blocks that have one piece of work each, of `steps` steps."""
        blocks = self.clusters * schedule.cluster
        turns = ceil_div(blocks, call.device.processors)
        return Tiles(blocks, 1, turns, blocks, (0, blocks))

    def exchange(self, schedule: WgmmaGemm) -> Term:
        """Sums on their way through the workspace: one piece out, and those of the others in."""
        others = max(1, ceil_div(self.clusters, self.tiles) - 1)
        moved = (1 + others) * 4 * schedule.mma_m * schedule.mma_n
        seconds = (HAND_OVER + moved / SUMS) / 1e9
        why = f"of sums of {others + 1} blocks"
        return Term("exchange", seconds, why, overlaps=False)
