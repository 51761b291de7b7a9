"""The plan of MmaAttentionBackward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import (
    MOST,
    alignment_refusals,
    attention_facts,
    element_names,
    head_refusals,
)
from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.schedules.attention_backward_mma import MmaAttentionBackward
from tilegen.schedules.attention_mma import PAD
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class MmaAttentionBackwardPlan(Plan):
    """Numbers of `templates/cuda/attention_backward_mma.cu.j2`; sizes in elements unless named bytes."""

    head_dim: int
    value_dim: int
    block_m: int
    block_n: int
    warps: int
    threads: int
    pitch: int
    value_pitch: int
    tile_bytes: int
    block_bytes: int
    element: str
    element_pair: str
    pack_function: str
    mma_types: str

    template: ClassVar[str] = "cuda/attention_backward_mma.cu.j2"
    uses_workspace: ClassVar[bool] = True
    unit: ClassVar[int] = 8  # elements in the 16 bytes that cp.async moves

    @classmethod
    def make(
        cls, problem: AttentionBackward, schedule: MmaAttentionBackward, target: CudaTarget
    ) -> MmaAttentionBackwardPlan:
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
            tile_bytes=shared["tile"],
            block_bytes=shared["blocks"],
            mma_types=f"f32.{kind}.{kind}.f32",
            **element_names(problem),
        )

    @property
    def shared_bytes(self) -> int:
        return self.tile_bytes + self.block_bytes

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        names = ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")
        keys = f"seq_k > 0 && batch * kv_heads > {MOST} / seq_k"
        return (
            head_refusals(self.problem)
            + alignment_refusals(self.problem, "cp.async moves", names)
            + (Refusal(9, keys, f"batch * kv_heads * seq_k is above {MOST}"),)
        )

    def facts(self) -> list[Fact]:
        registers = self.schedule.registers(self.problem)
        return attention_facts(self, self.shared_bytes, registers)
