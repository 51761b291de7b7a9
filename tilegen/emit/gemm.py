"""Names that every GEMM template needs beyond its plan: the epilogue as C text, conditions of the launcher."""

from __future__ import annotations

from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import CUDA, C, print_formula
from tilegen.plans.base import Plan
from tilegen.problems.gemm import Gemm


def context(plan: Plan) -> dict[str, Any]:
    """The template names of a GEMM, both backends."""
    problem: Gemm = plan.problem
    cuda = plan.target.backend == "cuda"
    dialect = CUDA if cuda else C
    operands = [t for t in problem.tensors() if t.name not in ("a", "b")]
    printed = print_formula(
        problem.typed,
        dialect,
        load=lambda name, indices: tensors.element(_find(operands, name), "e."),
        store=lambda name, indices: tensors.element(_find(operands, name), "e."),
        scalar=lambda name: f"e.{name}",
    )
    strides = [s for t in problem.tensors() if len(t.dims) == 3 and t.name in "ab" for s in t.strides[:1]]
    scalar = problem.skips_sum_when_zero
    names = {
        "computes": problem.title(),
        "formula": problem.formula.text,
        "helpers": printed.helpers,
        "includes": printed.includes,
        "epilogue_body": printed.lines,
        "epilogue_members": tensors.members(operands, problem.scalars(), cuda),
        "epilogue_assignments": tensors.assignments(operands, problem.scalars(), cuda),
        "result_parameters": ", ".join(f"int64_t {i}" for i in problem.indices),
        "result_position": ", ".join("at.batch" if i == "batch" else i for i in problem.indices),
        "acc_type": problem.accumulator.cuda if cuda else problem.accumulator.c,
        "batch_strides": strides,
        "sum_length": f"{scalar} == {dialect.literal(0.0, problem.typed.scalars[scalar])} ? 0 : k" if scalar else "k",
    }
    return names


def _find(operands, name):
    return next(t for t in operands if t.name == name)
