"""What a mask says about ranges of keys: the linear comparisons in it, and what they leave over.

A conjunct such as `j <= i`, `i - j < window` or `j < length[b]` bounds the keys of a query by a linear
term in i, integer scalars, integers of the batch, and integers of the query that the caller says do not
fall with it (`rising`). If the term does not fall with i, blocks of keys can be skipped for whole tiles, and
the mask is a comparison of columns with two limits a row. Other conjuncts are evaluated element by
element.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen import formula as fl
from tilegen.problems.attention import Attention
from tilegen.problems.attention_formulas import AttentionFormula
from tilegen.values import I32, I64

# A sum of integer multiples of names; the empty name is the constant.
Linear = Mapping[str, int]

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


@dataclass(frozen=True)
class KeyRange:
    """Bounds on the keys of a query.

    Attributes:
        ends: keys are below each of these.
        firsts: keys are not below any of these.
        rest: the conjuncts that are no such bound, or None.
    """

    ends: tuple[Linear, ...] = ()
    firsts: tuple[Linear, ...] = ()
    rest: AttentionFormula | None = None


def key_range(problem: Attention) -> KeyRange:
    """The bounds that the problem's mask proves, in the position of the query `i`."""
    if problem.causal:
        return KeyRange(ends=({"i": 1, "": 1},))
    mask = problem.mask_formula()
    if mask is None:
        return KeyRange()
    if len(mask.formula.statements) > 1:
        return KeyRange(rest=mask)
    integers = {n for n, kind in mask.typed.scalars.items() if not kind.is_float}
    integers |= {"seq_q", "seq_k"} & set(mask.formula.scalars)
    for name, kind in mask.typed.operands.items():
        indices = mask.formula.operands[name]
        if kind in (I32, I64) and (indices == ("b",) or name in problem.rising.split(",")):
            integers.add(f"{name}[{','.join(indices)}]")
    ends, firsts, kept = [], [], []
    for position, node in enumerate(_conjuncts(mask.formula.statements[-1].value)):
        bounds = _bounds(node, integers)
        if bounds is None:
            kept.append(position)
        else:
            ends += bounds[0]
            firsts += bounds[1]
    return KeyRange(tuple(ends), tuple(firsts), _rest(mask, kept))


def is_distance(node: fl.Node) -> bool:
    """Whether a node is the float of a sum of positions, each with factor 1 or -1: `j - i` in float32."""
    if not (isinstance(node, fl.Cast) and node.to == "f32"):
        return False
    term = _linear(node.a, set())
    if term is None or not {"i", "j"} & set(term):
        return False
    return all(abs(c) <= (1 if n else 1 << 20) and n in ("", "i", "j") for n, c in term.items())


def reads_distance(problem: Attention) -> bool:
    """Whether the score turns positions into floats."""
    score = problem.score_formula()
    statements = score.typed.statements if score else ()
    return any(is_distance(n) for s in statements for n in fl.walk(s.value))


def _rest(mask: AttentionFormula, kept: list[int]) -> AttentionFormula | None:
    """The mask with only the conjuncts at those positions."""
    if not kept:
        return None
    return replace(mask, typed=_keep(mask.typed, kept), placed=_keep(mask.placed, kept))


def _keep(typed: fl.TypedFormula, kept: list[int]) -> fl.TypedFormula:
    nodes = _conjuncts(typed.statements[-1].value)
    joined = functools.reduce(
        lambda a, b: fl.Logical("and", a, b, dtype=a.dtype), [nodes[position] for position in kept]
    )
    last = replace(typed.statements[-1], value=joined)
    return replace(typed, statements=(*typed.statements[:-1], last))


def _conjuncts(node: fl.Node) -> list[fl.Node]:
    if isinstance(node, fl.Logical) and node.op == "and":
        return _conjuncts(node.a) + _conjuncts(node.b)
    return [node]


def _bounds(node: fl.Node, integers: set[str]) -> tuple[list[Linear], list[Linear]] | None:
    """Exclusive ends and first keys that a comparison states, or None if it is no bound on j."""
    if not isinstance(node, fl.Compare) or node.op not in _FLIP:
        return None
    difference = _linear(fl.Binary("-", node.a, node.b), integers)
    if difference is None or abs(difference.get("j", 0)) != 1:
        return None
    op = node.op
    if difference["j"] == 1:
        term = {n: -c for n, c in difference.items() if n != "j"}
    else:
        term = {n: c for n, c in difference.items() if n != "j"}
        op = _FLIP[op]
    # Now j `op` term; it must not fall with i, nor depend on what a bound is not given.
    if any(c < 0 for n, c in term.items() if n == "i" or n.endswith("i]")) or {"b", "h"} & set(
        term
    ):
        return None
    after = {**term, "": term.get("", 0) + 1}
    if op == "<":
        return [term], []
    if op == "<=":
        return [after], []
    if op == ">=":
        return [], [term]
    if op == ">":
        return [], [after]
    return [after], [term]


def _linear(node: fl.Node, integers: set[str]) -> dict[str, int] | None:
    match node:
        case fl.Number(value=bool()):
            return None
        case fl.Number(value=int() as value):
            return {"": value}
        case fl.Name(name=name) if name in integers or name in ("i", "j", "b", "h"):
            return {name: 1}
        case fl.Operand(name=name, indices=indices) if f"{name}[{','.join(indices)}]" in integers:
            return {f"{name}[{','.join(indices)}]": 1}
        case fl.Unary(op="-", a=a):
            return _scaled(_linear(a, integers), -1)
        case fl.Binary(op="+" | "-" as op, a=a, b=b):
            left = _linear(a, integers)
            right = _scaled(_linear(b, integers), 1 if op == "+" else -1)
            if left is None or right is None:
                return None
            total = {n: left.get(n, 0) + right.get(n, 0) for n in {**left, **right}}
            return {n: c for n, c in total.items() if c or n == ""}
        case fl.Binary(op="*", a=a, b=b):
            left, right = _linear(a, integers), _linear(b, integers)
            if left is not None and right is not None and set(left) <= {""}:
                return _scaled(right, left.get("", 0))
            if left is not None and right is not None and set(right) <= {""}:
                return _scaled(left, right.get("", 0))
    return None


def _scaled(term: dict[str, int] | None, factor: int) -> dict[str, int] | None:
    return None if term is None else {n: c * factor for n, c in term.items()}
