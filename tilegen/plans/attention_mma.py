"""The plan of MmaAttention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import (
    alignment_refusals,
    attention_facts,
    distance_refusals,
    element_names,
    head_refusals,
)
from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_mma import PAD, MmaAttention
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class MmaAttentionPlan(Plan):
    """Numbers of `templates/cuda/attention_mma.cu.j2`; sizes in elements unless the name says bytes."""

    head_dim: int
    value_dim: int
    block_m: int
    block_n: int
    warps: int
    threads: int
    pitch: int
    value_pitch: int
    blocks_per_processor: int
    q_bytes: int
    k_bytes: int
    v_bytes: int
    element: str
    element_pair: str
    pack_function: str
    mma_types: str

    template: ClassVar[str] = "cuda/attention_mma.cu.j2"
    unit: ClassVar[int] = 8  # elements in the 16 bytes that cp.async moves

    @classmethod
    def make(
        cls, problem: Attention, schedule: MmaAttention, target: CudaTarget
    ) -> MmaAttentionPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        m, n = schedule.tile
        shared = schedule.shared_bytes(problem)
        kind = problem.dtype.name
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            head_dim=problem.head_dim,
            value_dim=problem.value_dim,
            block_m=m,
            block_n=n,
            warps=schedule.warps,
            threads=32 * schedule.warps,
            pitch=problem.head_dim + PAD,
            value_pitch=problem.value_dim + PAD,
            blocks_per_processor=2 if schedule.warps <= 4 else 1,
            q_bytes=shared["q"],
            k_bytes=shared["k"],
            v_bytes=shared["v"],
            mma_types=f"f32.{kind}.{kind}.f32",
            **element_names(problem),
        )

    @property
    def shared_bytes(self) -> int:
        return self.q_bytes + self.k_bytes + self.v_bytes

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return (
            head_refusals(self.problem)
            + alignment_refusals(self.problem, "cp.async moves")
            + distance_refusals(self.problem)
        )

    def facts(self) -> list[Fact]:
        registers = self.schedule.registers(self.problem)
        return attention_facts(self, self.shared_bytes, registers)
