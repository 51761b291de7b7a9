"""RowRegisters: rows of a formula with reductions, held in the registers of the threads that share them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.base import Tensor
from tilegen.problems.families import ROWWISE
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.base import Violation
from tilegen.schedules.memory_bound import ACCESS_BYTES, FormulaSchedule, positive, vector
from tilegen.schedules.memory_bound import whole_operands
from tilegen.targets import CudaTarget

# Threads that may share a row, shortest rows first.
LADDER = (8, 32, 128, 256, 512, 1024)
# Registers of a thread for addresses, results of reductions and the elements at work.
OVERHEAD = 48
# And for the ends of rows that do not start on whole packs.
CUT = 40

# Quarters of a ring that a block's part of a row fills, at most, and those of such parts that fit beside vectors.
PART = 3
BESIDE = 8
# Threads of a block that compute on rows in a ring.
RING_THREADS = 512
# Bytes of such a block's shared memory besides the ring, at most: barriers and partial results.
RING_STATIC = 8192


def row_inputs(problem: FormulaProblem) -> list[Tensor]:
    """Arrays that are read and have elements of their own in every row."""
    order = set(problem.family.order)
    return [t for t in problem.tensors() if t.is_read and set(t.dims) == order]


def slot_packs(problem: FormulaProblem) -> int:
    """Packs of every input that a thread reads from a slot: two, where the registers last for them.

    They do not where two blocks share them, nor for two packs each of four inputs and vectors.
    """
    packs = len(row_inputs(problem)) + len(kept_vectors(problem))
    return 2 if ring_resident(problem) == 1 and packs < 4 else 1


def slot_bytes(problem: FormulaProblem) -> int:
    """Bytes of a slot of a ring: the packs of every input for each thread."""
    return RING_THREADS * slot_packs(problem) * ACCESS_BYTES * len(row_inputs(problem))


def reads_vectors(problem: FormulaProblem) -> bool:
    """Whether rows read arrays that lie along them and are not theirs alone, such as a norm's scale."""
    order = set(problem.family.order)
    return any(problem.along[-1] in t.dims and set(t.dims) != order for t in problem.tensors())


def kept_vectors(problem: FormulaProblem) -> list[Tensor]:
    """Vectors that all rows read: a block of a ring keeps its part of them beside the ring."""
    return [t for t in problem.tensors() if t.is_read and t.dims == problem.along]


def kept_bytes(problem: FormulaProblem) -> int:
    """Bytes of these vectors for a column."""
    return sum(t.dtype.bytes for t in kept_vectors(problem))


def keeps_vectors(problem: FormulaProblem) -> bool:
    """Whether blocks with rings keep their part of these vectors: those that take no more room than the inputs do.

    More of them would leave rings so little that many blocks had to share a row, and wait for each other.
    """
    return 0 < kept_bytes(problem) <= sum(t.dtype.bytes for t in row_inputs(problem))


def ring_resident(problem: FormulaProblem) -> int:
    """Blocks with rings that a multiprocessor has at once.

    Two where every row reads vectors again from the L2 cache, so that one block computes while the other waits for
    them; their rings are half as long, for which only rows of one input are short enough.
    """
    alone = len(row_inputs(problem)) == 1
    return 2 if alone and reads_vectors(problem) and not keeps_vectors(problem) else 1


def ring_shared(problem: FormulaProblem, target: CudaTarget) -> int:
    """Bytes that a block's ring may take."""
    resident = ring_resident(problem)
    share = target.shared_sm // resident - target.shared_reserved
    return min(target.shared_block, share) - RING_STATIC


def slot_columns(problem: FormulaProblem) -> int:
    """Columns of a slot."""
    return RING_THREADS * slot_packs(problem) * vector(problem)


@dataclass(frozen=True)
class Ring:
    """Rows up to `columns` long are shared by the rings of `blocks` blocks, which keep the vectors that all rows read or not."""

    blocks: int
    columns: int
    keeps: int = 0

    @property
    def shared_bytes(self) -> str:
        """Text of the bytes of shared memory that its launch asks for."""
        return "kKeptSlots * sizeof(Slot) + sizeof(Kept)" if self.keeps else "kSlots * sizeof(Slot)"

    @property
    def name(self) -> str:
        """Of its kernel."""
        return f"ring_{self.blocks}{'_keeps' if self.keeps else ''}"


