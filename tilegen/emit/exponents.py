"""Exponentials of what is never above 0: an element less the largest of its row, as in a softmax."""

from __future__ import annotations

from tilegen.formula.nodes import Binary, Call, Name, Node, walk
from tilegen.problems.passes import Program


def negative_exponentials(program: Program) -> frozenset[Node]:
    """The calls of `exp` in a program whose argument is such a difference."""
    values = {v.name: v for p in program.passes for v in (*p.values, *p.reductions)}

    def is_negative(node: Node) -> bool:
        if isinstance(node, Name) and node.name in values and not values[node.name].op:
            node = values[node.name].node
        if not isinstance(node, Binary) or node.op != "-" or not isinstance(node.b, Name):
            return False
        top = values.get(node.b.name)
        return top is not None and top.op == "max" and top.node == node.a

    stored = [s.value for p in program.passes for s in p.stores]
    return frozenset(
        call
        for value in (*values.values(), *stored)
        for call in walk(value.node)
        if isinstance(call, Call) and call.function == "exp" and is_negative(call.args[0])
    )
