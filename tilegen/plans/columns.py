"""The plans of ColumnBlocks and ColumnLoops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, ceil_div
from tilegen.plans.memory_bound import FormulaPlan, loop_features
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.columns import ColumnBlocks, ColumnLoops, ColumnParts, shared_bytes
from tilegen.schedules.memory_bound import vector
from tilegen.targets import CpuTarget, CudaTarget

# Steps of a thread whose accesses are under way together.
DEPTH = 4
# Bytes of a partial result in the workspace, whatever its type.
RESULT_BYTES = 8
# Threads side by side where parts are combined: 32 bytes of a line, and as many parts as possible under way.
FEW = 8


@dataclass(frozen=True)
class ColumnBlocksPlan(FormulaPlan):
    """Numbers of `templates/cuda/columns.cu.j2`."""

    across: int
    threads: int
    vector: int
    program: Program

    template: ClassVar[str] = "cuda/columns.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: ColumnBlocks, target: CudaTarget
    ) -> ColumnBlocksPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            across=schedule.across,
            threads=schedule.threads,
            vector=vector(problem),
            program=problem.program("nothing"),
        )

    def facts(self) -> list[Fact]:
        shared = shared_bytes(self.problem, self.threads)
        return [
            Fact("passes", str(len(self.program.passes)), "reductions that depend on each other"),
            Fact(
                "columns",
                str(self.across * self.vector),
                f"of a block: {self.across} x {self.vector}",
            ),
            Fact(
                "shared memory",
                f"{shared} bytes",
                f"{self.target} allows {self.target.shared_default}",
            ),
        ]

    def description(self) -> str:
        return f"blocks of {self.across} x {self.threads // self.across} threads"


def _registers(program: Program, problem: FormulaProblem) -> int:
    """Estimate of a thread's registers: results, DEPTH accesses of every operand under way, and the rest."""
    sweep = program.passes[0]
    results = sum(r.dtype.bytes for r in program.reductions) // 4
    read = DEPTH * sum(x.operand.dtype.bytes for x in sweep.loads) // 4
    plain = len(program.reductions) == 1 and not (sweep.values or program.before or program.loads)
    needed = vector(problem) * (results + read + len(program.loads)) + (40 if plain else 48)
    return 8 * ceil_div(needed, 8)


@dataclass(frozen=True)
class ColumnPartsPlan(FormulaPlan):
    """Numbers of `templates/cuda/column_parts.cu.j2`."""

    across: int
    threads: int
    vector: int
    blocks: int
    least: int
    resident: int
    depth: int
    few: int
    result_bytes: int
    overlaps: int
    program: Program

    template: ClassVar[str] = "cuda/column_parts.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})
    uses_workspace: ClassVar[bool] = True

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: ColumnParts, target: CudaTarget
    ) -> ColumnPartsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        program = problem.program("nothing")
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            across=schedule.across,
            threads=schedule.threads,
            vector=vector(problem),
            blocks=schedule.blocks,
            least=schedule.least,
            resident=max(
                1, target.registers_sm // (schedule.threads * _registers(program, problem))
            ),
            depth=DEPTH,
            few=min(schedule.across, FEW),
            result_bytes=RESULT_BYTES * len(program.reductions),
            overlaps=int("tma" in target.features),
            program=program,
        )

    def facts(self) -> list[Fact]:
        shared = shared_bytes(self.problem, self.threads)
        return [
            Fact(
                "columns",
                str(self.across * self.vector),
                f"of a block: {self.across} x {self.vector}",
            ),
            Fact(
                "parts",
                f"{self.blocks} blocks",
                f"for which the steps are cut, {self.least} or more for each thread",
            ),
            Fact("workspace", f"{self.result_bytes} bytes", "for each column and part"),
            Fact(
                "shared memory",
                f"{shared} bytes",
                f"{self.target} allows {self.target.shared_default}",
            ),
        ]

    def description(self) -> str:
        return f"parts of columns, blocks of {self.across} x {self.threads // self.across} threads"


@dataclass(frozen=True)
class ColumnLoopsPlan(FormulaPlan):
    """Numbers of `templates/c_openmp/columns.c.j2`."""

    chunk: int
    serial: int
    clang_features: str
    gcc_features: str
    program: Program

    template: ClassVar[str] = "c_openmp/columns.c.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: ColumnLoops, target: CpuTarget
    ) -> ColumnLoopsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        clang, gcc = loop_features(target)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            chunk=schedule.chunk,
            serial=schedule.serial,
            clang_features=clang,
            gcc_features=gcc,
            program=problem.program("nothing"),
        )

    def description(self) -> str:
        return f"threads share chunks of {self.chunk} columns"
