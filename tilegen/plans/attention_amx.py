"""The plan of AmxAttention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import head_refusals
from tilegen.plans.attention_blocked import FEW_KEYS, alternated
from tilegen.plans.base import Fact, Plan, Refusal, ceil_div
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_amx import PITCH, QUERIES, AmxAttention
from tilegen.targets import CpuTarget

# As many queries of a head and fewer are not worth a tile of them.
FEW = 8


@dataclass(frozen=True)
class AmxAttentionPlan(Plan):
    """Numbers of `templates/c_openmp/attention_amx.c.j2`, in elements unless the name says bytes."""

    head_dim: int
    value_dim: int
    block_n: int
    tiles: int
    lanes: int
    pitch: int
    few: int
    wide_vectors: int
    low_lanes: str
    high_lanes: str
    few_keys: int
    rows_at_once: int
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

    template: ClassVar[str] = "c_openmp/attention_amx.c.j2"
    includes: ClassVar[tuple[str, ...]] = (
        "<assert.h>",
        "<cpuid.h>",
        "<errno.h>",
        "<immintrin.h>",
        "<math.h>",
        "<stdalign.h>",
        "<string.h>",
    )

    @classmethod
    def make(
        cls, problem: Attention, schedule: AmxAttention, target: CpuTarget
    ) -> AmxAttentionPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        lanes = target.vector_bytes // 4
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            head_dim=problem.head_dim,
            value_dim=problem.value_dim,
            block_n=schedule.block,
            tiles=schedule.tiles,
            lanes=lanes,
            pitch=PITCH,
            few=FEW,
            wide_vectors=max(1, min(8, problem.value_dim // lanes)),
            low_lanes=alternated(lanes, 0),
            high_lanes=alternated(lanes, lanes // 2),
            rows_at_once=min(4, lanes),
            few_keys=math.gcd(FEW_KEYS, schedule.block),
            weights=ceil_div(math.gcd(FEW_KEYS, schedule.block), lanes) * lanes,
            vector_bytes=target.vector_bytes,
            tile_bytes=schedule.stack_bytes(problem),
            element=problem.dtype.c,
            converts=1,
            widen="bf16_to_f32(",
            widen_end=")",
            narrow="f32_to_bf16(",
            narrow_end=")",
            features="amx-tile,amx-bf16,avx512bw,avx512dq,avx512vl",
            target_name=target.name,
        )

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("bf16_to_f32", "f32_to_bf16")

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        lacks = "the processor lacks one of amx-tile, amx-bf16, amx-int8"
        forbids = "the system does not let the process use tile registers"
        return (
            *head_refusals(self.problem),
            Refusal(6, "!has_instructions()", lacks),
            Refusal(7, "!may_use_tiles()", forbids),
        )

    def facts(self) -> list[Fact]:
        return [
            Fact("tile", f"{QUERIES} x {self.block_n}", "queries of a tile and keys of a block"),
            Fact("tile registers", "8 of 8", "4 of sums, 2 of rows, 2 of queries"),
            Fact("memory of a thread", f"{self.tile_bytes} bytes", "on its stack"),
        ]
