"""Types of expressions: promotion, literals in the type of their partner, every conversion explicit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilegen.errors import FormulaError
from tilegen.formula.functions import FUNCTIONS
from tilegen.formula.nodes import (
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
from tilegen.formula.text import node_text
from tilegen.values import BOOL, F32, F64, I32, I64, DType, dtype

ARITHMETIC = (BOOL, I32, I64, F32, F64)
"""The types that values are computed in, weakest first."""


class Typer:
    """Types the expressions of one formula.

    Args:
        compute: the type of float arithmetic, f32 or f64.
        name_type: the type of a bare name, raising FormulaError for an unknown one.
        operand_type: the storage type of an operand.
        fault: builds the error for a node: fault(node, problem, allowed).
    """

    def __init__(
        self,
        compute: DType,
        name_type: Callable[[Name], DType],
        operand_type: Callable[[Operand], DType],
        fault: Callable[[Node, str, str], FormulaError],
    ) -> None:
        self.compute = compute
        self.name_type = name_type
        self.operand_type = operand_type
        self.fault = fault

    def read(self, node: Node) -> Node:
        """The typed node, in a type of ARITHMETIC unless it is a Cast to a storage type."""
        match node:
            case Number(value):
                return replace(node, dtype=_literal_type(value, self.compute))
            case Name():
                return self._load(replace(node, dtype=self.name_type(node)))
            case Operand():
                return self._load(replace(node, dtype=self.operand_type(node)))
            case Unary("not", a):
                return replace(node, a=self.condition(a), dtype=BOOL)
            case Unary(_, a):
                a = self._number(self.value(a))
                return replace(node, a=a, dtype=a.dtype)
            case Logical(_, a, b):
                return replace(node, a=self.condition(a), b=self.condition(b), dtype=BOOL)
            case Compare(_, a, b):
                a, b = self.together([a, b])
                return replace(node, a=a, b=b, dtype=BOOL)
            case Select(c, a, b):
                c, (a, b) = self.condition(c), self.together([a, b])
                return replace(node, condition=c, a=a, b=b, dtype=a.dtype)
            case Binary():
                return self._binary(node)
            case Call():
                return self._call(node)
            case Cast(to, a):
                return self._cast(node, dtype(to), self.value(a))
            case Reduce():
                return self._reduce(node)
        raise AssertionError(f"no type rule for {type(node).__name__}")

    def value(self, node: Node) -> Node:
        """The typed node in a type that arithmetic is done in: a rounded half comes back as float."""
        return self._load(self.read(node))

    def condition(self, node: Node) -> Node:
        """The typed node, which must be bool."""
        typed = self.read(node)
        if typed.dtype != BOOL:
            raise self.fault(
                node,
                f"a condition is needed here, not a {typed.dtype} value",
                f"Compare it with something: {node_text(node)} != 0.",
            )
        return typed

    def together(self, nodes: list[Node] | tuple[Node, ...]) -> list[Node]:
        """The typed nodes in their common type; literals follow the others."""
        typed = [self.value(node) for node in nodes]
        weak = [n for n in typed if not _is_literal(n)] or typed
        common = max((n.dtype for n in weak), key=ARITHMETIC.index)
        for n in typed:
            if common != BOOL and _is_literal(n) and n.dtype.is_float and not common.is_float:
                common = self.compute
            if common == BOOL and n.dtype != BOOL:
                common = n.dtype
            if common == I32 and n.dtype == I64:
                common = I64
        return [converted(n, common) for n in typed]

    def as_float(self, node: Node) -> Node:
        return converted(self.value(node), self.compute)

    def _load(self, node: Node) -> Node:
        """A value of a storage type in the type it is computed in."""
        kind = node.dtype
        if kind in ARITHMETIC:
            if kind.is_float and kind != self.compute:
                return converted(node, self.compute)
            return node
        return converted(node, self.compute if kind.is_float else I32)

    def _number(self, node: Node) -> Node:
        return converted(node, I32) if node.dtype == BOOL else node

    def _binary(self, node: Binary) -> Node:
        if node.op == "/":
            return replace(
                node, a=self.as_float(node.a), b=self.as_float(node.b), dtype=self.compute
            )
        if node.op == "**":
            return self._power(node)
        a, b = (self._number(n) for n in self.together([node.a, node.b]))
        if node.op in ("//", "%") and a.dtype.is_float:
            instead = "floor(a / b)" if node.op == "//" else "a - b * floor(a / b)"
            raise self.fault(
                node, f"{node.op} takes integers, not {a.dtype}", f"For floats write {instead}."
            )
        return replace(node, a=a, b=b, dtype=a.dtype)

    def _power(self, node: Binary) -> Node:
        base, exponent = self._number(self.value(node.a)), self.value(node.b)
        whole = isinstance(exponent, Number) and float(exponent.value).is_integer()
        if whole and 2 <= exponent.value <= 4:
            exponent = replace(exponent, value=int(exponent.value), dtype=I32)
            return replace(node, a=base, b=exponent, dtype=base.dtype)
        if not base.dtype.is_float and not exponent.dtype.is_float:
            raise self.fault(
                node,
                "an integer power is 2, 3 or 4, written as a literal",
                f"Convert first: f32({node_text(node.a)})**{node_text(node.b)}.",
            )
        base, exponent = (converted(n, self.compute) for n in (base, exponent))
        return replace(node, a=base, b=exponent, dtype=self.compute)

    def _call(self, node: Call) -> Node:
        kind = FUNCTIONS[node.function].kind
        if kind == "float":
            args = [self.as_float(arg) for arg in node.args]
        else:
            args = [self._number(arg) for arg in self.together(node.args)]
        if kind == "rounding" and not args[0].dtype.is_float:
            return args[0]
        result = BOOL if node.function == "isnan" else args[0].dtype
        return replace(node, args=tuple(args), dtype=result)

    def _cast(self, node: Cast, to: DType, a: Node) -> Node:
        if isinstance(a, Number) and to in (F32, F64):
            return converted(a, to)
        if a.dtype == to:
            return a
        return replace(node, a=a, dtype=to)

    def _reduce(self, node: Reduce) -> Node:
        if node.op in ("any", "all"):
            return replace(node, a=self.condition(node.a), dtype=BOOL)
        a = self._number(self.value(node.a))
        if node.op in ("argmax", "argmin"):
            return replace(node, a=a, dtype=I64)
        if node.op in ("mean", "logsumexp"):
            a = converted(a, self.compute)
        if node.op in ("sum", "prod") and not a.dtype.is_float:
            a = converted(a, I64)
        return replace(node, a=a, dtype=a.dtype)


def converted(node: Node, to: DType) -> Node:
    """`node` converted to a type; a literal is rewritten, anything else gets a Cast."""
    if node.dtype == to:
        return node
    if isinstance(node, Cast) and node.a.dtype == to and to not in ARITHMETIC:
        return node.a
    if isinstance(node, Number) and to.is_float and to in ARITHMETIC:
        return replace(node, value=float(node.value), dtype=to)
    if isinstance(node, Number) and not node.dtype.is_float and to in (I32, I64):
        return replace(node, value=int(node.value), dtype=to)
    return Cast(to.name, node, span=node.span, dtype=to)


def _is_literal(node: Node) -> bool:
    return isinstance(node, Number)


def _literal_type(value: int | float | bool, compute: DType) -> DType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return compute
    return I32 if -(2**31) <= value < 2**31 else I64
