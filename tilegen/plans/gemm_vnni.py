"""The plan of VnniGemm."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.gemm_packed import GROUP_TILES, PARTS, PackedGemmPlan
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_vnni import WORD, VnniGemm
from tilegen.targets import CpuTarget


@dataclass(frozen=True)
class VnniGemmPlan(PackedGemmPlan):
    """Numbers of `templates/c_openmp/gemm_vnni.c.j2`: those of PackedGemm, with K in words of elements."""

    a_source: str
    a_step: str

    template: ClassVar[str] = "c_openmp/gemm_vnni.c.j2"
    includes: ClassVar[tuple[str, ...]] = (*PackedGemmPlan.includes, "<immintrin.h>")
    hidden: ClassVar[frozenset[str]] = frozenset(
        """quad_bytes packed_bytes lane_type exact widen widen_end turned a_k_contiguous transpose_part
        quad_part tile_part a_part""".split()
    )

    @classmethod
    def make(cls, problem: Gemm, schedule: VnniGemm, target: CpuTarget) -> VnniGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        packed = PackedGemmPlan.make(problem, schedule, target)
        base = {f.name: getattr(packed, f.name) for f in dataclasses.fields(packed)}
        words = schedule.tile[2] // WORD
        contiguous = problem.layout.a == "t"
        group_m = GROUP_TILES * schedule.micro[0]
        order = "columns" if problem.layout.b == "n" else "rows"
        return cls(
            **base
            | {
                "block_k": words,
                "packed": "int32_t",
                "group_m": group_m,
                "k_unit": 16 if words % 16 == 0 else 1,
                "in_words": 1,
                "b_part": f"{PARTS}/vnni_pack_b_{order}.c.j2",
                "panel_bytes": schedule.tile[1] * words * WORD,
                "group_bytes": group_m * (words + 1) * WORD,
            },
            a_source=(
                "(block->m + i + row) * call->lda + k"
                if contiguous
                else "k * call->lda + block->m + i + row"
            ),
            a_step="" if contiguous else " * call->lda",
        )

    def parts(self) -> tuple[str, ...]:
        return (self.b_part,)

    @property
    def helpers(self) -> tuple[str, ...]:
        return ()
