"""The plan of AmxGemm."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Refusal
from tilegen.plans.gemm_packed import PackedGemmPlan
from tilegen.plans.gemm_packed_text import PARTS, words_of
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_amx import TILE, AmxGemm, word
from tilegen.targets import CpuTarget
from tilegen.values import I8

# Costs in multiply-adds of words, of which a core does some 10^11 a second.
THREAD_COST = 6_000_000
CELL_COST = 200_000
PACK_ROWS = 96
READ_COLS = 32

PERMISSION = (
    Refusal(4, "!has_instructions()", "the processor lacks one of amx-tile, amx-bf16, amx-int8"),
    Refusal(5, "!may_use_tiles()", "the system does not let the process use tile registers"),
)


@dataclass(frozen=True)
class AmxGemmPlan(PackedGemmPlan):
    """Numbers of `templates/c_openmp/gemm_amx.c.j2`: those of PackedGemm, with K in words of elements."""

    template: ClassVar[str] = "c_openmp/gemm_amx.c.j2"
    includes: ClassVar[tuple[str, ...]] = (*PackedGemmPlan.includes, "<cpuid.h>", "<immintrin.h>")
    hidden: ClassVar[frozenset[str]] = frozenset(
        "widen widen_end vector_bytes vector_counts row_counts a_source a_step packed_span tile_part a_part".split()
    )

    @classmethod
    def make(cls, problem: Gemm, schedule: AmxGemm, target: CpuTarget) -> AmxGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        packed = PackedGemmPlan.make(problem, schedule, target)
        base = {f.name: getattr(packed, f.name) for f in dataclasses.fields(packed)}
        kind = "amx-int8" if problem.dtype is I8 else "amx-bf16"
        words = schedule.tile[2] // word(problem)
        return cls(
            **base
            | words_of(problem)
            | {
                "block_k": words,
                "vectors": 0,
                "store_lanes": 0,
                "thread_cost": THREAD_COST,
                "cell_cost": CELL_COST,
                "pack_rows": PACK_ROWS,
                "read_cols": READ_COLS,
                "group_m": schedule.micro[0],
                "group_tiles": 1,
                "group_row": "depth * kWord",
                "k_unit": TILE,
                "left": "Element",
                "tiles": 1,
                "step": TILE * word(problem),
                "features": f"amx-tile,{kind},avx512bw,avx512dq,avx512vl",
                "dot": "_tile_dpbssd" if problem.dtype is I8 else "_tile_dpbf16ps",
                "tile_part": f"{PARTS}/gemm_tile_amx.c.j2",
                "a_part": f"{PARTS}/words_of_a_tiles.c.j2",
                "panel_bytes": schedule.tile[1] * words * 4,
                "group_bytes": schedule.micro[0] * words * 4,
            },
        )

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return PERMISSION
