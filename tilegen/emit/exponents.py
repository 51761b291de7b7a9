"""Exponentials of what is never above 0: an element less the largest of its row, as in a softmax."""

from __future__ import annotations

from dataclasses import replace

from tilegen.emit.c_expr.dialects import EXP_NEGATIVE
from tilegen.formula.nodes import Binary, Call, Name, Node, transform
from tilegen.problems.lowering import Store, Value
from tilegen.problems.passes import Pass, Program


def with_negative_exponents(program: Program) -> Program:
    """The program with `exp` of such a difference called by its own name, for which C has a shorter function."""
    values = {v.name: v for p in program.passes for v in (*p.values, *p.reductions)}

    def is_negative(node: Node) -> bool:
        if isinstance(node, Name) and node.name in values and not values[node.name].op:
            node = values[node.name].node
        if not isinstance(node, Binary) or node.op != "-" or not isinstance(node.b, Name):
            return False
        top = values.get(node.b.name)
        return top is not None and top.op == "max" and top.node == node.a

    def change(node: Node) -> Node:
        if isinstance(node, Call) and node.function == "exp" and is_negative(node.args[0]):
            return replace(node, function=EXP_NEGATIVE)
        return node

    def value(v: Value) -> Value:
        return replace(v, node=transform(v.node, change))

    def store(s: Store) -> Store:
        return replace(s, value=value(s.value))

    def sweep(p: Pass) -> Pass:
        return replace(
            p,
            values=tuple(map(value, p.values)),
            reductions=tuple(map(value, p.reductions)),
            stores=tuple(map(store, p.stores)),
        )

    return replace(program, passes=tuple(map(sweep, program.passes)))
