"""The plan of RowRegisters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.memory_bound import ACCESS_BYTES, vector, whole_operands
from tilegen.schedules.rowwise import CUT, RING_THREADS, Ring, RowRegisters, held_bytes, kept_bytes
from tilegen.schedules.rowwise import kept_vectors
from tilegen.schedules.rowwise import ring_resident, slot_bytes, slot_packs
from tilegen.targets import CudaTarget

# Rows that are too few for the fewest threads that hold one, and columns up to which the most threads share each.
FEW_ROWS = 256
FEW_COLUMNS = 4096
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
        keeping: blocks of a multiprocessor that keep what such rows cross; 0 if they are too large.
    """

    threads: int
    columns: int
    block: int
    attributes: str
    askew: str
    keeping: int


def _rung(
    threads: int, block: int, values: int, registers: int, keeping: int, target: CudaTarget
) -> Rung:
    """Kernels get as many registers as they are estimated to need, so that as many blocks as possible run at once.

    Ends of rows are asked to make do with less than their estimate, which says what is legal: compilers reuse the
    registers of whole packs for them.
    """
    needs = (registers - CUT, registers - CUT + ENDS)
    resident = [max(1, target.registers_sm // (block * need)) for need in needs]
    bounds = [f"__launch_bounds__({block}, {blocks})" for blocks in resident]
    return Rung(threads, threads * values, block, *bounds, resident[1] if block <= keeping else 0)


# Bytes of a block's shared memory for vectors that its rows cross.
KEEPING_BYTES = 32768


def _keeping(problem: FormulaProblem, schedule: RowRegisters) -> int:
    """Threads of a block whose packs of the vectors that all rows read fit in so many bytes; 0 for less than two.

    One vector is read again for less than it costs that blocks take rows in turn.
    """
    size = schedule.values * kept_bytes(problem)
    return KEEPING_BYTES // size if len(kept_vectors(problem)) > 1 else 0


def _few_values(problem: FormulaProblem, schedule: RowRegisters) -> int:
    """Elements that a thread holds of a row that as many threads as possible share; 0 where it holds no more anyway.

    What takes one pass waits for memory once.
    """
    few = max(vector(problem), FEW_COLUMNS // schedule.longest)
    gains = len(problem.program("compact").passes) > 1 and _cuts(problem)
    return few if gains and few < schedule.values and schedule.longest > 32 else 0


def _cuts(problem: FormulaProblem) -> bool:
    """Whether rows that do not start on whole packs are whole packs but for their ends."""
    return bool(whole_operands(problem)) and len(problem.along) == 1 and vector(problem) > 1


@dataclass(frozen=True)
class RowRegistersPlan(FormulaPlan):
    """Numbers of `templates/cuda/rowwise.cu.j2`."""

    values: int
    vector: int
    few_rows: int
    few_values: int
    keeping: int
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
    keeps: int
    kept_slots: int
    kept_columns: int
    kept_bytes: int
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
        keeping = _keeping(problem, schedule)
        rungs = [_rung(t, block, schedule.values, need, keeping, target) for t, block in shared]
        rings = schedule.rings(problem, target)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            values=schedule.values,
            vector=vector(problem),
            few_rows=FEW_ROWS,
            few_values=_few_values(problem, schedule),
            keeping=keeping,
            threads=schedule.threads,
            longest=schedule.longest,
            long_block=max(schedule.longest, schedule.threads),
            partial_slots=max(32, rungs[-1].threads // 32),
            cuts=int(_cuts(problem)),
            waves=schedule.waves,
            rungs=tuple(rungs),
            rings=rings,
            ring_threads=RING_THREADS,
            ring_resident=ring_resident(problem),
            ring_clusters=int(any(r.blocks > 1 for r in rings)),
            ring_from=rungs[-1].columns,
            keeps=int(any(r.keeps for r in rings)),
            kept_slots=schedule.kept_slots(problem, target) if rings else 0,
            kept_columns=schedule.kept_columns(problem, target),
            kept_bytes=schedule.kept_columns(problem, target) * kept_bytes(problem),
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
        facts = [Fact("blocks a row", blocks, f"columns; {held}")]
        if self.keeps:
            beside = f"of vectors beside {self.kept_slots} slots, for {self.kept_columns} columns of a block"
            facts.append(Fact("kept", f"{self.kept_bytes} bytes", beside))
        return facts

    def description(self) -> str:
        s = self.schedule
        return f"{s.values} elements a thread, {s.rungs()[0]} to {s.longest} threads a row"
