"""Nodes back to the language: one canonical text for every formula, with the fewest parentheses."""

from __future__ import annotations

import math

from tilegen.formula.functions import FUNCTIONS
from tilegen.formula.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Compare,
    Logical,
    Name,
    Node,
    Number,
    Operand,
    Reduce,
    Select,
    Unary,
)

LEVELS = {"or": 1, "and": 2, "not": 3, "compare": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6}
LEVELS |= {"%": 6, "negative": 7, "**": 8}
ATOM = 9
SELECT = 0


def statement_text(statement: Assign) -> str:
    """One statement: `h = ...`, `c[m,n] = ...`, or the bare expression."""
    if statement.name is None:
        return node_text(statement.value)
    indices = "" if statement.indices is None else f"[{','.join(statement.indices)}]"
    return f"{statement.name}{indices} = {node_text(statement.value)}"


def node_text(node: Node) -> str:
    """The expression in the formula language; parsing it again gives an equal node."""
    return _text(node)[0]


def number_text(value: int | float | bool) -> str:
    """A literal of the language: `inf` and `nan` by name, floats by their shortest repr."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return repr(value)


def _text(node: Node) -> tuple[str, int]:
    match node:
        case Number(value):
            text = number_text(value)
            return text, LEVELS["negative"] if text.startswith("-") else ATOM
        case Name(name):
            return name, ATOM
        case Operand(name, indices):
            return f"{name}[{','.join(indices)}]", ATOM
        case Unary("-", a):
            return f"-{_inside(a, LEVELS['negative'])}", LEVELS["negative"]
        case Unary(_, a):
            return f"not {_inside(a, LEVELS['not'])}", LEVELS["not"]
        case Binary("**", a, b):
            return f"{_inside(a, ATOM)}**{_inside(b, LEVELS['negative'])}", LEVELS["**"]
        case Binary(op, a, b) | Logical(op, a, b):
            level = LEVELS[op]
            return f"{_inside(a, level)} {op} {_inside(b, level + 1)}", level
        case Compare(op, a, b):
            level = LEVELS["compare"] + 1
            return f"{_inside(a, level)} {op} {_inside(b, level)}", LEVELS["compare"]
        case Select(c, a, b):
            return f"where({node_text(c)}, {node_text(a)}, {node_text(b)})", ATOM
        case Call(function, args):
            return f"{function}({', '.join(map(node_text, _shown(function, args)))})", ATOM
        case Cast(to, a):
            return f"{to}({node_text(a)})", ATOM
        case Reduce(op, a, indices):
            over = indices[0] if len(indices) == 1 else f"({', '.join(indices)})"
            return f"{op}({node_text(a)}, {over})", ATOM
    raise AssertionError(f"no text for {type(node).__name__}")


def _inside(node: Node, level: int) -> str:
    text, own = _text(node)
    return text if own >= level else f"({text})"


def _shown(function: str, args: tuple[Node, ...]) -> tuple[Node, ...]:
    """The arguments without trailing ones that equal the function's defaults."""
    row = FUNCTIONS[function]
    defaults = dict(enumerate(row.defaults, start=row.high - len(row.defaults)))
    shown = list(args)
    while len(shown) > row.low and shown[-1] == Number(defaults.get(len(shown) - 1, math.nan)):
        shown.pop()
    return tuple(shown)
