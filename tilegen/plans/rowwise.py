"""The plan of RowRegisters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.memory_bound import vector
from tilegen.schedules.rowwise import RowRegisters, held_bytes
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class Rung:
    """Rows up to `columns` long are shared by `threads` threads.

    Attributes:
        threads: threads that share a row.
        columns: the longest row that they hold.
        block: threads of a block.
        rows: rows that a block works on at a time.
    """

    threads: int
    columns: int
    block: int
    rows: int


@dataclass(frozen=True)
class RowRegistersPlan(FormulaPlan):
    """Numbers of `templates/cuda/rowwise.cu.j2`."""

    values: int
    vector: int
    threads: int
    long_threads: int
    waves: int
    rungs: tuple[Rung, ...]
    short_program: Program
    long_program: Program

    template: ClassVar[str] = "cuda/rowwise.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"short_program", "long_program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: RowRegisters, target: CudaTarget
    ) -> RowRegistersPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        rungs = []
        for threads in schedule.rungs():
            block = max(threads, schedule.threads)
            rungs.append(Rung(threads, threads * schedule.values, block, block // threads))
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            values=schedule.values,
            vector=vector(problem),
            threads=schedule.threads,
            long_threads=schedule.longest,
            waves=schedule.waves,
            rungs=tuple(rungs),
            short_program=problem.program(),
            long_program=problem.program(keep=False),
        )

    def facts(self) -> list[Fact]:
        held = held_bytes(self.short_program, self.problem)
        ladder = ", ".join(f"{r.threads} to {r.columns}" for r in self.rungs)
        return [
            Fact(
                "passes",
                str(len(self.short_program.passes)),
                "reductions that depend on each other",
            ),
            Fact(
                "vector", f"{self.vector} elements", "16 bytes of the widest array with every index"
            ),
            Fact("threads a row", ladder, "columns; longer rows are read again in every pass"),
            Fact(
                "held",
                f"{held * self.values} bytes a thread",
                f"{held} bytes for each of {self.values}",
            ),
        ]

    def description(self) -> str:
        s = self.schedule
        return f"{s.values} elements a thread, {s.rungs()[0]} to {s.longest} threads a row"
