"""PackedGemm: the cache-blocked, packed GEMM of C with OpenMP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CpuTarget
from tilegen.values import BF16, F16, F32, F64, I8, DType, Tile

# Type in which operands are multiplied, by input type. Products of two int8 are at most 2^14, so that
# a float32 sum of up to 2^10 of them is exact.
MULTIPLIED: dict[DType, DType] = {F64: F64, F32: F32, F16: F32, BF16: F32, I8: F32}

# Longest sum of int8 products that float32 holds exactly: 2^24 / 2^14.
EXACT_DEPTH = 1024

# Largest workspace of a thread; more than any cache that a block should fit.
WORKSPACE_BYTES = 64 << 20

MICRO_ROWS = 16
MICRO_ELEMENTS = 1024


@dataclass(frozen=True)
class PackedGemm(Schedule):
    """A thread multiplies packed slivers of B by rows of A, a micro tile of sums in registers at a time.

    B is packed a block at a time into memory of the thread's own, just before it is used, so threads
    never wait for each other. A is read where it lies when K is contiguous and nothing is to be
    converted, and packed a few rows at a time otherwise.
    """

    tile: Tile = option(
        Tile((2400, 256, 512)),
        "Cache block: N x K of B are packed at a time and should fit L2; M rows share them.",
        kind=Tile,
        unit="M x N x K elements",
    )
    micro: Tile = option(
        Tile((8, 8)),
        "Micro tile of sums in registers; N is a multiple of a vector and divides the block's.",
        kind=Tile,
        unit="M x N elements",
    )
    unroll: int = option(
        4, "Steps of K written out in the micro kernel; more hides more latency.", kind=int
    )

    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "packed"

    @classmethod
    def accepts(cls, problem: Gemm, target: CpuTarget) -> Violation | None:
        if problem.dtype not in MULTIPLIED:
            known = ", ".join(t.name for t in MULTIPLIED)
            return Violation(
                "dtype", f"the packed schedule multiplies {known}, not {problem.dtype}"
            )
        return None

    @classmethod
    def default(cls, problem: Gemm, target: CpuTarget) -> PackedGemm:
        """Half of L2 for the packed block of B, the widest micro tile that needs no spill."""
        size = MULTIPLIED[problem.dtype].bytes
        micro = _default_micro(size, target)
        depth = 2048 // size
        block_n = target.l2_bytes // 2 // (depth * size) // micro[1] * micro[1]
        return cls(Tile((400 * micro[0], block_n, depth)), micro)

    @classmethod
    def with_options(cls, problem: Gemm, target: CpuTarget, given: Mapping[str, Any]) -> PackedGemm:
        """The default with the given fields; a micro tile that was not given adapts to the tile's N."""
        schedule = super().with_options(problem, target, given)
        if "tile" not in given or "micro" in given or len(schedule.tile) != 3:
            return schedule
        lanes = lanes_of(problem, target)
        rows, widest = schedule.micro
        for width in range(widest, 0, -lanes):
            if schedule.tile[1] % width == 0:
                return cls(schedule.tile, Tile((rows, width)), schedule.unroll)
        return schedule

    def workspace_bytes(self, problem: Gemm) -> int:
        """Most bytes of a thread's workspace: the packed block of B and a block of sums."""
        size = MULTIPLIED[problem.dtype].bytes
        block_m, block_n, block_k = self.tile
        return size * block_n * (block_m + block_k)

    def registers(self, problem: Gemm, target: CpuTarget) -> int:
        """Vector registers of the micro kernel: sums, a row of the sliver, one element of A."""
        vectors = self.micro[1] // lanes_of(problem, target)
        return self.micro[0] * vectors + vectors + 1

    def violations(self, problem: Gemm, target: CpuTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3) + tile_rank("micro", self.micro, 2)
        if broken:
            return broken
        return self._micro_violations(problem, target) + self._block_violations(problem)

    def _micro_violations(self, problem: Gemm, target: CpuTarget) -> list[Violation]:
        broken = []
        rows, width = self.micro
        lanes = lanes_of(problem, target)
        if width % lanes:
            message = (
                f"micro {self.micro}: {width} columns are no multiple of {lanes}, the "
                f"{MULTIPLIED[problem.dtype]} elements of {target.vector_bytes} bytes, a vector of {target}"
            )
            return [Violation("micro", message)]
        if self.tile[1] % width:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile}: N {self.tile[1]} is no multiple of the micro tile's {width} columns",
                )
            )
        if rows > MICRO_ROWS or rows * width > MICRO_ELEMENTS:
            broken.append(
                Violation(
                    "micro",
                    f"micro {self.micro} has {rows} rows and {rows * width} elements; {MICRO_ROWS} rows and "
                    f"{MICRO_ELEMENTS} elements are allowed",
                )
            )
        elif is_vector(target) and self.registers(problem, target) > target.vector_registers:
            vectors = width // lanes
            broken.append(
                Violation(
                    "micro",
                    f"micro {self.micro} needs {self.registers(problem, target)} vector registers ({rows} x "
                    f"{vectors} sums, {vectors} of B, 1 of A); {target} has {target.vector_registers}",
                )
            )
        if not 1 <= self.unroll <= 16:
            broken.append(Violation("unroll", f"unroll {self.unroll} must be 1 to 16"))
        return broken

    def _block_violations(self, problem: Gemm) -> list[Violation]:
        broken = []
        block_m, _, block_k = self.tile
        if block_m < self.micro[0]:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile}: M {block_m} is below the micro tile's {self.micro[0]} rows",
                )
            )
        if problem.dtype is I8 and block_k > EXACT_DEPTH:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile}: a float32 sum of {block_k} products of int8 is not exact; "
                    f"2^24 / 2^14 = {EXACT_DEPTH} are",
                )
            )
        workspace = self.workspace_bytes(problem)
        if workspace > WORKSPACE_BYTES:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {workspace} bytes of workspace a thread; {WORKSPACE_BYTES} "
                    f"are allowed",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = [str(self.tile)]
        if self.micro != Tile((8, 8)):
            words.append(f"r{self.micro}")
        if self.unroll != 4:
            words.append(f"u{self.unroll}")
        return words

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Gemm, target: CpuTarget) -> Iterator[PackedGemm]:
        lanes = lanes_of(problem, target)
        units = (1, 2, 3, 4) if is_vector(target) else (4, 8, 16, 32)
        micros = [(rows, lanes * unit) for rows in (4, 6, 8, 12) for unit in units]
        for (rows, width), depth, cols in itertools.product(
            micros, (256, 384, 512), (192, 256, 384)
        ):
            yield cls(Tile((400 * rows, cols // width * width, depth)), Tile((rows, width)))


def is_vector(target: CpuTarget) -> bool:
    """Whether kernels for the target are written with vectors of its width."""
    return bool(target.features) or target.machine != "any"


def lanes_of(problem: Gemm, target: CpuTarget) -> int:
    """Elements of a vector of the type that is multiplied; 1 where no vector is assumed."""
    if not is_vector(target):
        return 1
    return target.vector_bytes // MULTIPLIED[problem.dtype].bytes


def _default_micro(size: int, target: CpuTarget) -> Tile:
    if not is_vector(target):
        return Tile((8, 8)) if size == 4 else Tile((8, 4))
    lanes = target.vector_bytes // size
    if target.machine == "aarch64":
        return Tile((8, 2 * lanes))
    return Tile((6, 4 * lanes)) if target.vector_registers >= 32 else Tile((4, 3 * lanes))
