"""What the template of AmxAttention needs besides: the function that turns its values."""

from __future__ import annotations

from typing import Any

from tilegen.emit.permute import Turn
from tilegen.plans.attention_amx import AmxAttentionPlan


def context(plan: AmxAttentionPlan) -> dict[str, Any]:
    """The names of the template."""
    return {"turned": Turn.of(plan.problem.dtype)}
