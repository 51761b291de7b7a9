"""The plan of GemvGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_gemv import VECTOR_BYTES, GemvGemm
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class GemvGemmPlan(Plan):
    """Numbers of `templates/cuda/gemm_gemv.cu.j2`; sizes in elements unless the name says bytes."""

    vectors: int
    columns: int
    warps: int
    split: int
    unroll: int
    threads: int
    chunk: int
    element: str
    groups: int
    overlaps: int
    ahead: int

    template: ClassVar[str] = "cuda/gemm_gemv.cu.j2"

    @classmethod
    def make(cls, problem: Gemm, schedule: GemvGemm, target: CudaTarget) -> GemvGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            vectors=schedule.vectors,
            columns=schedule.columns,
            warps=schedule.warps,
            split=schedule.split,
            unroll=schedule.unroll,
            threads=32 * schedule.warps,
            chunk=VECTOR_BYTES // problem.dtype.bytes,
            element=problem.dtype.cuda,
            groups=schedule.warps // schedule.split,
            # Launches overlap from sm_90 on, which also brought the copy engine.
            overlaps=int("tma" in target.features),
            ahead=schedule.ahead,
        )

    def facts(self) -> list[Fact]:
        in_flight = 32 * VECTOR_BYTES * self.columns * self.unroll
        return [
            Fact("threads", str(self.threads), f"{self.warps} warps"),
            Fact("columns a block", str(self.groups * self.columns), "of the result"),
            Fact(
                "registers", f"about {self.schedule.registers(self.problem)}", "a thread, estimated"
            ),
            Fact("bytes in flight", f"{in_flight}", "of B, a warp"),
        ]
