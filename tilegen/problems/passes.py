"""Passes over a row: which reductions go together, what is kept between them, what is read when.

Pass p computes every reduction that depends on p earlier ones and stores every output that depends on no
more. A softmax takes three: its maximum, the sum of its exponentials, its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilegen.formula.nodes import Cast, Name, Node, Operand, rebuild
from tilegen.problems.lowering import Store, Value, Values, element_name
from tilegen.values import DType


@dataclass(frozen=True)
class Load:
    """An operand's element as a local.

    Attributes:
        name: the local, in the type that arithmetic is done in.
        operand: where it comes from.
        node: the conversion from the element's storage type; its leaf is the operand.
        dtype: type of the local.
        kept: whether a later pass uses the element again.
        first: whether this pass is the first to use it.
    """

    name: str
    operand: Operand
    node: Node
    dtype: DType
    kept: bool
    first: bool


@dataclass(frozen=True)
class Pass:
    """One sweep over the elements of a row.

    Attributes:
        loads: operand elements that this pass uses, in order of first use.
        recalled: element values computed and kept by an earlier pass that this one uses.
        values: element values that this pass computes, in order.
        kept: names among `values` that a later pass uses.
        reductions: reductions that this pass completes.
        stores: outputs that vary and are complete in this pass.
        after: row values that follow from the reductions, in order.
        stores_after: outputs that do not vary and are complete after this pass.
    """

    loads: tuple[Load, ...]
    recalled: tuple[Value, ...]
    values: tuple[Value, ...]
    kept: tuple[str, ...]
    reductions: tuple[Value, ...]
    stores: tuple[Store, ...]
    after: tuple[Value, ...]
    stores_after: tuple[Store, ...]

    @property
    def is_costly(self) -> bool:
        """Whether an element takes a division, a power or a transcendental function."""
        computed = (*self.values, *self.reductions, *(s.value for s in self.stores))
        return any(v.is_costly for v in computed)


@dataclass(frozen=True)
class Program:
    """A formula as work on one row.

    Attributes:
        reduced: the indices a row runs over.
        loads: operands that do not vary along the row.
        before: row values that depend on no reduction, in order.
        passes: the sweeps, in order.
        stores_before: outputs that depend on no element at all.
        positions: names of index values, and the index each is.
        counts: whether row values use `count`, the number of elements of a row.
    """

    reduced: tuple[str, ...]
    loads: tuple[Load, ...]
    before: tuple[Value, ...]
    passes: tuple[Pass, ...]
    stores_before: tuple[Store, ...]
    positions: dict[str, str]
    counts: bool

    @property
    def reductions(self) -> tuple[Value, ...]:
        return tuple(r for p in self.passes for r in p.reductions)


def arrange(lowered: Values, keep: str = "costly") -> Program:
    """Cut a lowered formula into passes.

    An element value may be kept for later passes when it is costly, or when it takes the place of two or
    more operands; anything else is computed again from what is kept.

    Args:
        keep: `costly` keeps all of these; `compact`, for rows in registers, only costly ones that take no more
            room than the operands they are computed from; `nothing` is for rows that nothing can hold.
    """
    locals_ = _Locals()
    values = [locals_.replace_in(v) for v in lowered.values]
    stores = [Store(s.name, s.indices, locals_.replace_in(s.value)) for s in lowered.stores]
    reduced = set(lowered.reduced)
    varying = {n for n, load in locals_.by_name.items() if reduced & set(load.operand.indices)}
    sizes = {n: locals_.by_name[n].operand.dtype.bytes for n in varying}
    sweeps = [
        (
            [v for v in values if v.op and v.level == number + 1],
            [s for s in stores if s.value.varies and s.value.level == number],
        )
        for number in range(_count(values, stores))
    ]
    work = _Keeping({v.name: v for v in values if v.varies}, sizes, keep)
    bodies = [work.sweep([*done, *(s.value for s in out)]) for done, out in sweeps]
    rows = [v for v in values if not v.varies and not v.op]
    flat = [s for s in stores if not s.value.varies]
    passes = tuple(
        Pass(
            loads=tuple(
                replace(
                    locals_.by_name[n],
                    kept=any(n in later.loads for later in bodies[number + 1 :]),
                    first=not any(n in earlier.loads for earlier in bodies[:number]),
                )
                for n in body.loads
            ),
            recalled=tuple(work.values[n] for n in body.recalled),
            values=tuple(v for v in values if v.name in body.computed),
            kept=tuple(n for n in body.computed if n in work.kept),
            reductions=tuple(done),
            stores=tuple(out),
            after=tuple(v for v in rows if v.level == number + 1),
            stores_after=tuple(s for s in flat if s.value.level == number + 1),
        )
        for number, ((done, out), body) in enumerate(zip(sweeps, bodies, strict=True))
    )
    return Program(
        reduced=lowered.reduced,
        loads=tuple(load for n, load in locals_.by_name.items() if n not in varying),
        before=tuple(v for v in rows if v.level == 0),
        passes=passes,
        stores_before=tuple(s for s in flat if s.value.level == 0),
        positions=lowered.positions,
        counts=lowered.counts,
    )


def _count(values: list[Value], stores: list[Store]) -> int:
    """How many passes there are: up to the last reduction and the last output that varies."""
    done = [v.level for v in values if v.op]
    out = [s.value.level + 1 for s in stores if s.value.varies]
    return max(done + out, default=0)


class _Locals:
    """Locals for operand elements, one for each type that an operand is used in."""

    def __init__(self) -> None:
        self.by_name: dict[str, Load] = {}
        self.names: dict[tuple[str, DType], str] = {}

    def replace_in(self, value: Value) -> Value:
        return replace(value, node=self.node(value.node))

    def node(self, node: Node) -> Node:
        if isinstance(node, Operand):
            return self.local(node, node)
        if isinstance(node, Cast) and isinstance(node.a, Operand):
            return self.local(node.a, node)
        children = node.children()
        return rebuild(node, tuple(self.node(child) for child in children)) if children else node

    def local(self, operand: Operand, node: Node) -> Name:
        key = (operand.name, node.dtype)
        if key not in self.names:
            name = element_name(operand)
            if name in self.by_name:
                name = f"{name}_{node.dtype.name}"
            self.names[key] = name
            self.by_name[name] = Load(name, operand, node, node.dtype, False, False)
        return Name(self.names[key], dtype=node.dtype)


@dataclass
class _Body:
    loads: dict[str, None] = field(default_factory=dict)
    recalled: dict[str, None] = field(default_factory=dict)
    computed: dict[str, None] = field(default_factory=dict)


class _Keeping:
    """Decides, pass after pass, what is computed, what is recalled from an earlier pass, what is loaded."""

    def __init__(self, values: dict[str, Value], varying: dict[str, int], keep: str) -> None:
        self.values = values
        self.varying = varying
        self.keep = keep
        self.available: set[str] = set()
        self.kept: set[str] = set()

    def sweep(self, roots: list[Value]) -> _Body:
        body = _Body()
        for root in roots:
            for name in root.names:
                self.need(name, body)
        self.available |= set(body.computed)
        return body

    def need(self, name: str, body: _Body) -> None:
        if name in self.varying:
            body.loads[name] = None
        elif name in self.values and name not in body.computed and name not in body.recalled:
            value = self.values[name]
            if name in self.available and self.is_worth_keeping(value):
                self.kept.add(name)
                body.recalled[name] = None
                return
            for inner in value.names:
                self.need(inner, body)
            body.computed[name] = None

    def is_worth_keeping(self, value: Value) -> bool:
        operands = self.operands(value)
        if self.keep == "compact":
            room = sum(self.varying[name] for name in operands)
            return value.is_costly and value.dtype.bytes <= room
        return self.keep == "costly" and (value.is_costly or len(operands) > 1)

    def operands(self, value: Value) -> set[str]:
        """Operand locals that the value is computed from."""
        found = {n for n in value.names if n in self.varying}
        return found.union(
            *(self.operands(self.values[n]) for n in value.names if n in self.values)
        )
