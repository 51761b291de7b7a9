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
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import BF16, E4M3, E5M2, F16, I8, TF32, U8, Tile

# Types that wgmma multiplies.
MULTIPLIED = (F16, BF16, TF32, E4M3, E5M2, I8, U8)
# Types whose sums the tensor cores keep to about 13 bits: they are added up elsewhere.
COARSE = (E4M3, E5M2)

# One row of a stage: the widest swizzle of shared memory, which is also the depth of a step.
SPAN_BYTES = 128
# Rows of one wgmma.
MMA_M = 64
# Stages beyond which a deeper ring was of no use.
MOST_STAGES = 8
# Rows that one box of the copy engine may have.
BOX_ROWS = 256


@dataclass(frozen=True)
class Roles:
    """How a block of 1 + n warpgroups shares its registers.

    Attributes:
        entry: registers a thread that the block starts with (launch bounds, one block a processor).
        producer, consumer: what the roles settle on with setmaxnreg.
    """

    entry: int
    producer: int
    consumer: int


# By number of consumers; one consumer has enough without a trade. 40 and not 24 for a producer beside two consumers: with 24 its address
# arithmetic spills. The sums stay inside (1 + consumers) * entry.
ROLES = {1: Roles(255, 255, 255), 2: Roles(168, 40, 232), 3: Roles(128, 32, 160)}


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
        "Blocks of a cluster that share the steps of K of one tile; for few tiles and long K.",
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
        turns = turns and not made.promotes(problem)
        rest["pingpong"] = turns and given.get("consumers", 2) == 2
        by_rows = {64: 1, 192: 3}.get(made.mma_m, 2)
        rest["consumers"] = 2 if given.get("pingpong", rest["pingpong"]) else by_rows
        slices = 8 if problem.layout.b_dims[1] == "k" else 64
        pair = not made.swap and made.split == 1 and made.tile[1] % (2 * slices) == 0
        rest["cluster"] = 2 if pair else 1
        made = dataclasses.replace(made, **{k: v for k, v in rest.items() if k not in given})
        if "stages" in given:
            return made
        for stages in range(MOST_STAGES, 2, -1):
            fits = dataclasses.replace(made, stages=stages)
            buffers = max(2, fits.fewest_buffers(problem))
            if fits.shared_bytes(problem, buffers) <= target.shared_block:
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
    def part(self) -> int:
        """How much of `mma_m` one consumer multiplies."""
        return self.mma_m if self.pingpong else self.mma_m // self.consumers

    @property
    def chunk_n(self) -> int:
        """Columns of C that are staged at once: the widest swizzle span that divides the tile."""
        return next(c for c in (64, 32, 16, 8, 1) if self.tile[1] % c == 0)

    @property
    def chunks(self) -> int:
        """Chunks of C that a consumer stages, one after the other, for each tile."""
        return self.part // MMA_M * (1 if self.swap else self.tile[1] // self.chunk_n)

    def staged(self, problem: Gemm) -> bool:
        """Whether C is written through staging buffers: one result of 16 bits, from values alone."""
        typed = problem.typed
        outputs, operands = typed.outputs, problem.formula.operands
        indices = {n.name for s in typed.statements for n in walk(s.value) if isinstance(n, Name)}
        tiles = [name for name, dims in operands.items() if "m" in dims and "n" in dims]
        return (
            list(outputs) == ["c"]
            and outputs["c"] in (F16, BF16)
            and len(typed.statements) == 1
            and not indices & {"m", "n", "batch"}
            and all(
                dims in (("m",), ("n",)) for name, dims in operands.items() if name not in tiles
            )
            and (not tiles or self.tile_operand(problem) != "")
            and self.chunk_n >= 16
            and (not self.swap or self.chunk_n == 64)
        )

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

    def _reads_operands(self, problem: Gemm) -> bool:
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
            if (
                self.chunks % count == 0
                and self.shared_bytes(problem, count) <= target.shared_block
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
        partial = (self.split - 1) * self.mma_m * self.mma_n * 4
        total = self.stages * self.stage_bytes() + staging + partial + barriers
        return -(-total // 1024) * 1024

    def violations(self, problem: Gemm, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3)
        if broken:
            return broken
        return self._shape_rules(problem) or self._resource_rules(problem, target)

    def _shape_rules(self, problem: Gemm) -> list[Violation]:
        bm, bn, bk = self.tile
        broken = []

        def rule(holds: bool, field: str, message: str) -> None:
            if not holds:
                broken.append(Violation(field, message))

        depth = SPAN_BYTES // problem.storage.bytes
        rule(
            bk == depth,
            "tile",
            f"a step is {SPAN_BYTES} bytes deep, {depth} elements of {problem.dtype}, not {bk}",
        )
        rule(
            self.consumers in ROLES,
            "consumers",
            f"a block has 1 to 3 consumers, not {self.consumers}",
        )
        rule(
            not self.pingpong or self.consumers == 2,
            "pingpong",
            f"consumers that take turns are 2, not {self.consumers}",
        )
        if broken:
            return broken
        rows = MMA_M if self.pingpong else MMA_M * self.consumers
        axis, other = ("N", "M") if self.swap else ("M", "N")

        rule(
            self.mma_m % rows == 0 and 0 < self.mma_m <= BOX_ROWS,
            "tile",
            f"tile {axis} {self.mma_m} must be a multiple of {rows} (64 rows a wgmma"
            f"{'' if self.pingpong else f', {self.consumers} consumers'}), at most {BOX_ROWS}",
        )
        rule(
            self.mma_n % 16 == 0 and 16 <= self.mma_n <= 256,
            "tile",
            f"tile {other} {self.mma_n} must be a multiple of 16, from 16 to 256",
        )
        rule(
            not self.swap or self.cluster == 1,
            "cluster",
            "blocks share B, of which a swapped tile loads most; they do not share A",
        )
        rule(self.stages >= 2, "stages", f"{self.stages} stages; a ring has at least 2")
        rule(
            self.cluster in (1, 2, 4),
            "cluster",
            f"a cluster of {self.cluster} blocks; 1, 2 and 4 are allowed",
        )
        rule(
            self.split in (1, 2, 4, 8),
            "split",
            f"K split over {self.split} blocks; 1, 2, 4 and 8 are allowed",
        )
        rule(
            self.split == 1 or (self.cluster == 1 and not self.pingpong),
            "split",
            "blocks that split K share no loads, and have one tile: no turns to take",
        )
        rule(
            not (self.repack and problem.batched),
            "repack",
            "operands of a batch are not copied: a batch needs strides of whole 16 bytes",
        )
        rule(self.group >= 1, "group", f"group {self.group} must be at least 1")
        slices = 8 if problem.layout.b_dims[1] == "k" else 64
        rule(
            bn % (slices * self.cluster) == 0,
            "cluster",
            f"{self.cluster} blocks cannot share {bn} columns of B: each loads a multiple of {slices}",
        )
        rule(
            problem.layout.a_dims[1] == "k" or bm % 64 == 0,
            "tile",
            f"A with M contiguous loads 64 rows at a time; tile M {bm} is no multiple",
        )
        rule(
            problem.layout.b_dims[1] == "k" or bn % 64 == 0,
            "tile",
            f"B with N contiguous loads 64 columns at a time; tile N {bn} is no multiple",
        )
        return broken

    def _resource_rules(self, problem: Gemm, target: CudaTarget) -> list[Violation]:
        broken = []
        bm, bn, bk = self.tile
        sums = self.accumulators * (2 if self.promotes(problem) else 1)
        need = sums + (64 if self._reads_operands(problem) else 24)
        allowed = ROLES[self.consumers].consumer
        if need > allowed:
            broken.append(
                Violation(
                    "tile",
                    f"a consumer's {self.part} x {self.mma_n} sums are {sums} registers a "
                    f"thread; with what else it holds that is {need}, and {self.consumers} consumers have "
                    f"{allowed} each",
                )
            )
        shared = self.shared_bytes(problem, self.fewest_buffers(problem))
        if shared > target.shared_block:
            broken.append(
                Violation(
                    "stages",
                    f"tile {self.tile} with {self.stages} stages needs {shared} bytes of shared memory; "
                    f"{target} allows {target.shared_block} in a block",
                )
            )
        return broken

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
        if self.pingpong:
            words.append("pp")
        if self.swap:
            words.append("swap")
        if self.split != 1:
            words.append(f"k{self.split}")
        if self.repack:
            words.append("any")
        if not self.promote:
            words.append("fast")
        if self.group != 8:
            words.append(f"g{self.group}")
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
