"""The plan of VnniGemm."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.gemm_packed import GROUP_TILES, PackedGemmPlan
from tilegen.plans.gemm_packed_text import PARTS, words_of
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_vnni import WORD, VnniGemm
from tilegen.targets import CpuTarget

# What makes an int8 unsigned, when it is added.
OFFSET = 128


@dataclass(frozen=True)
class VnniGemmPlan(PackedGemmPlan):
    """Numbers of `templates/c_openmp/gemm_vnni.c.j2`: those of PackedGemm, with K in words of elements."""

    template: ClassVar[str] = "c_openmp/gemm_vnni.c.j2"
    includes: ClassVar[tuple[str, ...]] = (*PackedGemmPlan.includes, "<immintrin.h>")
    hidden: ClassVar[frozenset[str]] = frozenset(
        "exact widen widen_end a_k_contiguous tile_part a_part dot packed_span".split()
    )

    @classmethod
    def make(cls, problem: Gemm, schedule: VnniGemm, target: CpuTarget) -> VnniGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        packed = PackedGemmPlan.make(problem, schedule, target)
        base = {f.name: getattr(packed, f.name) for f in dataclasses.fields(packed)}
        words = schedule.tile[2] // WORD
        contiguous = problem.layout.a == "t"
        group_m = GROUP_TILES * schedule.micro[0]
        return cls(
            **base
            | words_of(problem)
            | {
                "block_k": words,
                "group_m": group_m,
                "group_row": "(depth + 1)",
                "k_unit": 16 if words % 16 == 0 else 1,
                "offset": OFFSET,
                "tile_part": f"{PARTS}/gemm_tile_vnni.c.j2",
                "a_part": f"{PARTS}/words_of_a_vnni.c.j2",
                "a_source": (
                    "(block->m + i + row) * call->lda + k"
                    if contiguous
                    else "k * call->lda + block->m + i + row"
                ),
                "a_step": "" if contiguous else " * call->lda",
                "panel_bytes": schedule.tile[1] * words * WORD,
                "group_bytes": group_m * (words + 1) * WORD,
            },
        )
