"""Reductions over the rows of a GEMM's result: outputs of its epilogue beside the result itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilegen.errors import FormulaError
from tilegen.formula import Assign, Binary, Call, Cast, Name, Node, Reduce, Special, TypedFormula
from tilegen.formula import node_text, walk
from tilegen.formula.diagnostics import fault
from tilegen.formula.typing import converted
from tilegen.values import DType

# Reductions whose parts combine to the same value, up to rounding, however a row is cut.
REDUCED = ("max", "min", "sum")


@dataclass(frozen=True)
class RowReduction:
    """An output with one value a row, such as `amax[m] = max(abs(d), n)`.

    Attributes:
        name: the output.
        op: max, min or sum.
        partial: the name of what a part of the row has of it.
        dtype: the type that it is computed in.
        store: the type that it is stored in.
    """

    name: str
    op: str
    partial: str
    dtype: DType
    store: DType

    def combined(self, other: Node) -> Node:
        """What a part has, named `partial`, and another value, as one value."""
        part = Name(self.partial, dtype=self.dtype)
        if self.op == "sum":
            return Binary("+", part, other, dtype=self.dtype)
        return Call(self.op, (part, other), dtype=self.dtype)


def split(typed: TypedFormula) -> tuple[TypedFormula, tuple[RowReduction, ...]]:
    """An epilogue cut into what one element adds to its row, and the reductions that this makes.

    The formula of an element has no reductions: it combines the element with the partial value of its row,
    which is one of its specials.

    Raises:
        FormulaError: a reduction that is no output of its own over n, or is read again; with a caret.
    """
    rows: list[RowReduction] = []
    statements: list[Assign] = []
    for s in typed.statements:
        _refuse_reads(typed, s, rows)
        reduction = next(_reductions(s.value), None)
        if reduction is None:
            statements.append(s)
            continue
        _require_row_output(typed, s, reduction)
        row = RowReduction(s.name, reduction.op, f"{s.name}_row", typed.compute, s.store)
        if row.partial in {*typed.operands, *typed.scalars, *typed.outputs, *typed.specials}:
            raise FormulaError(
                f"'{row.partial}' names what a part of a row has of {s.name}", "Rename it."
            )
        rows.append(row)
        value = row.combined(converted(reduction.a, row.dtype))
        statements.append(replace(s, value=value, indices=typed.index_names, store=row.dtype))
    partials = {r.partial: Special(r.dtype, typed.index_names) for r in rows}
    specials = {**typed.specials, **partials}
    return replace(typed, statements=tuple(statements), specials=specials), tuple(rows)


def refuse_rows(rows: Sequence[RowReduction], what: str) -> None:
    """Raise FormulaError if there are reductions of rows, which `what` does not compute."""
    if rows:
        name, op = rows[0].name, rows[0].op
        raise FormulaError(
            f"{what} does not reduce rows, as '{name}' does",
            f"Store what it reduces, and reduce that: tilegen emit '{name}[m] = {op}(x[m,n], n)'.",
        )


def _reductions(value: Node) -> Iterator[Reduce]:
    return (node for node in walk(value) if isinstance(node, Reduce))


def _require_row_output(typed: TypedFormula, s: Assign, reduction: Reduce) -> None:
    shown = node_text(reduction)
    source, span = typed.formula.source, reduction.span
    form = f"Reduce over n in an output of its own: row[m] = max({node_text(reduction.a)}, n)."
    if (
        s.indices != typed.index_names[:-1]
        or s.value is not reduction
        or any(_reductions(reduction.a))
    ):
        raise fault(source, span, f"an epilogue does not read a reduction: {shown}", form)
    if reduction.indices != ("n",):
        raise fault(source, span, f"an epilogue reduces rows, over n alone: {shown}", form)
    if reduction.op not in REDUCED:
        hint = f"An epilogue reduces by {', '.join(REDUCED)}."
        raise fault(source, span, f"an epilogue does not reduce rows by {reduction.op}", hint)
    if not reduction.a.dtype.is_float:
        value = reduction.a.a if isinstance(reduction.a, Cast) else reduction.a
        hint = f"Write {reduction.op}(f32({node_text(value)}), n)."
        raise fault(
            source, span, "an epilogue reduces rows of floats, and these are integers", hint
        )


def _refuse_reads(typed: TypedFormula, s: Assign, rows: list[RowReduction]) -> None:
    for node in walk(s.value):
        for row in rows:
            if isinstance(node, Name) and node.name == row.name:
                raise fault(
                    typed.formula.source,
                    node.span,
                    f"'{row.name}' is known only when the whole row is, after the epilogue",
                    f"Read it in an operator of its own, as {row.name}[m].",
                )
