"""MmaGemm: a GEMM on the tensor cores of sm_80 and newer, with mma.sync, ldmatrix and cp.async."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.fields import option
from tilegen.names import counted
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, I8, TF32, U8, Tile

# Rows and columns of the result of one mma.sync, and the bytes of K that it takes.
MMA_M, MMA_N, MMA_BYTES = 16, 8, 32
# Bytes of a row of one matrix of ldmatrix, and of the widest cp.async.
CHUNK = 16
# Accumulators of more rows or columns than this, in one warp, do not fit in registers.
WARP_EXTENT = 64
# Columns by which rows of the staging are longer than they must be.
STAGING_PAD = 8
# Registers besides accumulators and fragments: addresses, sizes, positions, predicates.
OTHER_REGISTERS = 60
# What copies alone take, however small a warp's part is.
LEAST_REGISTERS = 128

_DTYPES = (F16, BF16, TF32, I8, U8)


@dataclass(frozen=True)
class MmaGemm(Schedule):
    """A block computes a tile from a ring of slices in shared memory; a warp a part of it in registers."""

    tile: Tile = option(
        Tile((128, 128, 32)),
        "Block of the result and depth of a slice; larger reuses more and fills fewer processors.",
        kind=Tile,
        unit="M x N x K elements",
    )
    stages: int = option(
        3,
        "Slices in shared memory at once; more hide more latency and take more shared memory.",
        kind=int,
        unit="slices",
    )
    warps: Tile = option(
        Tile((2, 2)),
        "Warps of a block; a warp's part of the tile is at most 64 x 64, smaller parts read more.",
        kind=Tile,
        unit="along M x along N",
    )
    group: int = option(
        8, "Rows of tiles that run together, so that they share B in L2.", kind=int, unit="tiles"
    )

    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "mma"

    @classmethod
    def accepts(cls, problem: Gemm, target: CudaTarget) -> Violation | None:
        if problem.dtype not in _DTYPES:
            known = ", ".join(t.name for t in _DTYPES)
            return Violation("dtype", f"the mma schedule multiplies {known}, not {problem.dtype}")
        if "cp_async" not in target.features:
            return Violation(
                "target", f"the mma schedule needs cp.async, which sm_80 brought; {target} lacks it"
            )
        if problem.storage.bytes != 2 and str(problem.layout) != "tn":
            return Violation(
                "layout",
                f"ldmatrix transposes 16-bit elements only: {problem.dtype} needs layout tn, where K is "
                f"contiguous in A and B, not {problem.layout}",
            )
        return None

    @classmethod
    def default(cls, problem: Gemm, target: CudaTarget) -> MmaGemm:
        """128 x 128, 64 bytes deep, 3 stages, 4 warps: two such blocks fit on a multiprocessor."""
        return cls(tile=Tile((128, 128, 64 // problem.storage.bytes)))

    @classmethod
    def with_options(cls, problem: Gemm, target: CudaTarget, given: Mapping[str, Any]) -> MmaGemm:
        """The default with the given fields; without `warps`, as many as the tile's parts need."""
        made = dataclasses.replace(cls.default(problem, target), **given)
        if "warps" in given or len(made.tile) != 3:
            return made
        return dataclasses.replace(made, warps=warps_for(made.tile))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps[0] * self.warps[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of a warp's part of the tile."""
        return self.tile[0] // self.warps[0], self.tile[1] // self.warps[1]

    def ring_bytes(self, element: int) -> int:
        """Shared memory of the slices in bytes, for elements of `element` bytes."""
        return self.stages * (self.tile[0] + self.tile[1]) * self.tile[2] * element

    @property
    def staging_bytes(self) -> int:
        """Shared memory through which the warps pass their sums at the end, in bytes."""
        return self.warps[0] * self.warps[1] * MMA_M * (self.warp_tile[1] + STAGING_PAD) * 4

    def shared_bytes(self, element: int) -> int:
        """Shared memory of a block in bytes: the staging takes the place of the ring."""
        return max(self.ring_bytes(element), self.staging_bytes)

    def registers(self) -> int:
        """Estimate of a thread's registers: accumulators, two sets of fragments, addresses."""
        m, n = self.warp_tile
        fragments = 2 * (m // MMA_M * 4 + n // MMA_N * 2)
        return max(LEAST_REGISTERS, m * n // 32 + fragments + OTHER_REGISTERS)

    def resident(self, element: int, target: CudaTarget) -> int:
        """Blocks that a multiprocessor of the target holds at once, by memory, registers, threads."""
        by_shared = target.shared_sm // (self.shared_bytes(element) + target.shared_reserved)
        by_registers = target.registers_sm // (self.threads * -(-self.registers() // 8) * 8)
        return max(1, min(by_shared, by_registers, target.threads_sm // self.threads))

    def violations(self, problem: Gemm, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3) + tile_rank("warps", self.warps, 2)
        broken = broken or self._counts(target)
        broken = broken or self._parts(problem) + self._rows(problem)
        if broken:
            return broken
        return (
            self._sharing(problem)
            + self._shared_memory(problem.storage.bytes, target)
            + self._registers(target)
        )

    def _counts(self, target: CudaTarget) -> list[Violation]:
        broken = []
        if self.stages < 2:
            text = f"stages {self.stages}: one slice arrives while another is multiplied, so at least 2"
            broken.append(Violation("stages", text))
        if self.group < 1:
            broken.append(Violation("group", f"group {self.group} must be at least 1"))
        if self.threads > target.threads_block:
            broken.append(
                Violation(
                    "warps",
                    f"warps {self.warps} are {self.threads} threads; {target} runs at most "
                    f"{target.threads_block} in a block",
                )
            )
        return broken

    def _parts(self, problem: Gemm) -> list[Violation]:
        """The tile must fall into whole parts, a part into whole fragments, a slice into pairs of steps."""
        bm, bn, bk = self.tile
        wm, wn = self.warps
        pair = 2 * MMA_BYTES // problem.storage.bytes
        rules = [
            ("M", bm, wm * MMA_M, f"{counted(wm, 'warp')} with parts of whole {MMA_M} rows"),
            (
                "N",
                bn,
                wn * 2 * MMA_N,
                f"{counted(wn, 'warp')} with parts of whole {2 * MMA_N} columns",
            ),
            ("K", bk, pair, f"pairs of steps of mma.sync in {problem.dtype}"),
        ]
        return [
            Violation(
                "tile",
                f"tile {self.tile}: {extent} along {axis} is no multiple of {step}, as {why} need it",
            )
            for axis, extent, step, why in rules
            if extent % step
        ]

    def _rows(self, problem: Gemm) -> list[Violation]:
        """Lanes that share a row, 4 columns each, combine what they have of it two by two."""
        columns = self.warp_tile[1]
        if not problem.row_reductions or columns in (16, 32, 64, 128):
            return []
        return [
            Violation(
                "warps",
                f"a warp's part is {columns} columns wide; to reduce rows it is 16, 32, 64 or 128 wide",
            )
        ]

    def slices(self, problem: Gemm) -> list[tuple[str, int, int]]:
        """Name, rows and elements of a row of a slice of A and of B, as they lie in memory."""
        bm, bn, bk = self.tile
        a = ("A", bm, bk) if problem.layout.a_dims[1] == "k" else ("A", bk, bm)
        b = ("B", bn, bk) if problem.layout.b_dims[1] == "k" else ("B", bk, bn)
        return [a, b]

    def _sharing(self, problem: Gemm) -> list[Violation]:
        """The threads copy whole rows of a slice at once, whatever the width of a copy."""
        broken = []
        for name, rows, row in self.slices(problem):
            if self.threads % row:
                broken.append(
                    Violation(
                        "warps",
                        f"{self.threads} threads cannot share rows of {row} elements of {name}: "
                        f"{self.threads} is no multiple of {row}",
                    )
                )
                continue
            at_once = self.threads * CHUNK // (row * problem.storage.bytes)
            if rows % at_once:
                broken.append(
                    Violation(
                        "warps",
                        f"{self.threads} threads copy {at_once} rows of {row} elements of {name} at once; "
                        f"the {rows} rows of a slice are no multiple of that",
                    )
                )
        return broken

    def _shared_memory(self, size: int, target: CudaTarget) -> list[Violation]:
        shared = self.shared_bytes(size)
        if shared <= target.shared_block:
            return []
        return [
            Violation(
                "stages",
                f"tile {self.tile} with {self.stages} stages needs {shared} bytes of shared memory; "
                f"{target} allows {target.shared_block} in a block",
            )
        ]

    def _registers(self, target: CudaTarget) -> list[Violation]:
        needed = self.registers()
        allowed = min(target.registers_thread, target.registers_sm // self.threads)
        if needed <= allowed:
            return []
        m, n = self.warp_tile
        return [
            Violation(
                "warps",
                f"a warp's part of {m} x {n} needs about {needed} registers a thread; {target} gives "
                f"{allowed} to each of {self.threads} threads",
            )
        ]

    def tokens(self) -> list[str]:
        words = [str(self.tile), f"s{self.stages}"]
        if self.warps != warps_for(self.tile):
            words.append(f"w{self.warps}")
        if self.group != 8:
            words.append(f"g{self.group}")
        return words

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Gemm, target: CudaTarget) -> Iterator[MmaGemm]:
        blocks = [(32, 64), (64, 32), (64, 64), (64, 128), (128, 64), (128, 128)]
        blocks += [(64, 256), (256, 64), (128, 256), (256, 128)]
        depths = [deep // problem.storage.bytes for deep in (64, 128)]
        layouts = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4)]
        for (bm, bn), bk, stages, warps, group in itertools.product(
            blocks, depths, (2, 3, 4, 5), layouts, (4, 8, 16)
        ):
            yield cls(Tile((bm, bn, bk)), stages, Tile(warps), group)


def warps_for(tile: Tile) -> Tile:
    """Warps along M and N for a tile: two along an axis that halves, more for parts above 64."""
    return Tile((_warps_along(tile[0], MMA_M), _warps_along(tile[1], 2 * MMA_N)))


def _warps_along(extent: int, fragment: int) -> int:
    for count in (2, 4, 8, 16):
        if extent % (count * fragment) == 0 and extent // count <= WARP_EXTENT:
            return count
    return max(1, -(-extent // WARP_EXTENT))
