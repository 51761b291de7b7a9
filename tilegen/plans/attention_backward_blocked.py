"""The plan of BlockedAttentionBackward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import head_refusals
from tilegen.plans.attention_blocked import processor_refusals, used_features
from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.schedules.attention_backward_blocked import BlockedAttentionBackward
from tilegen.targets import CpuTarget
from tilegen.values import F32


@dataclass(frozen=True)
class BlockedAttentionBackwardPlan(Plan):
    """Numbers of `templates/c_openmp/attention_backward_blocked.c.j2`, in elements unless named bytes."""

    head_dim: int
    value_dim: int
    rows: int
    vectors: int
    lanes: int
    block_m: int
    block_n: int
    vector_bytes: int
    tile_bytes: int
    element: str
    converts: int
    widen: str
    widen_end: str
    narrow: str
    narrow_end: str
    features: str
    target_name: str

    template: ClassVar[str] = "c_openmp/attention_backward_blocked.c.j2"
    includes: ClassVar[tuple[str, ...]] = (
        "<assert.h>",
        "<errno.h>",
        "<math.h>",
        "<stdalign.h>",
        "<string.h>",
    )

    @classmethod
    def make(
        cls, problem: AttentionBackward, schedule: BlockedAttentionBackward, target: CpuTarget
    ) -> BlockedAttentionBackwardPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        rows, vectors = schedule.micro
        lanes = schedule.lanes(target)
        converts = problem.dtype is not F32
        kind = problem.dtype.name
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            head_dim=problem.head_dim,
            value_dim=problem.value_dim,
            rows=rows,
            vectors=vectors,
            lanes=lanes,
            block_m=lanes * vectors,
            block_n=schedule.block,
            vector_bytes=target.vector_bytes,
            tile_bytes=schedule.stack_bytes(problem, target),
            element=problem.dtype.c,
            converts=int(converts),
            widen=f"{kind}_to_f32(" if converts else "",
            widen_end=")" if converts else "",
            narrow=f"f32_to_{kind}(" if converts else "",
            narrow_end=")" if converts else "",
            features=",".join(used_features(target)),
            target_name=target.name,
        )

    @property
    def helpers(self) -> tuple[str, ...]:
        kind = self.problem.dtype.name
        return (f"{kind}_to_f32", f"f32_to_{kind}") if self.converts else ()

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return head_refusals(self.problem) + processor_refusals(self.target)

    def facts(self) -> list[Fact]:
        return [
            Fact(
                "tile", f"{self.block_m} x {self.block_n}", "keys or queries, and rows of a block"
            ),
            Fact("memory of a thread", f"{self.tile_bytes} bytes", "on its stack"),
        ]
