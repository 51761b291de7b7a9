"""Which family of kernels a formula belongs to: its indices choose."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.formula.diagnostics import fault
from tilegen.formula.nodes import Assign, Binary, Operand, Reduce, walk
from tilegen.formula.text import node_text
from tilegen.formula.typed import TypedFormula
from tilegen.problems.rewrites import neighbours

ELEMENTWISE, ROWWISE, COLUMNS, FULL, PERMUTE = (
    "elementwise",
    "rowwise",
    "columns",
    "full",
    "permute",
)


@dataclass(frozen=True)
class Family:
    """A formula's family and the order in which it walks over its indices.

    Attributes:
        name: elementwise, rowwise, columns, full or permute.
        order: every index, outer first; the order of the outputs, with the reduced indices in their place.
        reduced: the indices that are reduced, in that order; empty for elementwise and permute.
    """

    name: str
    order: tuple[str, ...]
    reduced: tuple[str, ...]


def classify(typed: TypedFormula) -> Family:
    """Choose the family by the indices.

    No reduction, and every array lies along the last index of the outputs: elementwise. No reduction, and
    an input that lies along another index: permute. Reductions over the last indices: rowwise; over all: full; over indices before the last:
    columns.

    Raises:
        FormulaError: no family covers the formula; the caret is under the part that stands in the way, the
            hint is a rewrite that would fit.
    """
    source = typed.formula.source
    order = _order(typed)
    if not order:
        raise fault(
            source,
            typed.statements[0].span,
            "nothing here carries an index",
            "Give an output its indices: y[n] = x[n] * 2.",
        )
    _check_outputs(typed, order)
    reduced = _reduced(typed, order)
    _check_product(typed, reduced)
    crossed = _crossed(typed, order)
    if not reduced and crossed:
        _check_tile(typed, crossed)
        _check_whole(typed, order)
        return Family(PERMUTE, order, ())
    if len(reduced) < len(order):
        _check_whole(typed, order, tuple(i for i in order if i not in (reduced or order[-1:])))
    if not reduced:
        whole = all(s.indices == order for s in typed.statements if s.store is not None)
        return Family(ELEMENTWISE if whole else ROWWISE, order, ())
    if crossed:
        first = crossed[0]
        raise fault(
            source,
            first.span,
            f"{node_text(first)} is read across the order [{','.join(order)}] of a reduction",
            f"Permute it first, in a formula of its own: t[{_sorted(first, order)}] = {node_text(first)}.",
        )
    if len(reduced) == len(order):
        varying = [s for s in typed.statements if s.indices]
        if varying:
            raise fault(
                source,
                varying[0].span,
                "an output of a reduction over every index has none itself",
                "Reduce to a number first, and use it in a second formula: "
                f"total = sum(e, ({', '.join(reduced)})), then y = e / total[0].",
            )
        return Family(FULL, order, reduced)
    if order[-len(reduced) :] == reduced:
        return Family(ROWWISE, order, reduced)
    first = order.index(reduced[0])
    if order[first : first + len(reduced)] != reduced:
        raise fault(
            source,
            _first_reduction(typed).span,
            f"reduces over {', '.join(reduced)}, which are not neighbours in [{','.join(order)}]",
            neighbours(typed.formula, order, reduced),
        )
    return Family(COLUMNS, order, reduced)


def _order(typed: TypedFormula) -> tuple[str, ...]:
    """The longest index list, an output's before an input's, then the other indices as they appear."""
    outputs = [s.indices for s in typed.statements if s.store is not None]
    lists = [*outputs, *typed.formula.operands.values()]
    longest = max(lists, key=len, default=())
    return (*longest, *(i for i in typed.index_names if i not in longest))


def _check_whole(typed: TypedFormula, *wholes: tuple[str, ...]) -> None:
    """Every output has all indices of one of the orders: what has fewer would be stored more than once."""
    for s in typed.statements:
        if s.store is not None and s.indices not in wholes:
            shown = " or ".join(f"[{','.join(whole)}]" for whole in wholes)
            raise fault(
                typed.formula.source,
                s.span,
                f"'{s.name}' has the indices [{','.join(s.indices)}], where results of this formula have {shown}",
                f"Store it in a formula of its own, or with all indices: {s.name}[{','.join(wholes[0])}].",
            )


def _first_reduction(typed: TypedFormula) -> Reduce:
    return next(n for s in typed.statements for n in walk(s.value) if isinstance(n, Reduce))


def _reduced(typed: TypedFormula, order: tuple[str, ...]) -> tuple[str, ...]:
    found: frozenset[str] | None = None
    for s in typed.statements:
        for node in walk(s.value):
            if not isinstance(node, Reduce):
                continue
            if found is not None and found != set(node.indices):
                raise fault(
                    typed.formula.source,
                    node.span,
                    f"reduces over {', '.join(node.indices)} where another reduction takes "
                    f"{', '.join(i for i in order if i in found)}",
                    "Compute one of the two in a formula of its own and read its result here.",
                )
            if node.op in ("argmax", "argmin") and len(node.indices) > 1:
                raise fault(
                    typed.formula.source,
                    node.span,
                    f"{node.op} gives a position along one index, not {len(node.indices)}",
                    "Fold the indices into one: view the array with a single index for them.",
                )
            found = frozenset(node.indices)
    return tuple(i for i in order if i in (found or ()))


def _is_subsequence(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    rest = iter(whole)
    return all(i in rest for i in part)


def _check_product(typed: TypedFormula, reduced: tuple[str, ...]) -> None:
    """No sum is a product of matrices: each element would be read again for every row or column of the other."""
    for node in (n for s in typed.statements for n in walk(s.value)):
        if not (isinstance(node, Reduce) and node.op == "sum" and isinstance(node.a, Binary)):
            continue
        a, b = node.a.a, node.a.b
        if node.a.op != "*" or not (isinstance(a, Operand) and isinstance(b, Operand)):
            continue
        own = set(a.indices) - set(b.indices), set(b.indices) - set(a.indices)
        if all(own) and not own[0] & set(reduced) and not own[1] & set(reduced):
            letters = ("t" if a.indices[-1] in reduced else "n") + (
                "n" if b.indices[-1] in reduced else "t"
            )
            raise fault(
                typed.formula.source,
                node.span,
                "this is a product of matrices, which formulas alone do not tile",
                f"Emit gemm, --layout {letters}, and write what follows as its epilogue: 'gelu(acc + bias[n])'.",
            )


def _crossed(typed: TypedFormula, order: tuple[str, ...]) -> list[Operand]:
    """Operands along whose last index the outputs do not run."""
    return [
        n
        for s in typed.statements
        for n in walk(s.value)
        if isinstance(n, Operand) and order[-1] in n.indices[:-1]
    ]


def _check_tile(typed: TypedFormula, crossed: list[Operand]) -> None:
    """All crossed operands lie along one index, so that tiles have two."""
    for node in crossed:
        if node.indices[-1] != crossed[0].indices[-1]:
            raise fault(
                typed.formula.source,
                node.span,
                f"{node_text(node)} lies along {node.indices[-1]}, where {node_text(crossed[0])} lies "
                f"along {crossed[0].indices[-1]}",
                "Permute one of them first, in a formula of its own.",
            )


def _sorted(node: Operand | Assign, order: tuple[str, ...]) -> str:
    return ",".join(i for i in order if i in node.indices)


def _check_outputs(typed: TypedFormula, order: tuple[str, ...]) -> None:
    """Every output follows the common order."""
    for s in typed.statements:
        if s.store is not None and not _is_subsequence(s.indices, order):
            raise fault(
                typed.formula.source,
                s.span,
                f"'{s.name}' is not in the order [{','.join(order)}] of the longest output",
                f"Store it in that order, {s.name}[{_sorted(s, order)}], or in a formula of its own.",
            )
