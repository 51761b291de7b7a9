"""RowLoops: rows of a formula with reductions, a thread a row, vector loops along it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.families import ROWWISE
from tilegen.problems.formula import FormulaProblem
from tilegen.schedules.base import Violation
from tilegen.schedules.memory_bound import FormulaSchedule, positive
from tilegen.targets import CpuTarget

# What a thread's stack surely has room for.
STACK_BYTES = 1 << 19


@dataclass(frozen=True)
class RowLoops(FormulaSchedule):
    """Threads share the rows, or the parts of long ones; passes after the first find a row in the cache."""

    chunk: int = option(
        128,
        "Columns that are computed before they go past the caches: few enough for stores to go on meanwhile.",
        kind=int,
        unit="elements",
    )
    row_buffer: int = option(
        65536,
        "Longest row that a thread takes by itself, keeping intermediate values; longer ones are cut into parts, "
        "which threads share where rows are fewer than they, and values are computed again.",
        kind=int,
        unit="elements",
    )
    serial: int = option(
        32768, "Elements that are too few for more than one thread.", kind=int, unit="elements"
    )
    stream_bytes: int = option(
        33554432,
        "Size of the results from which on they are stored past the caches, of several outputs a half, a third ...; "
        "smaller ones stay for their reader.",
        kind=int,
        unit="bytes",
    )

    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "rows"
    family: ClassVar[str] = ROWWISE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CpuTarget) -> RowLoops:
        """Chunks of 128 columns, and rows of up to 65536 floats kept, or what fits on a stack of that."""
        kept = max(1, sum(len(p.kept) for p in problem.program().passes))
        return cls(row_buffer=65536 * 4 // (kept * problem.typed.compute.bytes))

    def stack_bytes(self, problem: FormulaProblem) -> int:
        """What a thread needs on its stack: kept values, and a chunk of every output."""
        program = problem.program()
        kept = sum(len(p.kept) for p in program.passes)
        outputs = sum(t.dtype.bytes for t in problem.tensors() if t.is_written)
        return kept * self.row_buffer * problem.typed.compute.bytes + outputs * self.chunk

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        broken = positive("chunk", self.chunk, 64, 65536, power=True)
        broken += positive("row_buffer", self.row_buffer, 1, 1 << 20)
        broken += positive("serial", self.serial, 0, 1 << 30)
        broken += positive("stream_bytes", self.stream_bytes, 0, (1 << 31) - 1)
        needed = self.stack_bytes(problem)
        if not broken and needed > STACK_BYTES:
            broken.append(
                Violation(
                    "row_buffer",
                    f"row_buffer {self.row_buffer} and chunk {self.chunk} need {needed} bytes of a thread's "
                    f"stack, of which {STACK_BYTES} may be taken",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        made = [f"c{self.chunk}"] if self.chunk != 128 else []
        if self.row_buffer not in (65536, 32768, 21845, 16384, 10922, 8192):
            made.append(f"b{self.row_buffer}")
        if self.serial != 32768:
            made.append(f"s{self.serial}")
        if self.stream_bytes != 33554432:
            made.append(f"n{self.stream_bytes}")
        return made

    def tile_extents(self) -> tuple[int, ...]:
        return (self.chunk,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CpuTarget) -> Iterator[RowLoops]:
        grid = itertools.product(
            (64, 128, 256, 512), (4096, 16384, 65536), (1 << 23, 1 << 25, 1 << 27)
        )
        for chunk, row_buffer, stream_bytes in grid:
            yield cls(chunk, row_buffer, 32768, stream_bytes)
