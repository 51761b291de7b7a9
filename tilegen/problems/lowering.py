"""A formula with reductions as named values: what is computed once a row, what once an element.

The tree of a bound formula becomes a list of values in order of computation. A *row* value does not vary
with the reduced indices, an *element* value does. Every reduction has a name, composite reductions (mean,
logsumexp, any, argmax ...) are written with the primitive ones, and what a varying expression contains that does
not vary is taken out and named, so that it is computed once. The primitive reductions are sum, prod, max and
min: argmax is the smallest position at which the maximum stands.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from tilegen.formula.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Compare,
    Name,
    Node,
    Number,
    Operand,
    Reduce,
    Select,
    rebuild,
    walk,
)
from tilegen.formula.typed import TypedFormula
from tilegen.formula.typing import converted
from tilegen.values import BOOL, F32, I64, DType

# Functions that cost more than keeping their result.
COSTLY = frozenset(
    """exp exp2 log log1p sqrt rsqrt tanh sin cos erf sigmoid elu selu gelu gelu_tanh silu mish softplus
    softcap""".split()
)
# The name of the number of elements that a reduction covers, in the compute type.
COUNT = "count"


@dataclass(frozen=True)
class Value:
    """One named value.

    Attributes:
        name: its name in the emitted text.
        node: the expression; its leaves are numbers, operands, and names of scalars and other values.
        dtype: its type.
        level: how many dependent reductions come before it.
        varies: whether it differs along the reduced indices, or is stored along them.
        op: for the result of a reduction, which one; `node` is then what is reduced. Else empty.
    """

    name: str
    node: Node
    dtype: DType
    level: int
    varies: bool
    op: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the expression mentions, in order, each once."""
        return tuple(dict.fromkeys(n.name for n in walk(self.node) if isinstance(n, Name)))

    @property
    def is_costly(self) -> bool:
        """Whether computing it again costs more than a load or two."""
        return any(is_costly(n) for n in walk(self.node))


@dataclass(frozen=True)
class Store:
    """An output: `value` is in the output's storage type.

    Attributes:
        name: the output operand.
        indices: its indices.
        value: the expression, as in `Value`.
        level, varies: as in `Value`.
    """

    name: str
    indices: tuple[str, ...]
    value: Value


@dataclass(frozen=True)
class Values:
    """A lowered formula.

    Attributes:
        reduced: the indices that reductions run over.
        values: every named value, each after what it mentions.
        stores: the outputs in order.
        positions: index names that are used as values, by the name they have in the expressions.
        counts: whether the number of reduced elements is used as the value `count`.
    """

    reduced: tuple[str, ...]
    values: tuple[Value, ...]
    stores: tuple[Store, ...]
    positions: dict[str, str]
    counts: bool

    @property
    def by_name(self) -> dict[str, Value]:
        return {v.name: v for v in self.values}


def is_costly(node: Node) -> bool:
    """Whether this one operation is a division, a power or a transcendental function."""
    if isinstance(node, Call):
        return node.function in COSTLY
    return isinstance(node, Binary) and node.op in ("/", "//", "%", "**")


def element_name(operand: Operand) -> str:
    """The local that holds an operand's element: `x_mn` for x[m,n]."""
    return (
        f"{operand.name}_{''.join(operand.indices)}" if operand.indices else f"{operand.name}_value"
    )


