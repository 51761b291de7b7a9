"""The plan of BlockedAttention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import head_refusals
from tilegen.plans.base import Fact, Plan, Refusal, ceil_div
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_blocked import BlockedAttention
from tilegen.targets import CpuTarget
from tilegen.values import F32

# Keys that few queries pass at a time: the processor follows about as many streams of memory.
FEW_KEYS = 16

# Features that the kernel uses; a level's others are of no use to it.
USED_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl")


def used_features(target: CpuTarget) -> list[str]:
    """Features of the target that attention in C is compiled for."""
    wide = "avx512f" in target.features
    return [f for f in target.features if f in USED_FEATURES and not (f == "avx2" and wide)]


def processor_refusals(target: CpuTarget) -> tuple[Refusal, ...]:
    """A processor without the instructions that the kernel uses."""
    used = used_features(target)
    if not used or target.machine != "x86_64":
        return ()
    missing = " || ".join(f'!__builtin_cpu_supports("{name}")' for name in used)
    return (Refusal(6, missing, f"the processor lacks one of {', '.join(used)}"),)


def alternated(lanes: int, start: int) -> str:
    """Lanes of two vectors in turn, from one on: half of each."""
    return ", ".join(f"{i}, {i + lanes}" for i in range(start, start + lanes // 2))


@dataclass(frozen=True)
class BlockedAttentionPlan(Plan):
    """Numbers of `templates/c_openmp/attention_blocked.c.j2`, in elements unless the name says bytes."""

    head_dim: int
    value_dim: int
    rows: int
    vectors: int
    lanes: int
    block_m: int
    block_n: int
    tiles: int
    few: int
    few_keys: int
    rows_at_once: int
    wide_vectors: int
    low_lanes: str
    high_lanes: str
    weights: int
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

    template: ClassVar[str] = "c_openmp/attention_blocked.c.j2"
    includes: ClassVar[tuple[str, ...]] = (
        "<assert.h>",
        "<errno.h>",
        "<math.h>",
        "<stdalign.h>",
        "<string.h>",
    )

    @classmethod
    def make(
        cls, problem: Attention, schedule: BlockedAttention, target: CpuTarget
    ) -> BlockedAttentionPlan:
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
            tiles=schedule.tiles,
            few=max(1, lanes * vectors // 4),
            wide_vectors=max(1, min(8, problem.value_dim // lanes)),
            low_lanes=alternated(lanes, 0),
            high_lanes=alternated(lanes, lanes // 2),
            rows_at_once=min(4, lanes),
            few_keys=math.gcd(FEW_KEYS, schedule.block),
            weights=ceil_div(math.gcd(FEW_KEYS, schedule.block), lanes) * lanes,
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
        registers, have = self.schedule.registers(), self.target.vector_registers
        return [
            Fact(
                "tile", f"{self.block_m} x {self.block_n}", "queries of a tile and keys of a block"
            ),
            Fact(
                "vector registers", f"{registers} of {have}", f"{self.rows} x {self.vectors} sums"
            ),
            Fact("memory of a thread", f"{self.tile_bytes} bytes", "on its stack"),
        ]
