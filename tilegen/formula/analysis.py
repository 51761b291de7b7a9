"""Questions about a typed formula: what it reads, when it reads it, which parts are reductions."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.formula.nodes import Assign, Compare, Logical, Name, Node, Number, Operand, Select
from tilegen.formula.nodes import Unary, walk
from tilegen.formula.typed import TypedFormula


@dataclass(frozen=True)
class Assumption:
    """What is taken to be known: the scalar `name` equals `value`."""

    name: str
    value: int | float


def reads_under(typed: TypedFormula, *assumptions: Assumption) -> frozenset[str]:
    """Names that the outputs can still depend on when some scalars are known.

    `where` and `if else` evaluate only the chosen branch, so a condition that the assumptions settle
    drops the other branch: `where(alpha == 0, 0, alpha * acc)` under alpha = 0 reads `alpha` alone.
    Intermediates count as what they read.
    """
    known = {a.name: a.value for a in assumptions}
    by_name = {s.name: s for s in typed.statements if s.store is None}
    return frozenset().union(
        *(_reads(s.value, known, by_name) for s in typed.statements if s.store is not None)
    )


def unread_when(typed: TypedFormula, name: str) -> tuple[Assumption, ...]:
    """The single scalar values under which `name` (an operand or `acc`) is not read at all.

    A kernel may skip the loads, or the whole contraction, when one of them holds. Sorted by name.
    """
    candidates: dict[tuple[str, float], Assumption] = {}
    for statement in typed.statements:
        for node in walk(statement.value):
            found = _equality(node, typed) if isinstance(node, Compare) else None
            if found is not None:
                candidates[found.name, found.value] = found
    return tuple(a for _, a in sorted(candidates.items()) if name not in reads_under(typed, a))


def unread_when_zero(typed: TypedFormula, name: str) -> str | None:
    """The first scalar, by name, that leaves `name` unread when it is 0; None if there is none."""
    found = (a.name for a in unread_when(typed, name) if a.value == 0)
    return next(found, None)


def operands_by_indices(typed: TypedFormula) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Tensor operands that are read, grouped by their index tuple, in order of first mention."""
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, indices in typed.formula.operands.items():
        groups[indices] = (*groups.get(indices, ()), name)
    return groups


def _equality(node: Compare, typed: TypedFormula) -> Assumption | None:
    """The assumption that settles `scalar == literal` or `scalar != literal`, either way round."""
    if node.op not in ("==", "!="):
        return None
    for a, b in ((node.a, node.b), (node.b, node.a)):
        a = _bare(a)
        if isinstance(a, Name) and a.name in typed.scalars and isinstance(b, Number):
            return Assumption(a.name, b.value)
    return None


def _bare(node: Node) -> Node:
    """The node below conversions that binding put in."""
    while len(node.children()) == 1 and type(node).__name__ == "Cast":
        node = node.children()[0]
    return node


def _settled(node: Node, known: dict[str, float]) -> bool | None:
    """The value of a condition when the known scalars decide it, else None."""
    match node:
        case Number(value):
            return bool(value)
        case Unary("not", a):
            inner = _settled(a, known)
            return None if inner is None else not inner
        case Logical(op, a, b):
            values = (_settled(a, known), _settled(b, known))
            decisive = op == "or"
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        case Compare(op, a, b):
            a, b = _number(a, known), _number(b, known)
            if a is None or b is None:
                return None
            results = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b}
            return results.get(op, a != b)
    return None


def _number(node: Node, known: dict[str, float]) -> float | None:
    node = _bare(node)
    if isinstance(node, Number):
        return node.value
    return known.get(node.name) if isinstance(node, Name) else None


def _reads(node: Node, known: dict[str, float], by_name: dict[str, Assign]) -> frozenset[str]:
    if isinstance(node, Select):
        choice = _settled(node.condition, known)
        if choice is not None:
            return _reads(node.a if choice else node.b, known, by_name)
    if isinstance(node, Name) and node.name in by_name:
        return _reads(by_name[node.name].value, known, by_name)
    own = frozenset((node.name,)) if isinstance(node, Name | Operand) else frozenset()
    return own.union(*(_reads(child, known, by_name) for child in node.children()))