@dataclass
class _Lowering:
    typed: TypedFormula
    reduced: frozenset[str]
    taken: set[str]
    values: dict[str, Value] = field(default_factory=dict)
    known: dict[Node, str] = field(default_factory=dict)
    assigned: dict[str, tuple[Node, bool, int]] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)
    counts: bool = False

    def fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name

    def add(
        self, name: str, node: Node, level: int, varies: bool, op: str = "", dtype=None
    ) -> Name:
        kind = dtype or node.dtype
        self.values[name] = Value(name, node, kind, level, varies, op)
        return Name(name, dtype=kind)

    def level(self, node: Node) -> int:
        return max((self.values[n.name].level for n in self._named(node)), default=0)

    def varies(self, node: Node) -> bool:
        for n in walk(node):
            if isinstance(n, Operand) and self.reduced & set(n.indices):
                return True
            if isinstance(n, Name) and self.positions.get(n.name) in self.reduced:
                return True
        return any(self.values[n.name].varies for n in self._named(node))

    def _named(self, node: Node) -> list[Name]:
        return [n for n in walk(node) if isinstance(n, Name) and n.name in self.values]

    def rewrite(self, node: Node) -> Node:
        """The node in terms of named values, reductions computed before it."""
        match node:
            case Name(name) | Operand(name) if name in self.assigned:
                return self.assigned[name]
            case Name(name) if name in self.typed.index_names and name not in self.typed.scalars:
                local = f"{name}_index"
                self.positions[local] = name
                return replace(node, name=local)
            case Reduce():
                return self.reduction(node)
        children = tuple(self.rewrite(child) for child in node.children())
        return rebuild(node, children) if children else node

    def reduction(self, node: Reduce, name: str = "") -> Node:
        """A reduction in terms of primitive ones, its result named `name` if that is given."""
        a, kind = self.rewrite(node.a), node.dtype
        match node.op:
            case "mean":
                self.counts = True
                total = self.primitive("sum", a, kind)
                return self.row(
                    "mean", Binary("/", total, Name(COUNT, dtype=kind), dtype=kind), name
                )
            case "logsumexp":
                return self.row("logsumexp", self.logsumexp(a, kind), name)
            case "any" | "all":
                one, zero = Number(1.0, dtype=F32), Number(0.0, dtype=F32)
                flag = Select(a, one, zero, dtype=F32)
                found = self.primitive("max" if node.op == "any" else "min", flag, F32)
                return Compare(">", found, zero, dtype=kind)
            case "argmax" | "argmin":
                top = self.primitive(node.op.removeprefix("arg"), a, a.dtype)
                return self.primitive("min", self.position(a, top, node.indices[0]), kind, name)
        return self.primitive(node.op, a, kind, name)

    def position(self, a: Node, top: Name, index: str) -> Node:
        """The position of an element that equals the extreme `top`, or is NaN when that is; else the last."""
        found = Compare("==", a, top, dtype=BOOL)
        if a.dtype.is_float:
            odd = Call("isnan", (top,), dtype=BOOL)
            found = Select(odd, Call("isnan", (a,), dtype=BOOL), found, dtype=BOOL)
        name = self.fresh("found")
        found = self.hoist(found)
        found = self.add(name, found, self.level(found), True)
        here = self.rewrite(Name(index, dtype=I64))
        return Select(found, here, Number(2**63 - 1, dtype=I64), dtype=I64)

    def logsumexp(self, a: Node, kind: DType) -> Node:
        """log(sum(exp(a))) shifted by the maximum, unless that is infinite or NaN."""
        zero = Number(0.0, dtype=kind)
        top = self.primitive("max", a, kind)
        size = Call("abs", (top,), dtype=kind)
        finite = Compare("<", size, Number(math.inf, dtype=kind), dtype=BOOL)
        shift = self.row("shift", Select(finite, top, zero, dtype=kind))
        term = Call("exp", (Binary("-", a, shift, dtype=kind),), dtype=kind)
        log = Call("log", (self.primitive("sum", term, kind),), dtype=kind)
        return Binary("+", shift, log, dtype=kind)

    def primitive(self, op: str, a: Node, dtype: DType, name: str = "") -> Name:
        """Name the result of a primitive reduction."""
        argument = self.hoist(a)
        key = Reduce(op, argument, (), dtype=dtype)
        if key not in self.known:
            self.known[key] = name or self.fresh(f"row_{op}")
            self.add(self.known[key], argument, self.level(argument) + 1, False, op, dtype)
        return Name(self.known[key], dtype=dtype)

    def row(self, stem: str, node: Node, name: str = "") -> Name:
        """Name a value that does not vary."""
        if node not in self.known:
            self.known[node] = name or self.fresh(f"row_{stem}")
            self.add(self.known[node], node, self.level(node), False)
        return Name(self.known[node], dtype=node.dtype)

    def hoist(self, node: Node) -> Node:
        """The node with every largest part that does not vary, but for leaves, named."""
        if not node.children():
            return node
        if not self.varies(node):
            if isinstance(node, Cast) and not node.a.children():
                return node
            return self.row(_stem(node), node)
        return rebuild(node, tuple(self.hoist(child) for child in node.children()))

    def statement(self, s: Assign) -> Store | None:
        """Name the value of an intermediate, or of an output that is read later; return the output."""
        if s.store is None and isinstance(s.value, Reduce):
            node = self.reduction(s.value, s.name)
        else:
            node = self.rewrite(s.value)
        varies = self.varies(node)
        node = self.hoist(node) if varies else node
        if node.children() and (s.store is None or self._is_read_later(s)):
            name = s.name if s.store is None else self.fresh("_".join([s.name, "".join(s.indices)]))
            self.known.setdefault(node, name)
            node = self.add(name, node, self.level(node), varies)
        self.assigned[s.name] = node
        if s.store is None:
            return None
        node = converted(node, s.store)
        spread = varies or not self.reduced.isdisjoint(s.indices)
        return Store(s.name, s.indices, Value(s.name, node, s.store, self.level(node), spread))

    def _is_read_later(self, s: Assign) -> bool:
        later = self.typed.statements[self.typed.statements.index(s) + 1 :]
        return any(
            isinstance(n, Name | Operand) and n.name == s.name for t in later for n in walk(t.value)
        )


