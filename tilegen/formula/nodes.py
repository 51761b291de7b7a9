"""The tree of a formula: small immutable nodes, each with the place in the text it came from.

The parser builds untyped nodes (`dtype` is None); binding returns the same classes with `dtype` set
and every conversion present as a `Cast`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tilegen.values import DType


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line of the formula's text: `line` counts from 1, columns from 0, end exclusive."""

    line: int = 1
    start: int = 0
    end: int = 0


NOWHERE = Span()


@dataclass(frozen=True, slots=True)
class Node:
    """Base of all nodes. `span` and `dtype` are keyword arguments of every node."""

    span: Span = field(default=NOWHERE, kw_only=True, compare=False, repr=False)
    dtype: DType | None = field(default=None, kw_only=True)

    def children(self) -> tuple[Node, ...]:
        """The direct operands of this node, left to right."""
        return ()


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal: int, float (inf and nan included) or bool."""

    value: int | float | bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A bare name: a scalar, a special value such as `acc`, an index used as a value, an intermediate."""

    name: str


@dataclass(frozen=True, slots=True)
class Operand(Node):
    """An element of a tensor operand, `residual[m,n]`."""

    name: str
    indices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-a` or `not a`."""

    op: str
    a: Node

    def children(self) -> tuple[Node, ...]:
        return (self.a,)


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic: op is one of + - * / // % **."""

    op: str
    a: Node
    b: Node

    def children(self) -> tuple[Node, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """One comparison: op is one of < <= > >= == !=."""

    op: str
    a: Node
    b: Node

    def children(self) -> tuple[Node, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """`a and b`, `a or b`."""

    op: str
    a: Node
    b: Node

    def children(self) -> tuple[Node, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`where(condition, a, b)` and `a if condition else b`: only the chosen branch is evaluated."""

    condition: Node
    a: Node
    b: Node

    def children(self) -> tuple[Node, ...]:
        return (self.condition, self.a, self.b)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of `functions.FUNCTIONS` applied to its arguments."""

    function: str
    args: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.args


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """A conversion to the type named `to`: written `f16(x)`, or put in by binding."""

    to: str
    a: Node

    def children(self) -> tuple[Node, ...]:
        return (self.a,)


@dataclass(frozen=True, slots=True)
class Reduce(Node):
    """A reduction of `a` over named indices, `sum(e, n)`."""

    op: str
    a: Node
    indices: tuple[str, ...]

    def children(self) -> tuple[Node, ...]:
        return (self.a,)


@dataclass(frozen=True, slots=True)
class Assign:
    """One statement. `name` is None for a bare expression, `indices` is None for a plain name.

    After binding, `store` is the dtype an output is stored in, and None for an intermediate.
    """

    name: str | None
    indices: tuple[str, ...] | None
    value: Node
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    store: DType | None = None


def walk(node: Node) -> Iterator[Node]:
    """Every node of the tree, parents before children, left to right."""
    yield node
    for child in node.children():
        yield from walk(child)


def rebuild(node: Node, children: tuple[Node, ...]) -> Node:
    """`node` with its children replaced, in the order of `Node.children`."""
    match node:
        case Unary() | Cast() | Reduce():
            return replace(node, a=children[0])
        case Binary() | Compare() | Logical():
            return replace(node, a=children[0], b=children[1])
        case Select():
            return replace(node, condition=children[0], a=children[1], b=children[2])
        case Call():
            return replace(node, args=children)
    return node


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with `change` applied to every node, children first; unchanged parts are shared."""
    old = node.children()
    new = tuple(transform(child, change) for child in old)
    if any(a is not b for a, b in zip(old, new, strict=True)):
        node = rebuild(node, new)
    return change(node)
