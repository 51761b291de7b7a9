"""Reductions of the rows of a GEMM's result as C text: what a part of a row has, and how parts become the row's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import ExpressionPrinter, dialect, literal, print_expr
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
        parts: where the parts wait, [part][m] (C: [m][part]), in the struct of the epilogue.
        joined: what one lane has, `{partial}` (C: `lanes[i]`), combined with what another has.
        finished: `{partial}` combined with the part of a row that is read where rows are finished.
        store: the statement that stores the row's value.
        helpers: names of the functions that the store calls.
    """

    partial: str
    type: str
    start: str
    parts: str
    joined: str
    finished: str
    store: str
    helpers: tuple[str, ...]


def context(plan: Plan) -> dict[str, Any]:
    """Template names of the parts `gemm_rows` of both backends, and of the stores that reduce rows."""
    problem: Gemm = plan.problem
    cuda = plan.target.backend == "cuda"
    rows = problem.row_reductions
    texts = [_text(problem, row, cuda) for row in rows]
    if not cuda:
        room = f"lines(parts, sizeof({texts[0].type}))" if texts else ""
        return {
            "rows": texts,
            "row_parameters": "".join(f",\n{' ' * 32}{t.type} *{t.partial}" for t in texts),
            "row_values": [
                ("", " + parts")[i] if i < 2 else f" + {i} * parts" for i in range(len(rows))
            ],
            "row_room": f"{len(rows)} * {room}" if len(rows) > 1 else room,
        }
    sizes = [s.name for s in problem.sizes()]
    idle = [f"static_cast<void>({name});" for name in sizes if name not in ("m", "n")]
    return {
        # What the workspace does not depend on; and where the kernel has all rows, not a group's.
        "idle_sizes": "\n  ".join(idle),
        "rows_in_all": "all_rows" if "groups" in sizes else "m",
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
    """Where the statements of one element in CUDA put what they add to a row, by output."""
    return {row.name: row.partial for row in problem.row_reductions}


def partial_places(problem: Gemm) -> dict[str, dict[str, str]]:
    """Where the statements of one element in C read and write what they add to a row: through a pointer."""
    rows = problem.row_reductions
    return {
        "read": {row.partial: f"*{row.partial}" for row in rows},
        "write": {row.name: f"*{row.partial}" for row in rows},
    }


def _start(number: int) -> str:
    """Where the parts of a reduction begin in the workspace, one array after the other."""
    distance = ("", " + m * parts_n")[number] if number < 2 else f" + {number} * m * parts_n"
    return f"row_parts{distance}"


def _text(problem: Gemm, row: RowReduction, cuda: bool) -> RowText:
    kind = row.dtype
    tensor = next(t for t in problem.tensors() if t.name == row.name)
    parts = f"{row.name}_parts"

    def combined(mine: str, other: str) -> str:
        names = {row.partial: mine, "other": other}
        return print_expr(row.combined(Name("other", dtype=kind)), backend, names)

    backend, struct = ("cuda", "e.") if cuda else ("c_openmp", "e->")
    printer = ExpressionPrinter(dialect(backend), {row.partial: row.partial}, {}, frozenset())
    value = printer.text(converted(Name(row.partial, dtype=kind), row.store))
    read = f"{struct}{parts}[{'part * rows + m' if cuda else 'part'}]"
    return RowText(
        partial=row.partial,
        type=kind.cuda if cuda else kind.c,
        start=literal(start_value(row.op, kind).value, kind),
        parts=parts,
        joined=combined(row.partial, "other") if cuda else combined("lanes[i]", "lanes[i + half]"),
        finished=combined(row.partial, read),
        store=f"{tensors.element(tensor, struct)} = {value};",
        helpers=tuple(name for name in printer.used if not printer.dialect.is_library(name)),
    )
