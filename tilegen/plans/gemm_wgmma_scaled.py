"""The plan of WgmmaScaledGemm: that of a plain product, whose steps have scales."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tilegen.plans.base import Fact
from tilegen.plans.gemm import gemm_facts
from tilegen.plans.gemm_wgmma import WgmmaGemmPlan
from tilegen.problems.scaled_gemm import ScaledGemm
from tilegen.schedules.gemm_wgmma_scaled import WgmmaScaledGemm
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class WgmmaScaledGemmPlan(WgmmaGemmPlan):
    """Numbers and names of `templates/cuda/gemm_wgmma.cu.j2`, which scales the sums of each step."""

    @classmethod
    def make(
        cls, problem: ScaledGemm, schedule: WgmmaScaledGemm, target: CudaTarget
    ) -> WgmmaScaledGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        plain = WgmmaGemmPlan.make(problem, schedule.like, target)
        values = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
        return cls(**{**values, "schedule": schedule, "scaled": 1})

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the operands that the copy engine reads: threads read the scales."""
        return ("a", "b")

    def facts(self) -> list[Fact]:
        shared = self.schedule.like.shared_bytes(self.problem, self.buffers)
        return gemm_facts(self, self.threads, shared, self.entry_registers)
