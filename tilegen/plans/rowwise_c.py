"""The plan of RowLoops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan, loop_features
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.rowwise_c import STACK_BYTES, RowLoops
from tilegen.targets import CpuTarget

# Columns whose sum is taken by itself: more would cost accuracy, fewer time to add up vectors.
STRETCH = 4096

# Parts of a row that threads share: a multiple of most numbers of cores, so that shares are alike.
PARTS = 96
# Columns of which a part has a whole number: whole cache lines.
BLOCK = 64

# Columns for which memory is asked at a time. Where passes compute much, as many lines as a processor has requests
# under way; elsewhere more, since adding up vectors after each of them would take longer than the elements.
AHEAD_COSTLY, AHEAD = 256, 512

# Columns that are stored at a time where results go to the caches: less often begun and ended.
CACHED = 512


@dataclass(frozen=True)
class RowLoopsPlan(FormulaPlan):
    """Numbers of `templates/c_openmp/rowwise.c.j2`."""

    chunk: int
    cached: int
    stretch: int
    ahead: int
    row_buffer: int
    row_parts: int
    part_block: int
    serial: int
    stream_bytes: int
    clang_features: str
    gcc_features: str
    short_program: Program
    long_program: Program

    template: ClassVar[str] = "c_openmp/rowwise.c.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"short_program", "long_program"})

    @classmethod
    def make(cls, problem: FormulaProblem, schedule: RowLoops, target: CpuTarget) -> RowLoopsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        clang, gcc = loop_features(target)
        costly = any(p.is_costly for p in problem.program().passes)
        outputs = [t for t in problem.tensors() if t.is_written and problem.along[-1] in t.dims]
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            chunk=schedule.chunk,
            cached=max(CACHED, schedule.chunk),
            stretch=STRETCH,
            ahead=AHEAD_COSTLY if costly else AHEAD,
            row_buffer=schedule.row_buffer,
            row_parts=PARTS,
            part_block=BLOCK,
            serial=schedule.serial,
            # Results of several outputs are written beside as many inputs: they leave the caches sooner.
            stream_bytes=schedule.stream_bytes // max(1, len(outputs)),
            clang_features=clang,
            gcc_features=gcc,
            short_program=problem.program("costly" if len(problem.along) == 1 else "nothing"),
            long_program=problem.program("nothing"),
        )

    def facts(self) -> list[Fact]:
        stack = self.schedule.stack_bytes(self.problem)
        return [
            Fact(
                "passes",
                str(len(self.short_program.passes)),
                "reductions that depend on each other",
            ),
            Fact("chunk", f"{self.chunk} columns", "computed before they go past the caches"),
            Fact("stack", f"{stack} bytes a thread", f"{STACK_BYTES} may be taken"),
        ]

    def description(self) -> str:
        return f"a thread a row, chunks of {self.chunk} columns"
