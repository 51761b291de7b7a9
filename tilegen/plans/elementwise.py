"""The plans of ElementPacks and ElementLoops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan, foldable, loop_features
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.elementwise import ElementLoops, ElementPacks
from tilegen.schedules.memory_bound import vector
from tilegen.targets import CpuTarget, CudaTarget

# Columns by which requests run ahead of what is computed: the next page, where hardware starts anew.
AHEAD = 1024

# Columns of one vector loop, at least, where results go to the caches: less often begun and ended.
CACHED = 1024


@dataclass(frozen=True)
class ElementPacksPlan(FormulaPlan):
    """Numbers of `templates/cuda/elementwise.cu.j2`."""

    threads: int
    vector: int
    steps: int
    waves: int
    cuts: int
    rungs: tuple[int, ...]
    last: str
    folded_names: tuple[str, ...]
    program: Program

    template: ClassVar[str] = "cuda/elementwise.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: ElementPacks, target: CudaTarget
    ) -> ElementPacksPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            threads=schedule.threads,
            vector=vector(problem),
            steps=schedule.steps,
            waves=schedule.waves,
            cuts=int(vector(problem) > 1),
            rungs=(schedule.threads, schedule.threads // 4, schedule.threads // 16),
            last=problem.along[-1],
            folded_names=foldable(problem),
            program=problem.program(),
        )

    def facts(self) -> list[Fact]:
        piece = self.threads * self.steps * self.vector
        folded = ", ".join((*self.folded_names, self.last)) if self.folded_names else "none"
        return [
            Fact(
                "vector", f"{self.vector} elements", "16 bytes of the widest array with every index"
            ),
            Fact(
                "piece",
                f"{piece} columns",
                f"{self.threads} threads x {self.steps} x {self.vector}",
            ),
            Fact("folded", folded, "indices that are one where there are no gaps"),
        ]

    def description(self) -> str:
        return f"blocks of {self.threads} threads, {self.steps} accesses each of {self.vector} elements"


@dataclass(frozen=True)
class ElementLoopsPlan(FormulaPlan):
    """Numbers of `templates/c_openmp/elementwise.c.j2`."""

    chunk: int
    cached: int
    ahead: int
    serial: int
    stream_bytes: int
    result_bytes: int
    last: str
    folded_names: tuple[str, ...]
    clang_features: str
    gcc_features: str
    program: Program

    template: ClassVar[str] = "c_openmp/elementwise.c.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: ElementLoops, target: CpuTarget
    ) -> ElementLoopsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        clang, gcc = loop_features(target)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            chunk=schedule.chunk,
            cached=max(CACHED, schedule.chunk),
            ahead=AHEAD,
            serial=schedule.serial,
            stream_bytes=schedule.stream_bytes,
            result_bytes=sum(t.dtype.bytes for t in problem.tensors() if t.is_written),
            last=problem.along[-1],
            folded_names=foldable(problem),
            clang_features=clang,
            gcc_features=gcc,
            program=problem.program(),
        )

    def description(self) -> str:
        return f"threads share chunks of {self.chunk} columns"
