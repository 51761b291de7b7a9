"""WgmmaGatedGemm: two products of one left matrix and the formula that joins them, on Hopper's tensor cores."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.fields import option
from tilegen.problems.gated_gemm import GatedGemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.gemm_wgmma import WgmmaGemm
from tilegen.schedules.gemm_wgmma_rules import SPAN_BYTES
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import Tile


class TwoBeside(WgmmaGemm):
    """A plain product of B beside the gate's matrix, of whose sums two make one result."""

    @property
    def columns(self) -> int:
        return self.tile[1] // 2


@dataclass(frozen=True)
class WgmmaGatedGemm(Schedule):
    """As WgmmaGemm, whose right operand is B beside the gate's matrix."""

    tile: Tile = option(
        Tile((128, 64, 64)),
        "Tile of the result and depth of a step; its sums take twice the registers of a plain product's.",
        kind=Tile,
        unit="M x N x K elements",
    )
    stages: int = option(
        4, "Steps that shared memory holds; more hide longer latencies.", kind=int, unit="steps"
    )
    consumers: int = option(2, "Warpgroups that multiply.", kind=int, unit="warpgroups")
    cluster: int = option(
        1,
        "Blocks that load each part of B and of the gate once for all of them; 1 leaves no block waiting for a peer.",
        kind=int,
        unit="blocks in M",
    )
    pingpong: bool = option(
        False,
        "The two consumers take tiles in turn, so that one multiplies while the other writes; for short K.",
        kind=bool,
    )
    group: int = option(
        8, "Rows of tiles that are walked together, to share B in L2.", kind=int, unit="tiles"
    )

    operator: ClassVar[str] = "gated_gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "wgmma"

    @property
    def like(self) -> WgmmaGemm:
        """The schedule of a plain product with as many sums: twice the columns."""
        bm, bn, bk = self.tile
        return TwoBeside(
            Tile((bm, 2 * bn, bk)),
            self.stages,
            self.consumers,
            self.cluster,
            self.pingpong,
            group=self.group,
        )

    @classmethod
    def accepts(cls, problem: GatedGemm, target: CudaTarget) -> Violation | None:
        return WgmmaGemm.accepts(problem, target)

    @classmethod
    def default(cls, problem: GatedGemm, target: CudaTarget) -> WgmmaGatedGemm:
        """Two consumers that take 128 x 64 results in turn: the fastest on an H200 for large layers."""
        return cls.with_options(problem, target, {})

    @classmethod
    def with_options(
        cls, problem: GatedGemm, target: CudaTarget, given: Mapping[str, Any]
    ) -> WgmmaGatedGemm:
        """The given fields; the others follow from them: roles from the tile, stages from what fits."""
        depth = SPAN_BYTES // problem.storage.bytes
        made = dataclasses.replace(cls(), **{"tile": Tile((128, 64, depth)), **given})
        if len(made.tile) != 3:
            return made
        # Sums that are promoted are added up while the tensor cores rest: no turn hides that.
        turns = made.tile[0] == 128 and made.tile[1] <= 96 and not made.like.promotes(problem)
        turns = given.get("pingpong", turns and given.get("consumers", 2) == 2)
        slices = 8 if problem.layout.b_dims[1] == "k" else 64
        rest = {
            "pingpong": turns,
            "consumers": 2 if turns else {64: 1, 192: 3}.get(made.tile[0], 2),
            "cluster": 2 if made.tile[1] % (2 * slices) == 0 else 1,
        }
        made = dataclasses.replace(made, **{**rest, **given})
        for stages in () if "stages" in given else range(8, 1, -1):
            fits = dataclasses.replace(made, stages=stages)
            buffers = max(2, fits.like.fewest_buffers(problem))
            if fits.shared_bytes(problem, buffers) <= target.shared_block:
                return fits
        return made

    def shared_bytes(self, problem: GatedGemm, buffers: int) -> int:
        """Shared memory of a block, with so many staging buffers a consumer."""
        return self.like.shared_bytes(problem, buffers)

    def violations(self, problem: GatedGemm, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3)
        if broken:
            return broken
        bn = self.tile[1]
        if bn % 16:
            return [Violation("tile", f"tile N {bn} must be a multiple of 16, from 16 to 128")]
        if not self.like.staged(problem):
            reason = (
                "one result of f16 or bf16, whose formula indexes nothing but vectors of m or n"
            )
            return [Violation("epilogue", f"a gated gemm stores {reason}")]
        slices = 8 if problem.layout.b_dims[1] == "k" else 64
        if self.cluster > 0 and bn % (slices * self.cluster):
            share = f"{self.cluster} blocks cannot share {bn} columns of B and as many of the gate"
            return [Violation("cluster", f"{share}: each loads a multiple of {slices}")]
        return self.like.violations(problem, target)

    def tokens(self) -> list[str]:
        words = [str(self.tile), f"s{self.stages}"]
        words += [f"w{self.consumers}"] if self.consumers != 2 else []
        words += [f"c{self.cluster}"] if self.cluster != 1 else []
        words += ["pp"] if self.pingpong else []
        return words + ([f"g{self.group}"] if self.group != 8 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: GatedGemm, target: CudaTarget) -> Iterator[WgmmaGatedGemm]:
        depth = SPAN_BYTES // problem.storage.bytes
        shapes = [(64, 64, 1, False), (64, 128, 1, False), (128, 64, 2, False)]
        shapes += [(128, 128, 2, False), (256, 64, 2, False)]
        shapes += [(128, n, 2, True) for n in (64, 80, 96)]
        for (bm, bn, consumers, turns), stages, cluster in itertools.product(
            shapes, (3, 4, 5, 6, 8), (1, 2)
        ):
            yield cls(Tile((bm, bn, depth)), stages, consumers, cluster, turns)
