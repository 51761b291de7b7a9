"""Schedules of formulas that reduce over every index: FullParts for CUDA, FullLoops for OpenMP C."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.families import FULL
from tilegen.problems.formula import FormulaProblem
from tilegen.schedules.base import Violation
from tilegen.schedules.memory_bound import FormulaSchedule, positive
from tilegen.targets import CpuTarget, CudaTarget


@dataclass(frozen=True)
class FullParts(FormulaSchedule):
    """Blocks leave partial results in the workspace; one more block combines them, in order."""

    threads: int = option(512, "Threads of a block.", kind=int, unit="threads")
    steps: int = option(
        2, "Accesses of a thread that are under way together.", kind=int, unit="accesses"
    )
    parts: int = option(
        1056,
        "Partial results, at most; the same on every device, so that results are too.",
        kind=int,
        unit="blocks",
    )

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "parts"
    family: ClassVar[str] = FULL

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> FullParts:
        """Two accesses of every operand under way."""
        return cls()

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        broken = positive("threads", self.threads, 64, target.threads_block, power=True)
        broken += positive("steps", self.steps, 1, 16, power=True)
        return broken + positive("parts", self.parts, 1, 65535)

    def tokens(self) -> list[str]:
        words = [f"x{self.steps}"]
        words += [f"t{self.threads}"] if self.threads != 512 else []
        return words + ([f"p{self.parts}"] if self.parts != 1056 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.threads * self.steps,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[FullParts]:
        for threads, steps, parts in itertools.product(
            (256, 512, 1024), (1, 2, 4, 8), (528, 1056, 2112)
        ):
            yield cls(threads, steps, parts)


@dataclass(frozen=True)
class FullLoops(FormulaSchedule):
    """Threads share a fixed number of parts; the partial results are combined in order."""

    chunk: int = option(4096, "Columns of one vector loop.", kind=int, unit="elements")
    parts: int = option(
        128, "Partial results; the same for any number of threads.", kind=int, unit="parts"
    )
    serial: int = option(
        32768, "Elements that are too few for more than one thread.", kind=int, unit="elements"
    )

    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "parts"
    family: ClassVar[str] = FULL

    @classmethod
    def default(cls, problem: FormulaProblem, target: CpuTarget) -> FullLoops:
        """128 parts of chunks of 4096 columns."""
        return cls()

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        broken = positive("chunk", self.chunk, 64, 1 << 20, power=True)
        broken += positive("parts", self.parts, 1, 1024)
        return broken + positive("serial", self.serial, 0, 1 << 30)

    def tokens(self) -> list[str]:
        words = [f"c{self.chunk}"] if self.chunk != 4096 else []
        words += [f"p{self.parts}"] if self.parts != 128 else []
        return words + ([f"s{self.serial}"] if self.serial != 32768 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.chunk,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CpuTarget) -> Iterator[FullLoops]:
        for chunk, parts in itertools.product((1024, 4096, 16384), (64, 128, 256)):
            yield cls(chunk, parts)
