"""WgmmaScaledGemm: a product of 8-bit matrices whose blocks have scales, on Hopper's tensor cores."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.fields import option
from tilegen.problems.scaled_gemm import SCALE_BLOCK, ScaledGemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.gemm_wgmma import WgmmaGemm
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import Tile


@dataclass(frozen=True)
class WgmmaScaledGemm(Schedule):
    """As WgmmaGemm with consumers that share each tile; they scale the sums of each step."""

    tile: Tile = option(
        Tile((128, 128, 128)),
        "Tile of the result and depth of a step; its columns have one scale in each step.",
        kind=Tile,
        unit="M x N x K elements",
    )
    stages: int = option(
        6, "Steps that shared memory holds; more hide longer latencies.", kind=int, unit="steps"
    )
    consumers: int = option(2, "Warpgroups that multiply.", kind=int, unit="warpgroups")
    cluster: int = option(
        2,
        "Blocks that load each part of B once for all of them; 1 leaves no block waiting for a peer.",
        kind=int,
        unit="blocks in M",
    )
    group: int = option(
        8, "Rows of tiles that are walked together, to share B in L2.", kind=int, unit="tiles"
    )

    operator: ClassVar[str] = "scaled_gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "wgmma"

    @property
    def like(self) -> WgmmaGemm:
        """The schedule of a plain product."""
        return WgmmaGemm(
            self.tile, self.stages, self.consumers, self.cluster, pingpong=False, group=self.group
        )

    @classmethod
    def accepts(cls, problem: ScaledGemm, target: CudaTarget) -> Violation | None:
        return WgmmaGemm.accepts(problem, target)

    @classmethod
    def default(cls, problem: ScaledGemm, target: CudaTarget) -> WgmmaScaledGemm:
        """128 x 128 results, two blocks of which share B."""
        return cls.with_options(problem, target, {})

    @classmethod
    def with_options(
        cls, problem: ScaledGemm, target: CudaTarget, given: Mapping[str, Any]
    ) -> WgmmaScaledGemm:
        """The given fields; consumers follow from the tile, and stages from what fits."""
        made = dataclasses.replace(cls(), **given)
        if len(made.tile) != 3:
            return made
        by_rows = {64: 1, 192: 3}.get(made.tile[0], 2)
        made = dataclasses.replace(made, consumers=given.get("consumers", by_rows))
        for stages in () if "stages" in given else range(8, 1, -1):
            fits = dataclasses.replace(made, stages=stages)
            if fits.like.shared_bytes(problem, 2) <= target.shared_block:
                return fits
        return made

    def violations(self, problem: ScaledGemm, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3)
        if broken:
            return broken
        columns = self.tile[1]
        if columns < 1 or SCALE_BLOCK % columns:
            reason = f"one scale for {SCALE_BLOCK} columns: 16, 32, 64 or {SCALE_BLOCK}"
            return [Violation("tile", f"tile N {columns} must divide B's blocks, {reason}")]
        return self.like.violations(problem, target)

    def tokens(self) -> list[str]:
        words = [str(self.tile), f"s{self.stages}"]
        words += [f"w{self.consumers}"] if self.consumers != 2 else []
        words += [f"c{self.cluster}"] if self.cluster != 1 else []
        return words + ([f"g{self.group}"] if self.group != 8 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: ScaledGemm, target: CudaTarget) -> Iterator[WgmmaScaledGemm]:
        for bm, bn, consumers in (
            (64, 32, 1),
            (64, 64, 1),
            (64, 128, 1),
            (128, 64, 2),
            (128, 128, 2),
            (192, 128, 3),
            (256, 128, 2),
        ):
            for stages in (4, 5, 6, 8):
                for cluster in (1, 2):
                    yield cls(Tile((bm, bn, SCALE_BLOCK)), stages, consumers, cluster)
