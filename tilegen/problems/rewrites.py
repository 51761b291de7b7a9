"""What a formula that no family covers may be rewritten to, and where in it a name stands."""

from __future__ import annotations

from dataclasses import replace

from tilegen.formula.diagnostics import index_span
from tilegen.formula.nodes import Assign, Name, Node, Operand, Span, transform, walk
from tilegen.formula.parsed import Formula
from tilegen.formula.text import statement_text


def neighbours(formula: Formula, order: tuple[str, ...], reduced: tuple[str, ...]) -> str:
    """The hint that makes the reduced indices neighbours, before the last one if that is not reduced.

    Args:
        order: every index, outer first.
        reduced: those that are reduced, in that order.
    """
    last = order[-1:] if order[-1] not in reduced else ()
    turned = [i for i in order if i not in (*reduced, *last)] + [*reduced, *last]
    shown = [
        f"{name}[{','.join(new)}] for {name}[{','.join(old)}]"
        for name, old in {**formula.operands, **formula.outputs}.items()
        if (new := [i for i in turned if i in old]) != list(old)
    ]
    return (
        f"Write {', '.join(shown)}, and call it with permuted views of the inputs: every index but the last "
        "has a stride, so nothing is copied."
    )


def in_rows(formula: Formula) -> str:
    """The hint that makes a reduction to one number the reduction of one row."""
    names = {*formula.index_names, *formula.operands, *formula.scalars}
    names |= {s.name for s in formula.statements}
    row = next(i for i in ("m", "b", "i", "row_index") if i not in names)
    read = {n.name for s in formula.statements for n in walk(s.value) if isinstance(n, Name)}

    def within(node: Node) -> Node:
        if not isinstance(node, Operand):
            return node
        return replace(node, indices=(row, *node.indices))

    text = "; ".join(
        statement_text(
            replace(
                s,
                value=transform(s.value, within),
                indices=None if s.name in read else (row,),
            )
        )
        for s in formula.statements
    )
    return f"Make it one row, with {row} = 1: {text}"


def name_span(formula: Formula, name: str) -> Span:
    """Where a name of the formula stands first: an operand, a scalar, an assignment or an index."""
    for s in formula.statements:
        for node in (s, *walk(s.value)):
            if isinstance(node, Assign | Name | Operand) and node.name == name:
                return replace(node.span, end=node.span.start + len(name))
            if name in (getattr(node, "indices", None) or ()):
                return index_span(formula.source, node.span, name)
    return Span()