@dataclass(frozen=True)
class RowRegisters(FormulaSchedule):
    """Some threads share a row and keep it in registers; longer rows are read again in every pass."""

    values: int = option(
        32,
        "Elements of a row that a thread holds; more puts more bytes in flight and fewer threads to work.",
        kind=int,
        unit="elements",
    )
    threads: int = option(
        128,
        "Threads of a block whose rows are short; it works on several.",
        kind=int,
        unit="threads",
    )
    longest: int = option(
        512,
        "Most threads that share a row; rows they cannot hold are read again in every pass.",
        kind=int,
        unit="threads",
    )
    waves: int = option(
        1024,
        "Blocks launched per multiprocessor, at most; a block then takes several rows.",
        kind=int,
    )

    cluster: int = option(
        8,
        "Most blocks that share a row, where the target has clusters; longer rows are read again.",
        kind=int,
        unit="blocks",
    )
    slots: int = option(
        0,
        "Slots of a block's ring, through which rows travel that registers cannot hold, where the target has "
        "bulk copies; 0 for as many as shared memory has room for.",
        kind=int,
        unit="slots",
    )

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "rows"
    family: ClassVar[str] = ROWWISE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> RowRegisters:
        """32 elements a thread of rows that up to 512 threads share; fewer of both where registers end."""
        for values, longest in ((32, 512), (32, 256), (16, 256)):
            made = cls(values=max(values, vector(problem)), longest=longest)
            if not made.violations(problem, target):
                return made
        return cls(values=vector(problem), longest=128)

    def rungs(self) -> tuple[int, ...]:
        """Numbers of threads that share a row, each for rows up to that many times `values`."""
        return tuple(t for t in LADDER if t <= self.longest)

    def ring_slots(self, problem: FormulaProblem, target: CudaTarget) -> int:
        """Slots of a block's ring; 0 where rows do not travel through rings.

        They do where bulk copies exist, for formulas that take several passes over inputs of one width, which
        need 16 bytes for a thread.
        """
        inputs = row_inputs(problem)
        sizes = {t.dtype.bytes * vector(problem) for t in inputs}
        passes = len(problem.program("nothing").passes)
        if "tma" not in target.features or len(problem.along) > 1 or passes < 2:
            return 0
        if sizes != {ACCESS_BYTES}:
            return 0
        return self.slots or ring_shared(problem, target) // slot_bytes(problem)

    def rings(self, problem: FormulaProblem, target: CudaTarget) -> tuple[Ring, ...]:
        """Rings by the length of the rows that they hold; those that keep vectors hold the shorter ones.

        A quarter of a ring stays for what is next. Vectors leave it less room, so that more blocks share a row.
        """
        slots, wide = self.ring_slots(problem, target), slot_columns(problem)
        shared = [b for b in (1, 2, 4, 8) if slots and b <= self.cluster]
        kept = self.kept_columns(problem, target)
        keeping = [Ring(b, b * kept, 1) for b in shared if kept]
        longest = keeping[-1].columns if keeping else 0
        reading = [Ring(b, b * (slots * PART // 4) * wide) for b in shared]
        return (*keeping, *(r for r in reading if r.columns > longest))

    def kept_columns(self, problem: FormulaProblem, target: CudaTarget) -> int:
        """Columns of which a block keeps the vectors beside its ring: twice as many fit in the slots that are left."""
        wide, slots = slot_columns(problem), self.ring_slots(problem, target)
        vectors, keeps = kept_bytes(problem) * wide, keeps_vectors(problem)
        need = vectors + BESIDE * slot_bytes(problem) // 4
        return min(ring_shared(problem, target) // need, slots * 3 // 4) * wide if keeps else 0

    def kept_slots(self, problem: FormulaProblem, target: CudaTarget) -> int:
        """Slots of a ring beside which vectors are kept."""
        kept = self.kept_columns(problem, target) * kept_bytes(problem)
        room = (ring_shared(problem, target) - kept) // slot_bytes(problem)
        return min(room, self.ring_slots(problem, target))

    def registers(self, problem: FormulaProblem) -> int:
        """Estimate of a thread's registers: the row as it is held while the passes go on, and the rest."""
        program = problem.program("compact")
        wide = any(r.dtype.bytes == 8 for r in program.reductions)
        extra = 24 * (wide + (len(problem.along) > 1))
        # An operand beyond two keeps an address, and with a second dependent reduction its results, alive.
        extra += (8 + 2 * (len(program.passes) > 2)) * max(0, len(whole_operands(problem)) - 2)
        # Columns are compared with such an operand, as with a class, in 64 bits.
        extra += 8 * any(t.is_read and t.dtype.bytes == 8 for t in problem.tensors())
        # A mask of bytes beside a row is held as it came while its elements are told apart.
        read = {t.dtype.bytes for t in row_inputs(problem)}
        extra += 8 * (1 in read and len(read) > 1)
        return self.values * held_bytes(program, problem) // 4 + OVERHEAD + CUT + extra

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        wide = vector(problem)
        broken = positive("values", self.values, wide, 128, power=True)
        broken += positive("threads", self.threads, 32, target.threads_block, power=True)
        broken += positive("longest", self.longest, 8, target.threads_block)
        broken += positive("waves", self.waves, 1, 1024)
        broken += positive("cluster", self.cluster, 1, 8, power=True)
        broken += positive("slots", self.slots, 0, 64)
        if self.longest not in LADDER:
            broken.append(
                Violation(
                    "longest",
                    f"longest {self.longest} is none of {', '.join(str(t) for t in LADDER)}",
                )
            )
        if broken:
            return broken
        slots = self.ring_slots(problem, target)
        shared = slots * slot_bytes(problem) + RING_STATIC
        if slots and (slots < 4 or shared > ring_shared(problem, target) + RING_STATIC):
            broken.append(
                Violation(
                    "slots",
                    f"{slots} slots of {slot_bytes(problem)} bytes and {RING_STATIC} more need {shared} bytes of "
                    f"shared memory; {target} allows {ring_shared(problem, target) + RING_STATIC} for each of "
                    f"{ring_resident(problem)} resident, and a ring has at least 4",
                )
            )
        block = max(self.threads, self.longest)
        allowed = min(target.registers_thread, target.registers_sm // block)
        needed = self.registers(problem)
        if needed > allowed:
            broken.append(
                Violation(
                    "values",
                    f"{self.values} elements a thread need about {needed} registers; {target} gives "
                    f"{allowed} to each of {block} threads",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        made = [f"v{self.values}"]
        if self.threads != 128:
            made.append(f"t{self.threads}")
        if self.longest != 512:
            made.append(f"l{self.longest}")
        if self.cluster != 8:
            made.append(f"c{self.cluster}")
        if self.slots:
            made.append(f"s{self.slots}")
        if self.waves != 1024:
            made.append(f"w{self.waves}")
        return made

    def tile_extents(self) -> tuple[int, ...]:
        return (self.rungs()[0] * self.values,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[RowRegisters]:
        grid = itertools.product((8, 16, 32, 64), (128, 256), (256, 512, 1024), (8, 64, 1024))
        for values, threads, longest, waves in grid:
            yield cls(values, threads, longest, waves)


def held_bytes(program: Program, problem: FormulaProblem) -> int:
    """Largest number of bytes that a thread holds for one element of its row at any time."""
    whole = {t.name: t.dtype.bytes for t in problem.tensors() if set(problem.along) & set(t.dims)}
    most = 0
    alive: dict[str, int] = {}
    for number, sweep in enumerate(program.passes):
        for load in sweep.loads:
            if number == 0 or load.kept:
                alive[load.operand.name] = whole[load.operand.name]
        for name in sweep.kept:
            alive[name] = 4
        most = max(most, sum(alive.values()))
        later = program.passes[number + 1 :]
        needed = {x.operand.name for p in later for x in p.loads} | {
            v.name for p in later for v in p.recalled
        }
        alive = {name: size for name, size in alive.items() if name in needed}
    return max(most, min(whole_operands(problem), default=4))
