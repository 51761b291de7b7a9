"""Plans: every derived integer and the chosen parts; one plan class a schedule."""

from __future__ import annotations

from importlib import import_module

from tilegen.plans.base import Fact, Plan, ceil_div
from tilegen.spec import KernelSpec

# schedule class: module:class of its plan.
_PLANS = {
    "ColumnBlocks": "tilegen.plans.columns:ColumnBlocksPlan",
    "ColumnParts": "tilegen.plans.columns:ColumnPartsPlan",
    "ColumnLoops": "tilegen.plans.columns:ColumnLoopsPlan",
    "FullLoops": "tilegen.plans.full:FullLoopsPlan",
    "FullParts": "tilegen.plans.full:FullPartsPlan",
    "ElementLoops": "tilegen.plans.elementwise:ElementLoopsPlan",
    "ElementPacks": "tilegen.plans.elementwise:ElementPacksPlan",
    "TileLoops": "tilegen.plans.permute:TileLoopsPlan",
    "TileShared": "tilegen.plans.permute:TileSharedPlan",
    "RowLoops": "tilegen.plans.rowwise_c:RowLoopsPlan",
    "RowRegisters": "tilegen.plans.rowwise:RowRegistersPlan",
    "AmxAttention": "tilegen.plans.attention_amx:AmxAttentionPlan",
    "BlockedAttention": "tilegen.plans.attention_blocked:BlockedAttentionPlan",
    "MmaAttention": "tilegen.plans.attention_mma:MmaAttentionPlan",
    "BlockedAttentionBackward": "tilegen.plans.attention_backward_blocked:BlockedAttentionBackwardPlan",
    "MmaAttentionBackward": "tilegen.plans.attention_backward_mma:MmaAttentionBackwardPlan",
    "WgmmaAttentionBackward": "tilegen.plans.attention_backward_wgmma:WgmmaAttentionBackwardPlan",
    "DecodeAttention": "tilegen.plans.attention_decode:DecodeAttentionPlan",
    "WgmmaAttention": "tilegen.plans.attention_wgmma:WgmmaAttentionPlan",
    "SimtGemm": "tilegen.plans.gemm_simt:SimtGemmPlan",
    "MmaGemm": "tilegen.plans.gemm_mma:MmaGemmPlan",
    "PackedGemm": "tilegen.plans.gemm_packed:PackedGemmPlan",
    "AmxGemm": "tilegen.plans.gemm_amx:AmxGemmPlan",
    "AmxSkinnyGemm": "tilegen.plans.gemm_amx_skinny:AmxSkinnyGemmPlan",
    "PrepackedGemm": "tilegen.plans.gemm_prepacked:PrepackedGemmPlan",
    "VnniGemm": "tilegen.plans.gemm_vnni:VnniGemmPlan",
    "WgmmaGemm": "tilegen.plans.gemm_wgmma:WgmmaGemmPlan",
    "WgmmaGatedGemm": "tilegen.plans.gemm_wgmma_gated:WgmmaGatedGemmPlan",
    "WgmmaScaledGemm": "tilegen.plans.gemm_wgmma_scaled:WgmmaScaledGemmPlan",
    "WgmmaGroupedGemm": "tilegen.plans.gemm_wgmma_grouped:WgmmaGroupedGemmPlan",
    "GemvGemm": "tilegen.plans.gemm_gemv:GemvGemmPlan",
    "SkinnyGemm": "tilegen.plans.gemm_skinny:SkinnyGemmPlan",
}


def plan_class(schedule: str) -> type[Plan]:
    """The plan class of a schedule class, by the latter's name."""
    module, name = _PLANS[schedule].split(":")
    return getattr(import_module(module), name)


def plan_classes() -> list[type[Plan]]:
    """Every plan class."""
    return [plan_class(name) for name in _PLANS]


def make_plan(spec: KernelSpec) -> Plan:
    """Derive the plan of a kernel."""
    cls = plan_class(type(spec.schedule).__name__)
    return cls.make(spec.problem, spec.schedule, spec.target)


__all__ = ["Fact", "Plan", "ceil_div", "make_plan", "plan_class", "plan_classes"]
