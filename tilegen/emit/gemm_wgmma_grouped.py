"""Names of the WgmmaGroupedGemm templates beyond those of a plain product."""

from __future__ import annotations

from typing import Any

from tilegen.emit import gemm_wgmma
from tilegen.plans.gemm_wgmma_grouped import WgmmaGroupedGemmPlan


def context(plan: WgmmaGroupedGemmPlan) -> dict[str, Any]:
    """Template names: those of a plain product, with the rows of a group in place of all rows."""
    names = gemm_wgmma.context(plan)
    rows = {"shape": "rows", "at": "mine"}
    for key in ("store_arguments", "prefetch_arguments"):
        names[key] = [rows.get(word, word) for word in names[key]]
    stored_k = plan.load_b == "load_k"
    return names | {
        "b_extents": "depth, n" if stored_k else "n, depth",
        "b_box_text": ", ".join(plan.b_box),
        "y_index": plan.y_index,
        "map_element_type": plan.map_element,
    }
