"""The plans of TileShared and TileLoops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact
from tilegen.plans.memory_bound import FormulaPlan, loop_features
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.passes import Program
from tilegen.schedules.permute import PITCH, TileLoops, TileShared, crossed_bytes, crossed_operands
from tilegen.schedules.memory_bound import vector
from tilegen.targets import CpuTarget, CudaTarget

# Accesses of a thread that are under way together, at most.
BATCH = 8
# And packs that lie askew, each of which takes the registers of two.
FEW = 2
# Threads of a block that reads such packs, at most.
ASKEW_THREADS = 128


def read_index(problem: FormulaProblem) -> str:
    """The index along which the crossed inputs lie."""
    name = crossed_operands(problem)[0]
    return next(t.dims[-1] for t in problem.tensors() if t.name == name)


def _lines(problem: FormulaProblem, schedule: TileShared, wide: int) -> int:
    """Lines that a thread reads together: their elements fill four bytes, if the tile has enough for all threads."""
    lines = max(1, min(wide, 4 // min(crossed_bytes(problem))))
    while schedule.tile**2 % (schedule.threads * wide * lines):
        lines //= 2
    return lines


def _resident(problem: FormulaProblem, schedule: TileShared) -> int:
    """Blocks that have registers for packs that lie askew: some 72 a thread where one input is copied as it is."""
    plain = len(crossed_operands(problem)) == 1 and len(problem.tensors()) == 2
    together = 896 if vector(problem) >= 8 else 768
    return max(1, together // min(ASKEW_THREADS, schedule.threads)) if plain else 1


@dataclass(frozen=True)
class TileSharedPlan(FormulaPlan):
    """Numbers of `templates/cuda/permute.cu.j2`."""

    tile: int
    threads: int
    askew_threads: int
    vector: int
    lines: int
    resident: int
    batch: int
    few: int
    swap: int
    read: str
    written: str
    program: Program

    template: ClassVar[str] = "cuda/permute.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"program"})

    @classmethod
    def make(
        cls, problem: FormulaProblem, schedule: TileShared, target: CudaTarget
    ) -> TileSharedPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        wide = vector(problem)
        lines = _lines(problem, schedule, wide)
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            tile=schedule.tile,
            threads=schedule.threads,
            askew_threads=min(ASKEW_THREADS, schedule.threads),
            vector=wide,
            lines=lines,
            resident=_resident(problem, schedule),
            batch=BATCH,
            few=max(1, FEW // lines),
            swap=min(8, schedule.tile // wide),
            read=read_index(problem),
            written=problem.family.order[-1],
            program=problem.program(),
        )

    def facts(self) -> list[Fact]:
        shared = self.schedule.shared_bytes(self.problem)
        return [
            Fact(
                "tile",
                f"{self.tile} x {self.tile}",
                f"elements along {self.read} and {self.written}",
            ),
            Fact(
                "vector", f"{self.vector} elements", "16 bytes of the widest array with every index"
            ),
            Fact(
                "shared memory",
                f"{shared} bytes",
                f"{self.target} allows {self.target.shared_default}",
            ),
        ]

    def description(self) -> str:
        return f"tiles of {self.tile} x {self.tile}, {self.threads} threads"


@dataclass(frozen=True)
class TileLoopsPlan(FormulaPlan):
    """Numbers of `templates/c_openmp/permute.c.j2`."""

    tile_read: int
    tile_written: int
    pitch: int
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
            pitch=PITCH,
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
