"""Schedules of elementwise formulas: ElementPacks for CUDA, ElementLoops for OpenMP C."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.formula.nodes import Call, walk
from tilegen.problems.families import ELEMENTWISE
from tilegen.problems.formula import FormulaProblem
from tilegen.schedules.base import Violation
from tilegen.schedules.memory_bound import FormulaSchedule, positive, vector, whole_operands
from tilegen.targets import CpuTarget, CudaTarget
from tilegen.values import BF16

# Registers of a thread for addresses and the element at work.
OVERHEAD = 40


def spills_ends(problem: FormulaProblem) -> bool:
    """Whether nvcc 13.0 spills the ends of rows in blocks of 256 threads.

    It holds a thread to 48 registers there, two bytes too few where the sigmoid of a lone array of bf16 is taken.
    """
    read = [t.dtype for t in problem.tensors() if t.is_read]
    nodes = (n for s in problem.typed.statements for n in walk(s.value))
    called = {n.function for n in nodes if isinstance(n, Call)}
    return read == [BF16] and bool(called & {"sigmoid", "silu"})


@dataclass(frozen=True)
class ElementPacks(FormulaSchedule):
    """Blocks take pieces of rows; a thread reads all its packs of a piece before it computes."""

    threads: int = option(256, "Threads of a block.", kind=int, unit="threads")
    steps: int = option(
        2,
        "Accesses of a thread that are under way together; more hide more latency and cost registers.",
        kind=int,
        unit="accesses",
    )
    waves: int = option(
        64,
        "Blocks launched per multiprocessor, at most; a block then takes several pieces.",
        kind=int,
    )

    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "packs"
    family: ClassVar[str] = ELEMENTWISE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CudaTarget) -> ElementPacks:
        """Two accesses of every operand under way, one for formulas of many operands."""
        if spills_ends(problem):
            return cls(threads=128)
        for steps in (2, 1):
            if not cls(steps=steps).violations(problem, target):
                return cls(steps=steps)
        return cls(threads=128, steps=1)

    def registers(self, problem: FormulaProblem) -> int:
        """Estimate of a thread's registers: its packs of every operand, and the rest."""
        read = sum(t.dtype.bytes for t in problem.tensors() if t.is_read)
        return self.steps * vector(problem) * read // 4 + OVERHEAD

    def violations(self, problem: FormulaProblem, target: CudaTarget) -> list[Violation]:
        broken = positive("threads", self.threads, 32, target.threads_block, power=True)
        broken += positive("steps", self.steps, 1, 16, power=True)
        broken += positive("waves", self.waves, 1, 1024)
        if broken:
            return broken
        needed = self.registers(problem)
        allowed = min(target.registers_thread, target.registers_sm // self.threads)
        if needed > allowed:
            broken.append(
                Violation(
                    "steps",
                    f"{self.steps} accesses of every operand need about {needed} registers; {target} "
                    f"gives {allowed} to each of {self.threads} threads",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        default = type(self)()
        words = [f"x{self.steps}"]
        words += [f"t{self.threads}"] if self.threads != default.threads else []
        return words + ([f"w{self.waves}"] if self.waves != default.waves else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.threads * self.steps,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CudaTarget) -> Iterator[ElementPacks]:
        for threads, steps, waves in itertools.product(
            (128, 256, 512), (1, 2, 4, 8), (8, 16, 32, 64)
        ):
            yield cls(threads, steps, waves)


@dataclass(frozen=True)
class ElementLoops(FormulaSchedule):
    """Threads share chunks of rows; a chunk is one vector loop."""

    chunk: int = option(
        128,
        "Columns that are computed before they go past the caches: few enough for stores to go on meanwhile.",
        kind=int,
        unit="elements",
    )
    serial: int = option(
        32768, "Elements that are too few for more than one thread.", kind=int, unit="elements"
    )
    stream_bytes: int = option(
        33554432,
        "Size of the results from which on they are stored past the caches; smaller ones stay for their reader.",
        kind=int,
        unit="bytes",
    )

    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "loops"
    family: ClassVar[str] = ELEMENTWISE

    @classmethod
    def default(cls, problem: FormulaProblem, target: CpuTarget) -> ElementLoops:
        """Chunks of which all outputs together take at most 2 KiB: they wait to be stored while the next chunk is
        computed. Of 512 bytes where one operand has every index: requests for it further on come between few stores.
        Of 16 KiB where little is computed: memory turns less often from reading to writing.
        """
        written = sum(t.dtype.bytes for t in problem.tensors() if t.is_written)
        indices = {i for t in problem.tensors() for i in t.dims}
        whole = [t for t in problem.tensors() if t.is_read and set(t.dims) == indices]
        most = 512 if len(whole) == 1 else 2048
        if not problem.program().passes[0].is_costly:
            most = 16384
        chunk = 4096
        while chunk * written > most and chunk > 64:
            chunk //= 2
        return cls(chunk=chunk)

    def violations(self, problem: FormulaProblem, target: CpuTarget) -> list[Violation]:
        broken = positive("chunk", self.chunk, 64, 65536, power=True)
        broken += positive("serial", self.serial, 0, 1 << 30)
        broken += positive("stream_bytes", self.stream_bytes, 0, (1 << 31) - 1)
        needed = self.chunk * sum(t.dtype.bytes for t in problem.tensors() if t.is_written)
        if not broken and needed > 131072:
            broken.append(
                Violation(
                    "chunk",
                    f"chunk {self.chunk} needs {needed} bytes of a thread's stack, of which 131072 may "
                    "be taken",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = [f"c{self.chunk}"]
        words += [f"s{self.serial}"] if self.serial != 32768 else []
        return words + ([f"n{self.stream_bytes}"] if self.stream_bytes != 33554432 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.chunk,)

    @classmethod
    def candidates(cls, problem: FormulaProblem, target: CpuTarget) -> Iterator[ElementLoops]:
        for chunk, stream in itertools.product(
            (64, 128, 256, 512, 4096), (1 << 23, 1 << 25, 1 << 27)
        ):
            yield cls(chunk, 32768, stream)
