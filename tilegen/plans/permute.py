"""The plans of TileRegisters and TileLoops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan, loop_features
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.permute import TileLoops, TileRegisters, crossed_operands
from tilegen.targets import CpuTarget, CudaTarget


def read_index(problem: FormulaProblem) -> str:
    """The index along which the crossed inputs lie."""
    name = crossed_operands(problem)[0]
    return next(t.dims[-1] for t in problem.tensors() if t.name == name)


@dataclass(frozen=True)
class TileRegistersPlan(FormulaPlan):
    """Numbers of `templates/cuda/permute.cu.j2`."""

    square: int
    threads_read: int
    threads_written: int
    threads: int
    waves: int
    read: str
    written: str
    program: Program

    template: ClassVar[str] = "cuda/permute.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: TileRegisters, target: CudaTarget
    ) -> TileRegistersPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            square=schedule.square,
            threads_read=schedule.threads[0],
            threads_written=schedule.threads[1],
            threads=schedule.threads[0] * schedule.threads[1],
            waves=schedule.waves,
            read=read_index(problem),
            written=problem.family.order[-1],
            program=problem.program(),
        )

    @property
    def vector(self) -> int:
        """Elements of an access: a line of the square."""
        return self.square

    def facts(self) -> list[Fact]:
        read, written = self.schedule.tile_extents()
        return [
            Fact("tile", f"{read} x {written}", f"elements along {self.read} and {self.written}"),
            Fact("square", f"{self.square} x {self.square}", "elements that a thread turns"),
            Fact("threads", str(self.threads), f"{self.threads_read} x {self.threads_written}"),
        ]

    def description(self) -> str:
        return f"squares of {self.square}, {self.threads_read} x {self.threads_written} threads"


@dataclass(frozen=True)
class TileLoopsPlan(FormulaPlan):
    """Numbers of `templates/c_openmp/permute.c.j2`."""

    tile_read: int
    tile_written: int
    serial: int
    stream_bytes: int
    result_bytes: int
    read: str
    written: str
    clang_features: str
    gcc_features: str
    program: Program

    template: ClassVar[str] = "c_openmp/permute.c.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(cls, problem: FormulaProblem, schedule: TileLoops, target: CpuTarget) -> TileLoopsPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        clang, gcc = loop_features(target)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            tile_read=schedule.tile[0],
            tile_written=schedule.tile[1],
            serial=schedule.serial,
            stream_bytes=schedule.stream_bytes,
            result_bytes=sum(t.dtype.bytes for t in problem.tensors() if t.is_written),
            read=read_index(problem),
            written=problem.family.order[-1],
            clang_features=clang,
            gcc_features=gcc,
            program=problem.program(),
        )

    def description(self) -> str:
        return f"tiles of {self.tile_read} x {self.tile_written} elements"
