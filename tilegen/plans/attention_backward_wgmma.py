"""The plan of WgmmaAttentionBackward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import (
    MOST,
    alignment_refusals,
    element_names,
    head_refusals,
)
from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.schedules.attention_backward_wgmma import (
    CONSUMERS,
    ROWS_OF_WARP,
    WgmmaAttentionBackward,
)
from tilegen.schedules.attention_wgmma import REGISTERS, SPAN
from tilegen.targets import CudaTarget

# What a block's shared memory holds.
_HELD = {
    "k": "keys of a tile",
    "v": "values of a tile",
    "q": "queries of the blocks in flight",
    "d_o": "gradients of their outputs",
    "ds": "gradients of scores, of a block and the one before; at the end dk and dv",
    "dq": "sums on their way to the workspace",
}


@dataclass(frozen=True)
class WgmmaAttentionBackwardPlan(Plan):
    """Numbers of `templates/cuda/attention_backward_wgmma.cu.j2`; sizes in elements unless named bytes."""

    head_dim: int
    value_dim: int
    block_m: int
    block_n: int
    stages: int
    head_group: int
    consumers: int
    threads: int
    warps: int
    head_slices: int
    value_slices: int
    piece: int
    piece_vectors: int
    block_vectors: int
    row_lanes: int
    start_registers: int
    producer_registers: int
    consumer_registers: int
    q_bytes: int
    k_bytes: int
    v_bytes: int
    d_o_bytes: int
    ds_bytes: int
    dq_bytes: int
    element: str
    element_pair: str
    pack_function: str
    mma_types: str
    map_type: str
    order_part: str

    template: ClassVar[str] = "cuda/attention_backward_wgmma.cu.j2"
    uses_workspace: ClassVar[bool] = True
    unit: ClassVar[int] = 8  # elements in the 16 bytes that TMA aligns to

    @classmethod
    def make(
        cls, problem: AttentionBackward, schedule: WgmmaAttentionBackward, target: CudaTarget
    ) -> WgmmaAttentionBackwardPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        m, n = schedule.tile
        shared = schedule.shared_bytes(problem)
        producer, consumer = REGISTERS[CONSUMERS]
        kind = problem.dtype.name
        piece = problem.head_dim // CONSUMERS
        order = "turns" if schedule.ordered else "any_order"
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            head_dim=problem.head_dim,
            value_dim=problem.value_dim,
            block_m=m,
            block_n=n,
            stages=schedule.stages,
            head_group=schedule.head_group,
            consumers=CONSUMERS,
            threads=128 * (CONSUMERS + 1),
            warps=m // ROWS_OF_WARP,
            head_slices=problem.head_dim // SPAN,
            value_slices=problem.value_dim // SPAN,
            piece=piece,
            piece_vectors=16 * piece,
            block_vectors=n * problem.head_dim // 4,
            row_lanes=problem.value_dim // 8,
            start_registers=min(255, 65536 // (128 * (CONSUMERS + 1)) // 8 * 8),
            producer_registers=producer,
            consumer_registers=consumer,
            q_bytes=shared["q"],
            k_bytes=shared["k"],
            v_bytes=shared["v"],
            d_o_bytes=shared["d_o"],
            ds_bytes=shared["ds"],
            dq_bytes=shared["dq"],
            mma_types=f"f32.{kind}.{kind}",
            map_type="FLOAT16" if kind == "f16" else "BFLOAT16",
            order_part=f"cuda/parts/attention_backward_wgmma_{order}.cuh.j2",
            **element_names(problem),
        )

    def parts(self) -> tuple[str, ...]:
        return (self.order_part,)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        names = ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")
        keys = f"seq_k > 0 && batch * kv_heads > {MOST} / seq_k"
        return (
            head_refusals(self.problem)
            + alignment_refusals(self.problem, "the copy engine moves", names)
            + (Refusal(9, keys, f"batch * kv_heads * seq_k is above {MOST}"),)
        )

    @property
    def requirements(self) -> tuple[str, ...]:
        return (
            "workspace starts on 16 bytes; launches that may run at the same time have workspaces of their "
            "own.",
        )

    @property
    def shared_bytes(self) -> int:
        return sum(self.schedule.shared_bytes(self.problem).values())

    def facts(self) -> list[Fact]:
        target, schedule = self.target, self.schedule
        m, n = schedule.tile
        shared = schedule.shared_bytes(self.problem)
        width = 3 * self.head_dim + 2 * self.value_dim
        moved = n * (self.head_dim + self.value_dim) * self.problem.dtype.bytes
        added = n * self.head_dim * 4
        flops = 2 * m * n * width
        return [
            Fact("tile", f"{m} x {n}", "keys of a tile and queries of a block"),
            Fact("threads", str(self.threads), f"{self.threads // 32} warps; {target} allows 1024"),
            Fact(
                "shared memory",
                f"{sum(shared.values())} bytes",
                f"{target} allows {target.shared_block} in a block",
            ),
            *(
                Fact(f"shared memory of {name}", f"{shared[name]} bytes", what)
                for name, what in _HELD.items()
            ),
            Fact(
                "registers",
                f"about {schedule.registers(self.problem)}",
                f"of a consumer thread; it has {self.consumer_registers}",
            ),
            Fact(
                "arithmetic intensity",
                f"{flops / (moved + added):.1f} flop/byte",
                f"{flops} flops a block on {moved} bytes of q and d_o and {added} bytes added to dq",
            ),
        ]
