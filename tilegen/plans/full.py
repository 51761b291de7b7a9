"""The plans of FullParts and FullLoops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan, foldable, loop_features
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.full import FullLoops, FullParts
from tilegen.schedules.memory_bound import vector
from tilegen.targets import CpuTarget, CudaTarget

# Bytes of a partial result in the workspace, whatever its type.
PARTIAL_BYTES = 8


@dataclass(frozen=True)
class FullPartsPlan(FormulaPlan):
    """Numbers of `templates/cuda/full.cu.j2`."""

    threads: int
    vector: int
    steps: int
    most_parts: int
    workspace: int
    last: str
    folded_names: tuple[str, ...]
    program: Program

    template: ClassVar[str] = "cuda/full.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})
    uses_workspace: ClassVar[bool] = True

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: FullParts, target: CudaTarget
    ) -> FullPartsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        program = problem.program()
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            threads=schedule.threads,
            vector=vector(problem),
            steps=schedule.steps,
            most_parts=schedule.parts,
            workspace=len(program.reductions) * schedule.parts * PARTIAL_BYTES,
            last=problem.along[-1],
            folded_names=foldable(problem),
            program=program,
        )

    def facts(self) -> list[Fact]:
        piece = self.threads * self.steps * self.vector
        return [
            Fact(
                "piece",
                f"{piece} columns",
                f"{self.threads} threads x {self.steps} x {self.vector}",
            ),
            Fact("workspace", f"{self.workspace} bytes", f"{self.most_parts} partial results"),
        ]

    def description(self) -> str:
        return f"at most {self.most_parts} blocks of {self.threads} threads, {self.steps} accesses each"


@dataclass(frozen=True)
class FullLoopsPlan(FormulaPlan):
    """Numbers of `templates/c_openmp/full.c.j2`."""

    chunk: int
    most_parts: int
    serial: int
    last: str
    folded_names: tuple[str, ...]
    clang_features: str
    gcc_features: str
    program: Program

    template: ClassVar[str] = "c_openmp/full.c.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(cls, problem: FormulaProblem, schedule: FullLoops, target: CpuTarget) -> FullLoopsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        clang, gcc = loop_features(target)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            chunk=schedule.chunk,
            most_parts=schedule.parts,
            serial=schedule.serial,
            last=problem.along[-1],
            folded_names=foldable(problem),
            clang_features=clang,
            gcc_features=gcc,
            program=problem.program(),
        )

    def description(self) -> str:
        return f"{self.most_parts} parts of chunks of {self.chunk} columns"
