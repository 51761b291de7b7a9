"""WgmmaGemm: a persistent, warp-specialised GEMM on Hopper's warpgroup tensor cores."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.fields import option
from tilegen.formula import Name, walk
from tilegen.problems.gemm import Gemm
from tilegen.schedules import gemm_wgmma_rules as rules
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.gemm_wgmma_rules import COARSE, MMA_M, MULTIPLIED, SPAN_BYTES
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, Tile

# Stages beyond which a deeper ring was of no use.
MOST_STAGES = 8


@dataclass(frozen=True)
class WgmmaGemm(Schedule):
    """A producer thread fills a ring of stages by TMA; consumer warpgroups multiply out of it by wgmma."""

    tile: Tile = option(
        Tile((128, 128, 64)),
        "Tile of the result and depth of a step; a large one loads less for each product, a small one "
        "leaves fewer processors idle in the last wave.",
        kind=Tile,
        unit="M x N x K elements",
    )
    stages: int = option(
        4, "Steps that shared memory holds; more hide longer latencies.", kind=int, unit="steps"
    )
    consumers: int = option(
        2,
        "Warpgroups that multiply; each holds its rows of the tile in registers.",
        kind=int,
        unit="warpgroups",
    )
    cluster: int = option(
        2,
        "Blocks that load each part of B once for all of them; 1 leaves no block waiting for a peer.",
        kind=int,
        unit="blocks in M",
    )
    pingpong: bool = option(
        False,
        "The two consumers take tiles in turn, so that one multiplies while the other writes; for "
        "short K and long epilogues.",
        kind=bool,
    )
    swap: bool = option(
        False,
        "B takes wgmma's 64 rows and A its columns, so that a tile may have few rows; for small M.",
        kind=bool,
    )
    split: int = option(
        1,
        "Parts into which the steps of K of a tile are cut, each for another block; for few tiles and long K.",
        kind=int,
        unit="parts",
    )
    workspace: bool = option(
        False,
        "Parts of K meet in a workspace, where a second kernel adds them up, and not in a cluster: for "
        "more or larger parts than a cluster holds.",
        kind=bool,
    )
    stream: bool = option(
        False,
        "Stream-K: tiles that fill no whole wave are cut, and clusters share their steps of K evenly; their sums "
        "meet in a workspace. For a last wave that is nearly empty, and for few tiles.",
        kind=bool,
    )
    resident: int = option(
        1,
        "Blocks on a processor at once, so that one loads while another starts or writes; for small tiles.",
        kind=int,
        unit="blocks",
    )
    repack: bool = option(
        False,
        "Operands may start anywhere: what the copy engine cannot read is first copied to a workspace.",
        kind=bool,
    )
    promote: bool = option(
        True,
        "For fp8: add the sums of each step to float32 registers, as the tensor cores keep about 13 bits; "
        "false is faster and coarser.",
        kind=bool,
    )
    group: int = option(
        8, "Rows of tiles that are walked together, to share B in L2.", kind=int, unit="tiles"
    )
    cluster_n: int = option(
        1,
        "Blocks that load each part of A once for all of them; for few rows, where narrow tiles would fetch "
        "A more often than B.",
        kind=int,
        unit="blocks in N",
    )
    constant_b: bool = option(
        False,
        "No kernel in front of this one in the stream writes B, so that its first steps are loaded before "
        "that kernel has ended: for weights. What another kernel has yet to write there would be read too early.",
        kind=bool,
    )

    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "wgmma"

    @classmethod
    def accepts(cls, problem: Gemm, target: CudaTarget) -> Violation | None:
        if "wgmma" not in target.features:
            return Violation("target", f"wgmma exists on sm_90a, not on {target}")
        if problem.dtype not in MULTIPLIED:
            known = ", ".join(t.name for t in MULTIPLIED)
            return Violation("dtype", f"the wgmma schedule multiplies {known}, not {problem.dtype}")
        if problem.storage.bytes != 2 and str(problem.layout) != "tn":
            return Violation(
                "layout",
                f"wgmma transposes 16-bit operands only: {problem.dtype} needs layout tn, where K is "
                f"contiguous in A and B, not {problem.layout}",
            )
        return None

    @classmethod
    def default(cls, problem: Gemm, target: CudaTarget) -> WgmmaGemm:
        """Two consumers that take 128 x 128 tiles in turn: the fastest on an H200 for large products."""
        return cls.with_options(problem, target, {})

    @classmethod
    def with_options(cls, problem: Gemm, target: CudaTarget, given: Mapping[str, Any]) -> WgmmaGemm:
        """The given fields; the others follow from them: roles from the tile, stages from what fits."""
        # Threads that store rows themselves take longer than the turns of a small tile hide.
        columns = 256 if given.get("repack") and problem.storage.bytes == 2 else 128
        start = dataclasses.replace(
            cls(), tile=Tile((128, columns, SPAN_BYTES // problem.storage.bytes))
        )
        made = dataclasses.replace(start, **given)
        if len(made.tile) != 3:
            return made
        rest: dict[str, Any] = {}
        turns = made.mma_m == 128 and made.mma_n <= 128 and not made.swap and made.split == 1
        turns = turns and not made.promotes(problem) and not made.stream
        rest["pingpong"] = turns and given.get("consumers", 2) == 2
        by_rows = {64: 1, 192: 3}.get(made.mma_m, 2)
        rest["consumers"] = 2 if given.get("pingpong", rest["pingpong"]) else by_rows
        slices = 8 if problem.layout.b_dims[1] == "k" else 64
        alone = made.swap or made.cluster_split > 1 or made.resident > 1 or made.cluster_n > 1
        pair = not alone and made.tile[1] % (2 * slices) == 0
        rest["cluster"] = 2 if pair else 1
        made = dataclasses.replace(made, **{k: v for k, v in rest.items() if k not in given})
        if "stages" in given:
            return made
        for stages in range(MOST_STAGES, 2, -1):
            fits = dataclasses.replace(made, stages=stages)
            buffers = max(2, fits.fewest_buffers(problem))
            if fits.shared_bytes(problem, buffers) <= fits.shared_limit(target):
                return fits
        return dataclasses.replace(made, stages=2)

    @property
    def mma_m(self) -> int:
        """Extent of the tile along the rows of wgmma: M, or N where the operands are swapped."""
        return self.tile[1] if self.swap else self.tile[0]

    @property
    def mma_n(self) -> int:
        """Extent of the tile along the columns of wgmma: N, or M where the operands are swapped."""
        return self.tile[0] if self.swap else self.tile[1]

    @property
    def sharing(self) -> int:
        """Blocks of a cluster that load an operand for each other."""
        return max(self.cluster, self.cluster_n)

    @property
    def cluster_split(self) -> int:
        """Blocks of a cluster that share the steps of K of one tile."""
        return 1 if self.workspace else self.split

    @property
    def copies(self) -> bool:
        """Whether operands may have to be copied to the workspace first."""
        return self.repack

    @property
    def join_steps(self) -> int:
        """Steps of K in whose time a block adds up the sums of another: where products bound it, the same for any tile."""
        return 3 if self.mma_m * self.mma_n >= 8192 else 1

    @property
    def skew(self) -> int:
        """Tenths of their time that shares take whose clusters are at different places of K: small tiles load more."""
        return 11 if self.mma_m * self.mma_n >= 20480 else 15

    @property
    def roles(self) -> rules.Roles:
        """Registers of a thread, by role."""
        return rules.roles(self.consumers, self.resident)

    def shared_limit(self, target: CudaTarget) -> int:
        """Bytes of shared memory that a block may have, beside the others on its processor."""
        share = target.shared_sm // max(1, self.resident) - target.shared_reserved
        return min(target.shared_block, share // 1024 * 1024)

    @property
    def part(self) -> int:
        """How much of `mma_m` one consumer multiplies."""
        return self.mma_m if self.pingpong else self.mma_m // self.consumers

    @property
    def columns(self) -> int:
        """Columns of results that a tile has."""
        return self.tile[1]

    @property
    def chunk_n(self) -> int:
        """Columns of C that are staged at once: the widest swizzle span that divides the tile."""
        return next(c for c in (64, 32, 16, 8, 1) if self.columns % c == 0)

    @property
    def chunks(self) -> int:
        """Chunks of C that a consumer stages, one after the other, for each tile."""
        return self.part // MMA_M * (1 if self.swap else self.columns // self.chunk_n)

    def staged(self, problem: Gemm) -> bool:
        """Whether C is written through staging buffers: one result of 16 bits, from values alone."""
        typed = problem.typed
        outputs, operands = typed.outputs, problem.formula.operands
        indices = {n.name for s in typed.statements for n in walk(s.value) if isinstance(n, Name)}
        tiles = [name for name, dims in operands.items() if "m" in dims and "n" in dims]
        return (
            not (self.workspace and self.split > 1)
            and (tile := self.tile_output(problem)) != ""
            and outputs[tile] in (F16, BF16)
            and outputs[tile] is problem.out_dtype
            and (problem.row_reductions or len(typed.statements) == 1)
            and not (problem.row_reductions and tiles)
            and not indices & {"m", "n", "batch"}
            and all(
                dims in (("m",), ("n",)) for name, dims in operands.items() if name not in tiles
            )
            and (not tiles or self.tile_operand(problem) != "")
            and self.chunk_n >= 16
            and (not self.swap or self.chunk_n == 64)
        )

    def streams(self, problem: Gemm) -> bool:
        """Whether loads of B tell L2 not to keep it: tiles that one row of them mostly covers M with."""
        return self.swap and str(problem.layout) == "tn" and not problem.batched

    def tile_output(self, problem: Gemm) -> str:
        """The one output of the tile's shape, beside which there are only reductions of its rows."""
        names = [n for n, dims in problem.formula.outputs.items() if "m" in dims and "n" in dims]
        others = set(problem.formula.outputs) - {row.name for row in problem.row_reductions}
        return names[0] if len(names) == 1 and others == set(names) else ""

    def tile_operand(self, problem: Gemm) -> str:
        """The one operand of 16 bits and two dimensions that can wait where the results are staged."""
        tiles = [
            name for name, dims in problem.formula.operands.items() if "m" in dims and "n" in dims
        ]
        fits = len(tiles) == 1 and problem.typed.operands[tiles[0]] in (F16, BF16)
        return tiles[0] if fits and not (self.swap or self.repack) else ""

    def vectors(self, problem: Gemm) -> list[str]:
        """Operands of one dimension, which wait in shared memory as floats."""
        return [name for name, dims in problem.formula.operands.items() if len(dims) == 1]

    def reads_operands(self, problem: Gemm) -> bool:
        """Whether the epilogue of staged results needs more than their sums."""
        return self.staged(problem) and bool(problem.typed.operands)

    def stage_bytes(self) -> int:
        """Shared memory of one step of A and B."""
        return (self.tile[0] + self.tile[1]) * SPAN_BYTES

    def buffer_bytes(self, problem: Gemm) -> int:
        """One staging buffer of C: the rows of a wgmma, or of the tile if swapped, of one chunk."""
        return (self.tile[0] if self.swap else MMA_M) * self.chunk_n * problem.out_dtype.bytes

    def buffers(self, problem: Gemm, target: CudaTarget) -> int:
        """Staging buffers of a consumer: of 2, 3 and 1, the first that divides a tile's chunks and fits.

        An operand's tile needs them all, one a chunk.
        """
        if self.fewest_buffers(problem) > 1:
            return self.chunks
        for count in (2, 3):
            if self.chunks % count == 0 and self.shared_bytes(problem, count) <= self.shared_limit(
                target
            ):
                return count
        return 1

    def fewest_buffers(self, problem: Gemm) -> int:
        """Staging buffers that a consumer cannot do without."""
        return self.chunks if self.staged(problem) and self.tile_operand(problem) else 1

    def shared_bytes(self, problem: Gemm, buffers: int) -> int:
        """Shared memory of a block: stages, staging buffers and barriers, padded to its alignment."""
        staging = 0
        if self.staged(problem):
            vectors = 4 * max(self.tile[0], self.tile[1]) * len(self.vectors(problem))
            staging = self.consumers * (buffers * self.buffer_bytes(problem) + vectors + 8)
        barriers = 2 * 8 * self.stages
        partial = (self.cluster_split - 1) * self.mma_m * self.mma_n * 4
        total = self.stages * self.stage_bytes() + staging + partial + barriers
        return -(-total // 1024) * 1024

    def violations(self, problem: Gemm, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3)
        if broken:
            return broken
        return rules.of_shape(self, problem) or rules.of_resources(self, problem, target)

    @property
    def accumulators(self) -> int:
        """Registers a thread that hold the sums of wgmma."""
        return self.part * self.mma_n // 128

    def promotes(self, problem: Gemm) -> bool:
        """Whether the sums of each step are added to a second set of registers."""
        return self.promote and problem.dtype in COARSE

    def tokens(self) -> list[str]:
        words = [str(self.tile), f"s{self.stages}"]
        if self.consumers != 2:
            words.append(f"w{self.consumers}")
        if self.cluster != 1:
            words.append(f"c{self.cluster}")
        if self.cluster_n != 1:
            words.append(f"cn{self.cluster_n}")
        if self.pingpong:
            words.append("pp")
        if self.swap:
            words.append("swap")
        if self.split != 1:
            words.append(f"k{self.split}{'ws' if self.workspace else ''}")
        if self.stream:
            words.append("sk")
        if self.resident != 1:
            words.append(f"r{self.resident}")
        if self.repack:
            words.append("any")
        if not self.promote:
            words.append("fast")
        if self.group != 8:
            words.append(f"g{self.group}")
        if self.constant_b:
            words.append("cb")
        return words

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Gemm, target: CudaTarget) -> Iterator[WgmmaGemm]:
        depth = SPAN_BYTES // problem.storage.bytes
        shapes = [(64, n, 1, False) for n in (32, 64, 128, 256)]
        shapes += [(128, n, 2, False) for n in (64, 128, 160, 192, 256)]
        shapes += [(256, n, 2, False) for n in (128, 192)] + [(192, 128, 3, False)]
        shapes += [(128, n, 2, True) for n in (128, 192)] + [(64, 256, 2, True)]
        for (bm, bn, consumers, turns), stages, cluster, group in itertools.product(
            shapes, (3, 4, 5, 6, 8), (1, 2), (8, 16)
        ):
            yield cls(Tile((bm, bn, depth)), stages, consumers, cluster, turns, group=group)
            if not turns:
                yield cls(
                    Tile((bm, bn, depth)), stages, consumers, cluster, stream=True, group=group
                )
