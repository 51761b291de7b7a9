"""Stream-K on a GPU: which tiles are cut, each cluster's share of their steps, and what it costs to add the sums up."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.model.estimate import Term
from tilegen.model.gemm_cuda_call import Call, Tiles
from tilegen.plans.base import ceil_div
from tilegen.schedules.gemm_wgmma import WgmmaGemm
from tilegen.schedules.gemm_wgmma_rules import LEAST_SHARE

# Nanoseconds until one block's word that its sums are there has reached another.
HAND_OVER = 2500.0
# Bytes a nanosecond at which a multiprocessor writes sums to L2, or reads them there.
SUMS = 47.0


@dataclass(frozen=True)
class Shares:
    """How the clusters share tiles, as the launcher decides it.

    Attributes:
        tiles: of a whole cluster.
        whole: tiles that one cluster computes alone; the others are cut.
        sharers: clusters that share those.
        clusters: that have work.
        steps: of K, in whose time the busiest cluster computes its own.
        joined: sums of other clusters that one adds up.
    """

    tiles: int
    whole: int
    sharers: int
    clusters: int
    steps: int
    joined: int

    @classmethod
    def of(cls, tiles: int, steps: int, at_once: int, join: int, skew: int) -> Shares:
        """So many tiles of so many steps, on a device that runs so many clusters at once.

        Args:
            join: steps in whose time a cluster adds up the sums of another.
            skew: tenths of their time that shares take which end anywhere in a tile.
        """
        rest = tiles % at_once
        if rest == 0:
            return cls(tiles, tiles, 0, at_once, tiles // at_once * steps, 0)
        # Time of the last wave, tiles that are cut, clusters that share them, steps, sums added up.
        ways = [(steps, 0, 0, steps, 0)]
        for parts in range(2, min(at_once // rest, steps // LEAST_SHARE) + 1):
            time = steps // parts + join * (parts + 1)
            ways.append((time, rest, parts * rest, ceil_div(steps, parts), parts - 1))
        for cut in range(rest, min(tiles + 1, 2 * at_once), at_once):
            share, whole = cut * steps // at_once, cut // at_once * steps
            if share >= LEAST_SHARE:
                time = share * skew // 10 + join * (at_once // cut + 3) - whole
                ways.append(
                    (time, cut, at_once, ceil_div(share * skew, 10) - whole, at_once // cut)
                )
        _, cut, sharers, last, joined = min(ways, key=lambda way: way[0])
        clusters = min(at_once, max(tiles, sharers))
        steps_of_busiest = tiles // at_once * steps + last
        return cls(tiles, tiles - cut, sharers, clusters, steps_of_busiest, max(1, joined))

    @classmethod
    def at(cls, schedule: WgmmaGemm, call: Call) -> Shares:
        """A schedule's, at the sizes of a call."""
        bm, bn, bk = schedule.tile
        tiles = ceil_div(call.m, bm * schedule.cluster) * ceil_div(call.n, bn) * call.count
        at_once = call.device.processors * schedule.resident // schedule.cluster
        return cls.of(tiles, ceil_div(call.k, bk), at_once, schedule.join_steps, schedule.skew)

    @property
    def cuts(self) -> bool:
        """Whether any tile is cut."""
        return self.whole < self.tiles

    def why(self) -> str:
        """What is cut, in words."""
        return f"{self.sharers} clusters share {self.tiles - self.whole} of {self.tiles} tiles"

    def as_tiles(self, schedule: WgmmaGemm, call: Call) -> Tiles:
        """Blocks that have one piece of work each, of `steps` steps."""
        blocks = self.clusters * schedule.cluster
        turns = ceil_div(blocks, call.device.processors)
        return Tiles(blocks, 1, turns, blocks, (0, blocks))

    def exchange(self, schedule: WgmmaGemm) -> Term:
        """Sums on their way through the workspace: one piece out, and those of the others in."""
        moved = (1 + self.joined) * 4 * schedule.mma_m * schedule.mma_n
        seconds = (HAND_OVER + moved / SUMS) / 1e9
        why = f"of {self.joined + 1} sums"
        return Term("exchange", seconds, why, overlaps=False)
