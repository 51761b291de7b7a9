"""Schedules of permuting formulas: TileRegisters for CUDA, TileLoops for OpenMP C."""

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

# Registers of a thread for addresses and the element at work.
OVERHEAD = 40


def crossed_operands(problem: FormulaProblem) -> list[str]:
    """Inputs along whose last index the outputs do not run."""
    last = problem.family.order[-1]
    return [t.name for t in problem.tensors() if last in t.dims[:-1]]


@dataclass(frozen=True)
class TileRegisters(FormulaSchedule):
    """A thread turns a square in its registers: it reads along one index and writes along the other."""

    square: int = option(
        0,
        "Side of a thread's square; 0 for 16 bytes of the widest array with every index.",
        kind=int,
        unit="elements",
    )
    threads: Tile = option(
        Tile((8, 32)),
        "Threads of a block, along the index read and along the index written.",
        kind=Tile,
        unit="read x written threads",
    )
    waves: int = option(
        16,
        "Blocks launched per multiprocessor, at most; a block then takes several tiles.",
        kind=int,
    )

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "squares"
    family: ClassVar[str] = PERMUTE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> TileRegisters:
        """Squares of whole accesses, smaller ones where registers would not hold every crossed input."""
        side = vector(problem)
        while side > 1 and cls(square=side).violations(problem, target):
            side //= 2
        return cls(square=side)

    def registers(self, problem: FormulaProblem) -> int:
        """Estimate of a thread's registers: a square of every crossed input, a line of all else."""
        crossed = crossed_operands(problem)
        held = sum(t.dtype.bytes for t in problem.tensors() if t.name in crossed)
        line = sum(t.dtype.bytes for t in problem.tensors())
        return (self.square**2 * held + self.square * line) // 4 + OVERHEAD

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        broken = positive("square", self.square, 1, 16, power=True)
        broken += positive("waves", self.waves, 1, 1024)
        count = self.threads[0] * self.threads[1] if len(self.threads) == 2 else 0
        if not 32 <= count <= target.threads_block or count % 32:
            broken.append(
                Violation(
                    "threads",
                    f"threads {self.threads} must be two extents with a product from 32 to "
                    f"{target.threads_block} in warps of 32",
                )
            )
        if broken:
            return broken
        needed = self.registers(problem)
        allowed = min(target.registers_thread, target.registers_sm // count)
        if needed > allowed:
            broken.append(
                Violation(
                    "square",
                    f"squares of {self.square} need about {needed} registers; {target} gives {allowed} "
                    f"to each of {count} threads",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = [f"q{self.square}"]
        words += [f"t{self.threads}"] if self.threads != Tile((8, 32)) else []
        return words + ([f"w{self.waves}"] if self.waves != 16 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.threads[0] * self.square, self.threads[1] * self.square)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[TileRegisters]:
        blocks = [Tile(t) for t in ((4, 8), (4, 32), (8, 16), (8, 32), (16, 16), (4, 64), (16, 32))]
        for square, threads, waves in itertools.product((1, 2, 4, 8), blocks, (4, 8, 16, 32)):
            yield cls(square, threads, waves)


@dataclass(frozen=True)
class TileLoops(FormulaSchedule):
    """Threads share tiles; a tile is turned in the first-level cache and stored line by line."""

    tile: Tile = option(
        Tile((32, 64)),
        "Tile along the index read and along the index written; its inputs stay in the first-level cache.",
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
        """Tiles of 32 x 64 elements."""
        return cls()

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        if len(self.tile) != 2 or max(self.tile) > 256:
            return [Violation("tile", f"tile {self.tile} must be two extents of at most 256")]
        broken = positive("serial", self.serial, 0, 1 << 30)
        broken += positive("stream_bytes", self.stream_bytes, 0, (1 << 31) - 1)
        crossed = crossed_operands(problem)
        held = sum(t.dtype.bytes for t in problem.tensors() if t.name in crossed)
        needed = self.tile[0] * self.tile[1] * held
        if needed > 131072:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {needed} bytes of a thread's stack, of which 131072 may be "
                    "taken",
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
            for t in ((16, 32), (16, 64), (32, 32), (32, 64), (64, 64), (32, 128), (16, 128))
        ]
        for tile, stream in itertools.product(tiles, (1 << 19, 1 << 20, 1 << 23)):
            yield cls(tile, 32768, stream)
