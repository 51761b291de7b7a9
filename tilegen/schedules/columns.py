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

    def shared_bytes(self, problem: FormulaProblem) -> int:
        """Shared memory of a block in bytes: one value a thread and column for each type of result."""
        kinds = {r.dtype for r in problem.program("nothing").reductions}
        return sum(k.bytes for k in kinds) * self.threads * vector(problem)

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        broken = positive("across", self.across, 1, 128, power=True)
        broken += positive("threads", self.threads, 32, target.threads_block, power=True)
        if not broken and self.across > self.threads:
            broken.append(
                Violation(
                    "across",
                    f"across {self.across} is more than the {self.threads} threads of a block",
                )
            )
        needed = self.shared_bytes(problem)
        if not broken and needed > target.shared_default:
            broken.append(
                Violation(
                    "threads",
                    f"{self.threads} threads need {needed} bytes of static shared memory; a block may have "
                    f"{target.shared_default}",
                )
            )
        return broken

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
        512,
        "Columns of a chunk; their sums stay in the first-level cache.",
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
        """Chunks of 512 columns."""
        return cls()

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        broken = positive("chunk", self.chunk, 16, 4096, power=True)
        return broken + positive("serial", self.serial, 0, 1 << 30)

    def tokens(self) -> list[str]:
        words = [f"c{self.chunk}"]
        return words + ([f"s{self.serial}"] if self.serial != 32768 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.chunk,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CpuTarget) -> Iterator[ColumnLoops]:
        for chunk in (64, 128, 256, 512, 1024):
            yield cls(chunk)
