"""The plan of RowRegisters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.memory_bound import vector
from tilegen.schedules.rowwise import CUT, RowRegisters, held_bytes
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class Rung:
    """Rows up to `columns` long are shared by `threads` threads.

    Attributes:
        threads: threads that share a row.
        columns: the longest row that they hold.
        block: threads of a block.
        blocks: blocks that share a row.
        attributes: of its kernel for whole packs.
        askew: of its kernel for other rows.
    """

    threads: int
    columns: int
    block: int
    blocks: int
    attributes: str
    askew: str


def _rung(threads: int, block: int, values: int, registers: int, target: CudaTarget) -> Rung:
    """Kernels get as many registers as they are estimated to need, so that as many blocks as possible run at once."""
    blocks = max(1, threads // block)
    cluster = f" __cluster_dims__({blocks}, 1, 1)" if blocks > 1 else ""
    bounds = [
        f"__launch_bounds__({block}, {max(1, target.registers_sm // (block * need))}){cluster}"
        for need in (registers - CUT, registers)
    ]
    return Rung(threads, threads * values, block, blocks, *bounds)


@dataclass(frozen=True)
class RowRegistersPlan(FormulaPlan):
    """Numbers of `templates/cuda/rowwise.cu.j2`."""

    values: int
    vector: int
    threads: int
    longest: int
    partial_slots: int
    clusters: tuple[int, ...]
    cuts: int
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
        short = problem.program("compact")
        # What takes one pass reads its row once, however long: blocks need not share it.
        clusters = schedule.clusters(target) if len(short.passes) > 1 else ()
        shared = [(t, max(t, schedule.threads)) for t in schedule.rungs()]
        shared += [(b * schedule.longest, schedule.longest) for b in clusters]
        need = schedule.registers(problem)
        rungs = [_rung(t, block, schedule.values, need, target) for t, block in shared]
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            values=schedule.values,
            vector=vector(problem),
            threads=schedule.threads,
            longest=schedule.longest,
            partial_slots=max(32, rungs[-1].threads // 32),
            clusters=clusters,
            cuts=int(len(problem.along) == 1 and vector(problem) > 1),
            waves=schedule.waves,
            rungs=tuple(rungs),
            short_program=short,
            long_program=problem.program("nothing"),
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
