"""The plan of SimtGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan
from tilegen.plans.gemm import batch_offset, gemm_facts
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.targets import CudaTarget
from tilegen.values import F64


@dataclass(frozen=True)
class SimtGemmPlan(Plan):
    """Numbers of `templates/cuda/gemm_simt.cu.j2`; sizes in elements unless the name says bytes."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int
    threads_m: int
    threads_n: int
    threads: int
    group_m: int
    vector: int
    share_a: int
    share_b: int
    a_slice_bytes: int
    b_slice_bytes: int
    element: str
    a_part: str
    b_part: str
    a_batch: str
    b_batch: str

    template: ClassVar[str] = "cuda/gemm_simt.cu.j2"

    @classmethod
    def make(cls, problem: Gemm, schedule: SimtGemm, target: CudaTarget) -> SimtGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        bm, bn, bk = schedule.tile
        tm, tn = schedule.thread_tile
        size = problem.dtype.bytes
        pad = 16 // size
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            block_m=bm,
            block_n=bn,
            block_k=bk,
            thread_m=tm,
            thread_n=tn,
            threads_m=bm // tm,
            threads_n=bn // tn,
            threads=schedule.threads,
            group_m=schedule.group,
            vector=16 // size,
            share_a=bm * bk // schedule.threads,
            share_b=bn * bk // schedule.threads,
            a_slice_bytes=bk * (bm + pad) * size,
            b_slice_bytes=bk * (bn + pad) * size,
            element="double" if problem.dtype is F64 else "float",
            a_part=_part(problem.layout.a_dims),
            b_part=_part(problem.layout.b_dims),
            a_batch=batch_offset(problem, "a"),
            b_batch=batch_offset(problem, "b"),
        )

    def parts(self) -> tuple[str, ...]:
        return (self.a_part, self.b_part)

    @property
    def shared_bytes(self) -> int:
        return 2 * (self.a_slice_bytes + self.b_slice_bytes)

    def facts(self) -> list[Fact]:
        size = self.problem.dtype.bytes
        registers = self.schedule.registers(size)
        return gemm_facts(self, self.threads, self.shared_bytes, registers) + [
            Fact("shared memory of A", f"{2 * self.a_slice_bytes} bytes", "2 slices, rows padded"),
            Fact("shared memory of B", f"{2 * self.b_slice_bytes} bytes", "2 slices, rows padded"),
        ]


def _part(dims: tuple[str, str]) -> str:
    order = "k_contiguous" if dims[1] == "k" else "k_strided"
    return f"cuda/parts/simt_fetch_{order}.cuh.j2"
