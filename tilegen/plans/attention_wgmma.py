"""The plan of WgmmaAttention."""

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
from tilegen.plans.base import Fact, Plan, Refusal, ceil_div
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_wgmma import REGISTERS, SPAN, WgmmaAttention
from tilegen.targets import CudaTarget

# What the weights of a row in one thread's columns may add up to before its maximum is raised: each stays
# below the largest half, and far below what the output's float sums hold.
MOST_WEIGHT = {"f16": "32768.0f", "bf16": "4294967296.0f"}

# Heads of a group at least, and bytes of their keys and values, without and with a mask: tiles of different
# length, longest first, want more heads (measured on an H200, whose L2 has 60 MB in two halves).
LEAST_GROUP = {False: 4, True: 8}
GROUP_BYTES = {False: 8 << 20, True: 24 << 20}


@dataclass(frozen=True)
class WgmmaAttentionPlan(Plan):
    """Numbers of `templates/cuda/attention_wgmma.cu.j2`; sizes in elements unless the name says bytes."""

    head_dim: int
    value_dim: int
    block_m: int
    block_n: int
    stages: int
    query_stages: int
    consumers: int
    threads: int
    head_group: int
    least_group: int
    group_bytes: int
    head_slices: int
    value_slices: int
    output_slices: int
    start_registers: int
    producer_registers: int
    consumer_registers: int
    q_bytes: int
    k_bytes: int
    v_bytes: int
    o_bytes: int
    element: str
    element_pair: str
    pack_function: str
    mma_types: str
    map_type: str
    queries_part: str
    most_weight: str

    template: ClassVar[str] = "cuda/attention_wgmma.cu.j2"
    uses_workspace: ClassVar[bool] = True
    unit: ClassVar[int] = 8  # elements in the 16 bytes that TMA aligns to

    @classmethod
    def make(
        cls, problem: Attention, schedule: WgmmaAttention, target: CudaTarget
    ) -> WgmmaAttentionPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        m, n = schedule.tile
        shared = schedule.shared_bytes(problem)
        producer, consumer = REGISTERS[schedule.consumers]
        kind = problem.dtype.name
        masked = bool(problem.causal or problem.mask)
        place = "shared" if schedule.query_stages else "registers"
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            head_dim=problem.head_dim,
            value_dim=problem.value_dim,
            block_m=m,
            block_n=n,
            stages=schedule.stages,
            query_stages=max(1, schedule.query_stages),
            consumers=schedule.consumers,
            threads=128 * (schedule.consumers + 1),
            head_group=schedule.head_group,
            least_group=min(LEAST_GROUP[masked], schedule.head_group),
            group_bytes=GROUP_BYTES[masked],
            head_slices=ceil_div(problem.head_dim, SPAN),
            value_slices=ceil_div(problem.value_dim, SPAN),
            output_slices=shared["o"] // (m * SPAN * 2),
            start_registers=min(255, 65536 // (128 * (schedule.consumers + 1)) // 8 * 8),
            producer_registers=producer,
            consumer_registers=consumer,
            q_bytes=shared["q"],
            k_bytes=shared["k"],
            v_bytes=shared["v"],
            o_bytes=shared["o"],
            mma_types=f"f32.{kind}.{kind}",
            map_type="FLOAT16" if kind == "f16" else "BFLOAT16",
            queries_part=f"cuda/parts/attention_wgmma_queries_{place}.cuh.j2",
            most_weight=MOST_WEIGHT[kind],
            **element_names(problem),
        )

    def parts(self) -> tuple[str, ...]:
        return (self.queries_part,)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return (
            head_refusals(self.problem)
            + alignment_refusals(self.problem, "the copy engine moves")
            + distance_refusals(self.problem)
        )

    @property
    def requirements(self) -> tuple[str, ...]:
        return (
            "workspace is zero before its first launch and is left zero; launches that may run at the "
            "same time have workspaces of their own.",
        )

    @property
    def shared_bytes(self) -> int:
        return sum(self.schedule.shared_bytes(self.problem).values())

    def facts(self) -> list[Fact]:
        shared = self.schedule.shared_bytes(self.problem)
        return attention_facts(
            self, sum(shared.values()), self.schedule.registers(self.problem)
        ) + [
            Fact(f"shared memory of {name}", f"{shared[name]} bytes", "rows of 128 bytes, swizzled")
            for name in "qkvo"
        ]
