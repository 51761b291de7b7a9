"""The plan of RowRegisters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.memory_bound import ACCESS_BYTES, vector, whole_operands
from tilegen.schedules.rowwise import CUT, RING_THREADS, RowRegisters, held_bytes
from tilegen.schedules.rowwise import ring_resident, slot_bytes, slot_packs
from tilegen.targets import CudaTarget

# Registers of a thread that the ends of rows get.
ENDS = 16


@dataclass(frozen=True)
class Rung:
    """Rows up to `columns` long are shared by `threads` threads.

    Attributes:
        threads: threads that share a row.
        columns: the longest row that they hold.
        block: threads of a block.
        attributes: of its kernel for whole packs.
        askew: of its kernel for other rows.
    """

    threads: int
    columns: int
    block: int
    attributes: str
    askew: str


def _rung(threads: int, block: int, values: int, registers: int, target: CudaTarget) -> Rung:
    """Kernels get as many registers as they are estimated to need, so that as many blocks as possible run at once.

    Ends of rows are asked to make do with less than their estimate, which says what is legal: compilers reuse the
    registers of whole packs for them.
    """
    bounds = [
        f"__launch_bounds__({block}, {max(1, target.registers_sm // (block * need))})"
        for need in (registers - CUT, registers - CUT + ENDS)
    ]
    return Rung(threads, threads * values, block, *bounds)


@dataclass(frozen=True)
class Ring:
    """Rows up to `columns` long are shared by the rings of `blocks` blocks."""

    blocks: int
    columns: int


@dataclass(frozen=True)
class RowRegistersPlan(FormulaPlan):
    """Numbers of `templates/cuda/rowwise.cu.j2`."""

    values: int
    vector: int
    threads: int
    longest: int
    long_block: int
    partial_slots: int
    cuts: int
    waves: int
    rungs: tuple[Rung, ...]
    rings: tuple[Ring, ...]
    ring_threads: int
    ring_resident: int
    ring_clusters: int
    ring_from: int
    slots: int
    slot_packs: int
    slot_bytes: int
    element_bytes: int
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
        shared = [(t, max(t, schedule.threads)) for t in schedule.rungs()]
        need = schedule.registers(problem)
        rungs = [_rung(t, block, schedule.values, need, target) for t, block in shared]
        rings = schedule.rings(problem, target)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            values=schedule.values,
            vector=vector(problem),
            threads=schedule.threads,
            longest=schedule.longest,
            long_block=max(schedule.longest, schedule.threads),
            partial_slots=max(32, rungs[-1].threads // 32),
            cuts=int(
                bool(whole_operands(problem)) and len(problem.along) == 1 and vector(problem) > 1
            ),
            waves=schedule.waves,
            rungs=tuple(rungs),
            rings=tuple(Ring(*r) for r in rings),
            ring_threads=RING_THREADS,
            ring_resident=ring_resident(problem),
            ring_clusters=int(len(rings) > 1),
            ring_from=rungs[-1].columns,
            slots=schedule.ring_slots(problem, target),
            slot_packs=slot_packs(problem),
            slot_bytes=slot_bytes(problem),
            element_bytes=ACCESS_BYTES // vector(problem),
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
            Fact("threads a row", ladder, "columns"),
            *self._ring_facts(),
            Fact(
                "held",
                f"{held * self.values} bytes a thread",
                f"{held} bytes for each of {self.values}",
            ),
        ]

    def _ring_facts(self) -> list[Fact]:
        if not self.rings:
            return []
        blocks = ", ".join(f"{r.blocks} to {r.columns}" for r in self.rings)
        held = f"{self.slots} slots of {self.slot_bytes} bytes in each block's shared memory"
        return [Fact("blocks a row", blocks, f"columns; {held}")]

    def description(self) -> str:
        s = self.schedule
        return f"{s.values} elements a thread, {s.rungs()[0]} to {s.longest} threads a row"
