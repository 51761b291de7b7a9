"""WgmmaGroupedGemm: products of groups of rows in one launch, on Hopper's warpgroup tensor cores."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.fields import option
from tilegen.problems.grouped_gemm import GroupedGemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.gemm_wgmma import WgmmaGemm
from tilegen.schedules.gemm_wgmma_rules import SPAN_BYTES
from tilegen.targets import CudaTarget
from tilegen.values import Tile


class AnyRow(WgmmaGemm):
    """A plain product whose C may start in any row, and whose operands are where the copy engine reads them."""

    copies = False


@dataclass(frozen=True)
class WgmmaGroupedGemm(Schedule):
    """As WgmmaGemm with consumers that share each tile; the tiles of all groups are walked as one list."""

    tile: Tile = option(
        Tile((128, 128, 64)),
        "Tile of the result and depth of a step; a small M wastes less on short groups.",
        kind=Tile,
        unit="M x N x K elements",
    )
    stages: int = option(
        4, "Steps that shared memory holds; more hide longer latencies.", kind=int, unit="steps"
    )
    consumers: int = option(2, "Warpgroups that multiply.", kind=int, unit="warpgroups")

    operator: ClassVar[str] = "grouped_gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "wgmma"

    @property
    def like(self) -> WgmmaGemm:
        """The schedule of a plain product with the same tile, whose C may start in any row."""
        return AnyRow(
            self.tile, self.stages, self.consumers, cluster=1, pingpong=False, repack=True
        )

    @classmethod
    def accepts(cls, problem: GroupedGemm, target: CudaTarget) -> Violation | None:
        if problem.layout.a != "t":
            return Violation(
                "layout",
                f"groups begin in any row of A, so that its rows must be contiguous: tn or tt, not {problem.layout}",
            )
        return WgmmaGemm.accepts(problem.one, target)

    @classmethod
    def default(cls, problem: GroupedGemm, target: CudaTarget) -> WgmmaGroupedGemm:
        """128 x 256 for 16-bit types, as far as the sums fit beside what the epilogue needs."""
        return cls.with_options(problem, target, {})

    @classmethod
    def with_options(
        cls, problem: GroupedGemm, target: CudaTarget, given: Mapping[str, Any]
    ) -> WgmmaGroupedGemm:
        """The given fields; consumers follow from the tile, and stages from what fits."""
        depth = SPAN_BYTES // problem.storage.bytes
        columns = 256 if problem.storage.bytes == 2 else 128
        made = dataclasses.replace(cls(), **{"tile": Tile((128, columns, depth)), **given})
        if len(made.tile) != 3:
            return made
        by_rows = {64: 1, 192: 3}.get(made.tile[0], 2)
        made = dataclasses.replace(made, consumers=given.get("consumers", by_rows))
        for stages in () if "stages" in given else range(8, 1, -1):
            fits = dataclasses.replace(made, stages=stages)
            if fits.like.shared_bytes(problem.one, 2) <= target.shared_block:
                return fits
        return made

    def violations(self, problem: GroupedGemm, target: CudaTarget) -> list[Violation]:
        return self.like.violations(problem.one, target)

    def tokens(self) -> list[str]:
        words = [str(self.tile), f"s{self.stages}"]
        return words + ([f"w{self.consumers}"] if self.consumers != 2 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: GroupedGemm, target: CudaTarget) -> Iterator[WgmmaGroupedGemm]:
        depth = SPAN_BYTES // problem.storage.bytes
        for bm, bn, consumers in (
            (64, 64, 1),
            (64, 128, 1),
            (64, 256, 1),
            (128, 64, 2),
            (128, 128, 2),
            (128, 192, 2),
            (128, 256, 2),
            (256, 128, 2),
        ):
            for stages in (3, 4, 5, 6, 8):
                yield cls(Tile((bm, bn, depth)), stages, consumers)
