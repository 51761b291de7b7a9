"""Names that the templates of formulas need beyond their plans; one function a template."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilegen.emit.accuracy import accuracy
from tilegen.plans.base import Plan

# template: module whose `context(plan)` gives its names.
_CONTEXTS = {
    "c_openmp/full.c.j2": "tilegen.emit.full",
    "cuda/full.cu.j2": "tilegen.emit.full",
    "c_openmp/columns.c.j2": "tilegen.emit.columns",
    "cuda/columns.cu.j2": "tilegen.emit.columns",
    "cuda/column_parts.cu.j2": "tilegen.emit.columns",
    "c_openmp/permute.c.j2": "tilegen.emit.permute",
    "cuda/permute.cu.j2": "tilegen.emit.permute",
    "c_openmp/elementwise.c.j2": "tilegen.emit.elementwise",
    "cuda/elementwise.cu.j2": "tilegen.emit.elementwise",
    "c_openmp/rowwise.c.j2": "tilegen.emit.rowwise_c",
    "cuda/rowwise.cu.j2": "tilegen.emit.rowwise_cuda",
}


def context(plan: Plan) -> dict[str, Any]:
    """The template names of a formula's kernel."""
    names = import_module(_CONTEXTS[plan.template]).context(plan)
    return names | {"computes": f"{names['computes']}\n\n{accuracy(plan.problem.typed)}"}
