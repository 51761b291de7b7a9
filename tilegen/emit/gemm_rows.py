"""Reductions of the rows of a GEMM's result as C text: what a part of a row has, and how parts become the row's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import literal, print_expr
from tilegen.emit.sweeps import start_value
from tilegen.formula import Name
from tilegen.formula.typing import converted
from tilegen.plans.base import Plan
from tilegen.problems.gemm import Gemm
from tilegen.problems.gemm_rows import RowReduction


@dataclass(frozen=True)
class RowText:
    """One reduction.

    Attributes:
        partial, type, start: the variable of a part, its C type, its value over nothing.
        parts: where the parts wait, [part][m], in the struct of the epilogue.
        joined: `{partial}` combined with `other`, what another lane has.
        finished: `{partial}` combined with the part of a row that the kernel of rows reads.
        store: the statement that stores the row's value.
    """

    partial: str
    type: str
    start: str
    parts: str
    joined: str
    finished: str
    store: str


def context(plan: Plan) -> dict[str, Any]:
    """Template names of `cuda/parts/gemm_rows.cuh.j2`, and of the stores that reduce rows."""
    problem: Gemm = plan.problem
    rows = problem.row_reductions
    texts = [_text(problem, row) for row in rows]
    return {
        "rows": texts,
        "row_parameters": "".join(f",\n    {t.type} &{t.partial}" for t in texts),
        "row_members": [f"{t.type} *{t.parts};  // [part][m]" for t in texts],
        "row_values": [_start(i) for i in range(len(rows))],
        "row_places": "".join(f",\n                      {t.partial}" for t in texts),
        "row_assignments": [f"{t.parts} = {_start(i)}" for i, t in enumerate(texts)],
        "row_arguments": [f"{t.partial}[half]" for t in texts],
        "row_kept": [f"{t.partial}[i / 2][i % 2]" for t in texts],
        "keep_parameters": [
            "const Epilogue &e",
            "const Shape &shape",
            "const Position &at",
            "int64_t m",
            *(f"{t.type} {t.partial}" for t in texts),
        ],
        "row_type": texts[0].type if texts else "",
        "row_count": len(rows),
    }


def partial_stores(problem: Gemm) -> dict[str, str]:
    """Where the statements of one element put what they add to a row, by output."""
    return {row.name: row.partial for row in problem.row_reductions}


def _start(number: int) -> str:
    """Where the parts of a reduction begin in the workspace, one array after the other."""
    distance = ("", " + m * parts_n")[number] if number < 2 else f" + {number} * m * parts_n"
    return f"row_parts{distance}"


def _text(problem: Gemm, row: RowReduction) -> RowText:
    kind = row.dtype
    tensor = next(t for t in problem.tensors() if t.name == row.name)
    parts = f"{row.name}_parts"

    def combined(mine: str, other: str) -> str:
        names = {row.partial: mine, "other": other}
        return print_expr(row.combined(Name("other", dtype=kind)), "cuda", names)

    value = print_expr(
        converted(Name(row.partial, dtype=kind), row.store), "cuda", {row.partial: row.partial}
    )
    return RowText(
        partial=row.partial,
        type=kind.cuda,
        start=literal(start_value(row.op, kind).value, kind),
        parts=parts,
        joined=combined(row.partial, "other"),
        finished=combined(row.partial, f"e.{parts}[part * rows + m]"),
        store=f"{tensors.element(tensor, 'e.')} = {value};",
    )
