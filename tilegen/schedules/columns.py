"""Schedules of formulas that reduce over indices before the last: ColumnBlocks and ColumnLoops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.families import COLUMNS
from tilegen.problems.formula import FormulaProblem
from tilegen.schedules.base import Violation
from tilegen.schedules.memory_bound import FormulaSchedule, positive, vector
from tilegen.targets import CpuTarget, CudaTarget


def shared_bytes(problem: FormulaProblem, threads: int) -> int:
    """Shared memory of a block in bytes: one value a thread and column for each type of result."""
    kinds = {r.dtype for r in problem.program("nothing").reductions}
    return sum(k.bytes for k in kinds) * threads * vector(problem)


def block_violations(
    across: int, threads: int, problem: FormulaProblem, target: CudaTarget
) -> list[Violation]:
    """What stands against blocks of so many threads, so many of them side by side."""
    broken = positive("across", across, 1, 128, power=True)
    broken += positive("threads", threads, 32, target.threads_block, power=True)
    if not broken and across > threads:
        broken.append(
            Violation("across", f"across {across} is more than the {threads} threads of a block")
        )
    needed = shared_bytes(problem, threads)
    if not broken and needed > target.shared_default:
        broken.append(
            Violation(
                "threads",
                f"{threads} threads need {needed} bytes of static shared memory; a block may have "
                f"{target.shared_default}",
            )
        )
    return broken


@dataclass(frozen=True)
class ColumnParts(FormulaSchedule):
    """Blocks reduce parts of some columns; a second kernel combines the parts."""

    across: int = option(
        32,
        "Threads side by side; more make longer accesses and fewer blocks.",
        kind=int,
        unit="threads",
    )
    threads: int = option(256, "Threads of a block.", kind=int, unit="threads")
    blocks: int = option(
        528,
        "Blocks that columns are cut for where they are few; the same on every device, so that results are too.",
        kind=int,
        unit="blocks",
    )
    least: int = option(4, "Steps of a thread in a part, at least.", kind=int, unit="steps")

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "column_parts"
    family: ClassVar[str] = COLUMNS

    @classmethod
    def accepts(cls, problem: FormulaProblem, target: CudaTarget) -> Violation | None:
        """None for a formula of one pass: nothing along the reduced indices needs a result of theirs."""
        refusal = super().accepts(problem, target)
        if refusal is not None:
            return refusal
        passes = len(problem.program("nothing").passes)
        if passes == 1:
            return None
        return Violation(
            "formula", f"computes formulas of one pass over the columns, and this takes {passes}"
        )

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> ColumnParts:
        """Whole lines of 512 bytes, eight of them at a time, fewer where shared memory ends."""
        for threads in (256, 128):
            if not cls(threads=threads).violations(problem, target):
                return cls(threads=threads)
        return cls(threads=64)

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        broken = block_violations(self.across, self.threads, problem, target)
        broken += positive("blocks", self.blocks, 1, 65535)
        return broken + positive("least", self.least, 1, 1024)

    def tokens(self) -> list[str]:
        words = [f"p{self.across}x{self.threads // self.across}"]
        words += [f"b{self.blocks}"] if self.blocks != 528 else []
        return words + ([f"l{self.least}"] if self.least != 4 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.threads // self.across, self.across)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[ColumnParts]:
        grid = itertools.product((8, 16, 32, 64), (128, 256, 512), (264, 396, 528, 1056), (2, 4, 8))
        for across, threads, blocks, least in grid:
            yield cls(across, threads, blocks, least)


@dataclass(frozen=True)
class ColumnBlocks(FormulaSchedule):
    """A block reduces some columns; rows of its threads share the steps."""

    across: int = option(
        8,
        "Threads side by side; more make longer accesses and fewer blocks.",
        kind=int,
        unit="threads",
    )
    threads: int = option(512, "Threads of a block.", kind=int, unit="threads")

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "columns"
    family: ClassVar[str] = COLUMNS

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> ColumnBlocks:
        """Whole lines of 128 bytes, 64 of them at a time, fewer where shared memory ends."""
        for threads in (512, 256, 128):
            if not cls(threads=threads).violations(problem, target):
                return cls(threads=threads)
        return cls(threads=64)

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        return block_violations(self.across, self.threads, problem, target)

    def tokens(self) -> list[str]:
        return [f"{self.across}x{self.threads // self.across}"]

    def tile_extents(self) -> tuple[int, ...]:
        return (self.threads // self.across, self.across)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[ColumnBlocks]:
        for across, threads in itertools.product((4, 8, 16, 32), (64, 128, 256, 512, 1024)):
            yield cls(across, threads)


@dataclass(frozen=True)
class ColumnLoops(FormulaSchedule):
    """Threads share chunks of columns; a step is a vector loop over the chunk."""

    chunk: int = option(
        4096,
        "Columns of a chunk, at most; their sums stay in the first-level cache.",
        kind=int,
        unit="elements",
    )
    serial: int = option(
        32768, "Elements that are too few for more than one thread.", kind=int, unit="elements"
    )

    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "columns"
    family: ClassVar[str] = COLUMNS

    @classmethod
    def default(cls, problem: FormulaProblem, target: CpuTarget) -> ColumnLoops:
        """Chunks of 4096 columns, or of fewer where a column has several sums."""
        sums = sum(r.dtype.bytes for r in problem.program("nothing").reductions)
        chunk = 4096
        while chunk * sums > 16384 and chunk > 64:
            chunk //= 2
        return cls(chunk=chunk)

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        broken = positive("chunk", self.chunk, 64, 4096, power=True)
        return broken + positive("serial", self.serial, 0, 1 << 30)

    def tokens(self) -> list[str]:
        words = [f"c{self.chunk}"]
        return words + ([f"s{self.serial}"] if self.serial != 32768 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.chunk,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CpuTarget) -> Iterator[ColumnLoops]:
        for chunk in (256, 512, 1024, 2048, 4096):
            yield cls(chunk)
