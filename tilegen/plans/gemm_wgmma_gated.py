"""The plan of WgmmaGatedGemm: that of a plain product with twice the columns, and what the formula makes of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.gemm_wgmma import WgmmaGemmPlan
from tilegen.problems.gated_gemm import GatedGemm
from tilegen.schedules.gemm_wgmma_gated import WgmmaGatedGemm
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class WgmmaGatedGemmPlan(WgmmaGemmPlan):
    """Numbers and names of `templates/cuda/gemm_wgmma.cu.j2`, which loads two right matrices."""

    # What only consumers that share a tile, and a store from the registers, use.
    hidden: ClassVar[frozenset[str]] = WgmmaGemmPlan.hidden | {"x_index", "y_index"}

    @classmethod
    def make(
        cls, problem: GatedGemm, schedule: WgmmaGatedGemm, target: CudaTarget
    ) -> WgmmaGatedGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        plain = WgmmaGemmPlan.make(problem, schedule.like, target)
        values = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
        columns = schedule.tile[1]
        rows = "[kBlockN][kBlockK]" if plain.load_b == "load_k" else "[kBlockN / 64][kBlockK][64]"
        values |= {
            "schedule": schedule,
            "gated": 1,
            "block_n": columns,
            "y_rows": "2 * kBlockN",
            "right_rows": "2 * kBlockN",
            "b_shape": f"[2]{rows}",
            "load_b": f"{plain.load_b}_gated",
            "slice_rows": columns // schedule.cluster,
            "cluster_n": columns,
        }
        return cls(**values)
