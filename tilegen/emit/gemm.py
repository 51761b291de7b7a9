"""Names that every GEMM template needs beyond its plan: the epilogue as C text, the length of the sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilegen.emit import gemm_rows, gemm_vectors, tensors
from tilegen.emit.c_expr import helper_texts, includes_for, literal, print_statements
from tilegen.emit.filters import comment
from tilegen.plans.base import Plan
from tilegen.problems.gemm import Gemm

# Name of the struct in templates that holds the epilogue's arrays and scalars.
_STRUCT = "e"


def context(plan: Plan) -> dict[str, Any]:
    """The template names of a GEMM, both backends."""
    problem: Gemm = plan.problem
    cuda = plan.target.backend == "cuda"
    arrays = [t for t in problem.tensors() if t.name not in problem.product_arrays]
    access = "." if cuda else "->"
    places = {t.name: tensors.element(t, f"{_STRUCT}{access}") for t in arrays}
    reads = {t.name: places[t.name] for t in arrays if t.is_read}
    scalars = {s.name: f"{_STRUCT}{access}{s.name}" for s in problem.scalars()}
    specials = {name: name for name in problem.elements.specials}
    stores = {t.name: places[t.name] for t in arrays if t.is_written}
    if cuda:
        stores |= gemm_rows.partial_stores(problem)
    else:
        partials = gemm_rows.partial_places(problem)
        specials, stores = specials | partials["read"], stores | partials["write"]
    printed = print_statements(
        problem.elements, plan.target.backend, {**specials, **reads, **scalars}, stores
    )
    row_names = gemm_rows.context(plan)
    row_lines = [
        part for t in row_names["rows"] for part in (t.start, t.joined, t.finished, t.store)
    ]
    stored = [name for t in row_names["rows"] for name in t.helpers]
    helpers = helper_texts([*plan.helpers, *stored, *printed.helpers], plan.target.backend)
    needed = (
        *plan.includes,
        *includes_for([*helpers, *printed.lines, *row_lines], plan.target.backend),
    )
    names = {
        "computes": problem.title(),
        "formula_comment": comment(f"{problem.formula.text}, for one element."),
        "helpers": helpers,
        "includes": _includes(problem, needed, cuda),
        "epilogue_body": printed.lines,
        "unused_parameters": _unused(["e", *problem.indices], printed.lines),
        "epilogue_members": tensors.members(arrays, problem.scalars(), cuda),
        "epilogue_assignments": tensors.assignments(arrays, problem.scalars(), cuda),
        "result_parameters": ", ".join(f"int64_t {i}" for i in problem.indices),
        "result_position": ", ".join("at.batch" if i == "batch" else i for i in problem.indices),
        "acc_type": problem.accumulator.cuda if cuda else problem.accumulator.c,
        "batch_strides": [t.strides[0] for t in problem.tensors()[:2] if problem.batched],
        "strides_or": "".join(
            f" | {t.strides[0]}" for t in problem.tensors()[:2] if problem.batched
        ),
        "sum_length": _sum_length(problem),
        **row_names,
    }
    width = getattr(plan, "epilogue_vector", 0)
    return names | (gemm_vectors.context(plan, arrays, places, width) if width else {})


def _unused(names: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Parameters that no line reads, as where every output is a value of the whole row."""
    words = set(re.findall(r"\w+", " ".join(lines)))
    return [name for name in names if name not in words]


def _sum_length(problem: Gemm) -> str:
    """C text of the number of terms to sum: 0 where a scalar makes the epilogue ignore the sum."""
    scalar = problem.skips_sum_when_zero
    if scalar is None:
        return "k"
    return f"{scalar} == {literal(0.0, problem.typed.scalars[scalar])} ? 0 : k"


def _includes(problem: Gemm, printed: tuple[str, ...], cuda: bool) -> list[str]:
    found = set(printed)
    if cuda:
        headers = {"__half": "<cuda_fp16.h>", "__nv_bfloat16": "<cuda_bf16.h>"}
        for tensor in problem.tensors():
            kind = tensor.dtype.cuda
            if kind in headers:
                found.add(headers[kind])
            elif kind.startswith("__nv_fp8"):
                found.add("<cuda_fp8.h>")
    return sorted(found - {"<stdint.h>"})