def _stem(node: Node) -> str:
    match node:
        case Call(function):
            return function
        case Binary(op):
            words = {
                "+": "total",
                "-": "difference",
                "*": "product",
                "**": "power",
                "%": "remainder",
            }
            return words.get(op, "quotient")
    return "value"


def lower(typed: TypedFormula, reduced: tuple[str, ...]) -> Values:
    """Name the values of a bound formula.

    Args:
        typed: the formula; every reduction in it runs over exactly the `reduced` indices.
        reduced: indices along which elements vary; those of the rows' own direction for a formula
            without reductions.

    Returns:
        The values in order of computation. Expressions that appear twice, vary and are costly are named
        too, so that they are computed once.
    """
    names = {*typed.operands, *typed.scalars, *typed.outputs, *typed.index_names, COUNT}
    names |= {f"{i}_index" for i in typed.index_names}
    names |= {s.name for s in typed.statements}
    work = _Lowering(typed, frozenset(reduced), names)
    stores = [store for s in typed.statements if (store := work.statement(s))]
    values, stores = _share(work, list(work.values.values()), stores)
    return Values(tuple(reduced), tuple(values), tuple(stores), dict(work.positions), work.counts)


def _share(
    work: _Lowering, values: list[Value], stores: list[Store]
) -> tuple[list[Value], list[Store]]:
    """Name the largest costly varying expressions that stand in more than one place."""
    while True:
        places = Counter(
            n
            for v in [*values, *(s.value for s in stores)]
            for n in walk(v.node)
            if n is not v.node or v.op or v.name in {s.name for s in stores}
            if is_costly(n) and work.varies(n)
        )
        named = {v.node: v.name for v in values if not v.op}
        twice = [n for n, c in places.items() if c > 1 or n in named]
        if not twice:
            return values, stores
        node = max(twice, key=lambda n: sum(1 for _ in walk(n)))
        name = named.get(node)
        if name is None:
            name = work.fresh("value")
            work.add(name, node, work.level(node), True)
        local = Name(name, dtype=node.dtype)

        def changed(value: Value) -> Value:
            if value.name == name:
                return value
            return replace(value, node=_substitute(value.node, node, local))

        values = [changed(v) for v in values]
        stores = [replace(s, value=changed(s.value)) for s in stores]
        if node not in named:
            first = next(i for i, v in enumerate([*values, None]) if v is None or name in v.names)
            values.insert(first, work.values[name])


def _substitute(node: Node, old: Node, new: Node) -> Node:
    if node == old:
        return new
    children = node.children()
    if not children:
        return node
    return rebuild(node, tuple(_substitute(child, old, new) for child in children))
