"""Schedules of permuting formulas: TileShared for CUDA, TileLoops for OpenMP C."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.families import PERMUTE
from tilegen.problems.formula import FormulaProblem
from tilegen.schedules.base import Violation
from tilegen.schedules.memory_bound import FormulaSchedule, positive, vector
from tilegen.targets import CpuTarget, CudaTarget
from tilegen.values import Tile

# What a thread's stack surely has room for.
STACK_BYTES = 131072

# Elements between lines of a tile beyond its extent.
PITCH = 16


def crossed_operands(problem: FormulaProblem) -> list[str]:
    """Inputs along whose last index the outputs do not run."""
    last = problem.family.order[-1]
    return [t.name for t in problem.tensors() if last in t.dims[:-1]]


def crossed_bytes(problem: FormulaProblem) -> list[int]:
    """Bytes of an element of each of these."""
    crossed = crossed_operands(problem)
    return [t.dtype.bytes for t in problem.tensors() if t.name in crossed]


@dataclass(frozen=True)
class TileShared(FormulaSchedule):
    """A block reads a tile along one index into shared memory and writes it along the other."""

    tile: int = option(
        64,
        "Side of a tile; larger ones make longer lines and fewer resident blocks.",
        kind=int,
        unit="elements",
    )
    threads: int = option(
        128,
        "Threads of a block; fewer have more accesses under way each.",
        kind=int,
        unit="threads",
    )

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "tiles"
    family: ClassVar[str] = PERMUTE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> TileShared:
        """Tiles of 64 x 64, smaller where shared memory would not hold every crossed input; for halves more threads."""
        made = cls(threads=256) if min(crossed_bytes(problem)) == 2 else cls()
        for smaller in (cls(threads=256), cls(tile=32, threads=64)):
            made = smaller if made.violations(problem, target) else made
        return made

    def shared_bytes(self, problem: FormulaProblem) -> int:
        """Shared memory of a block in bytes: a tile of every crossed input."""
        return self.tile**2 * sum(crossed_bytes(problem))

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        broken = positive("tile", self.tile, 16, 128, power=True)
        broken += positive("threads", self.threads, 32, target.threads_block, power=True)
        if broken:
            return broken
        wide = vector(problem)
        if self.tile < wide or self.tile**2 % (self.threads * wide):
            broken.append(
                Violation(
                    "tile",
                    f"{self.threads} threads cannot share a tile of {self.tile} x {self.tile} elements in "
                    f"accesses of {wide}",
                )
            )
        needed = self.shared_bytes(problem)
        if needed > target.shared_default:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {needed} bytes of static shared memory; a block may have "
                    f"{target.shared_default}",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = [str(self.tile)]
        return words + ([f"t{self.threads}"] if self.threads != 128 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.tile, self.tile)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[TileShared]:
        for tile, threads in itertools.product((32, 64, 128), (32, 64, 128, 256, 512)):
            yield cls(tile, threads)


@dataclass(frozen=True)
class TileLoops(FormulaSchedule):
    """Threads share tiles; a tile is turned in the first-level cache and stored line by line."""

    tile: Tile = option(
        Tile((128, 64)),
        "Tile along the index read and along the index written; its inputs stay in the nearest caches.",
        kind=Tile,
        unit="read x written elements",
    )
    serial: int = option(
        32768, "Elements that are too few for more than one thread.", kind=int, unit="elements"
    )
    stream_bytes: int = option(
        1048576,
        "Size of the results from which on they are stored past the caches; smaller ones stay for their reader.",
        kind=int,
        unit="bytes",
    )

    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "tiles"
    family: ClassVar[str] = PERMUTE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CpuTarget) -> TileLoops:
        """Tiles of 128 x 64 elements, or of fewer where several inputs are turned at once."""
        read = 128
        while read > 16 and cls(Tile((read, 64))).stack_bytes(problem) > STACK_BYTES // 2:
            read //= 2
        return cls(Tile((read, 64)))

    def stack_bytes(self, problem: FormulaProblem) -> int:
        """What a thread needs on its stack: a tile of every crossed input, a line of every output."""
        outputs = sum(t.dtype.bytes for t in problem.tensors() if t.is_written)
        lines = self.tile[0] * (self.tile[1] + PITCH) * sum(crossed_bytes(problem))
        return lines + self.tile[1] * outputs

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        if len(self.tile) != 2 or max(self.tile) > 1024:
            return [Violation("tile", f"tile {self.tile} must be two extents of at most 1024")]
        broken = positive("serial", self.serial, 0, 1 << 30)
        broken += positive("stream_bytes", self.stream_bytes, 0, (1 << 31) - 1)
        needed = self.stack_bytes(problem)
        if needed > STACK_BYTES:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {needed} bytes of a thread's stack, of which {STACK_BYTES} may "
                    "be taken",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = [str(self.tile)]
        words += [f"s{self.serial}"] if self.serial != 32768 else []
        return words + ([f"n{self.stream_bytes}"] if self.stream_bytes != 1048576 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CpuTarget) -> Iterator[TileLoops]:
        tiles = [
            Tile(t)
            for t in ((32, 64), (64, 64), (128, 64), (256, 64), (32, 256), (64, 128), (128, 128))
        ]
        for tile, stream in itertools.product(tiles, (1 << 19, 1 << 20, 1 << 23)):
            yield cls(tile, 32768, stream)
