"""Typed expressions as C: precedence exactly preserved, no parenthesis that is not needed."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.emit.c_expr.dialects import EXP_NEGATIVE, TAILS, Dialect
from tilegen.emit.c_expr.literals import literal
from tilegen.errors import TemplateFault
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
    Select,
    Unary,
)
from tilegen.formula.text import node_text
from tilegen.values import BOOL, F32, F64, I8, I32, I64, TF32, U8, DType

SELECT, OR, AND, EQUALITY, RELATION, SUM, PRODUCT, UNARY, ATOM = range(9)
LEVELS = {"or": OR, "and": AND, "==": EQUALITY, "!=": EQUALITY, "+": SUM, "-": SUM}
LEVELS |= {"*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
LEVELS |= dict.fromkeys(("<", "<=", ">", ">="), RELATION)
SYMBOLS = {"or": "||", "and": "&&"}
POWERS = {2: "square", 3: "cube", 4: "fourth"}


class ExpressionPrinter:
    """Prints expressions of one formula in one dialect.

    Args:
        names: C text of names: scalars, indices, specials and intermediates (their own name when left
            out), operands (`x[n]` when left out and of rank 1). A text must be a C primary or postfix
            expression.
        loaded: operands and specials whose C text already has a value of the given type, because the
            kernel converted it when it read it.
        nonnegative: names of integers that are never negative, as indices are.
        locals: C names of the values that statements have computed, by the name they assign.

    Attributes:
        used: C functions that the printed text calls, in order of first use.
        negative: calls of `exp` whose argument is known to be 0 at most.
    """

    def __init__(
        self,
        dialect: Dialect,
        names: Mapping[str, str],
        loaded: Mapping[str, DType],
        nonnegative: frozenset[str],
        locals: Mapping[str, str] | None = None,
    ) -> None:
        self.dialect = dialect
        self.names = names
        self.loaded = loaded
        self.nonnegative = nonnegative
        self.locals = locals or {}
        self.used: dict[str, None] = {}
        self.negative: frozenset[Node] = frozenset()

    def text(self, node: Node) -> str:
        """The expression, without outer parentheses."""
        return self._print(node)[0]

    def _inside(self, node: Node, level: int) -> str:
        text, own = self._print(node)
        return text if own >= level else f"({text})"

    def call(self, function: str, *args: str) -> tuple[str, int]:
        """A function call, its name remembered."""
        self.used[function] = None
        return f"{function}({', '.join(args)})", ATOM

    def _print(self, node: Node) -> tuple[str, int]:
        match node:
            case Number(value):
                text = literal(value, node.dtype)
                return text, UNARY if text.startswith("-") else ATOM
            case Name(name):
                return self.locals.get(name) or self.names.get(name, name), ATOM
            case Operand():
                return self._operand(node), ATOM
            case Unary(op, a):
                return self._unary(op, a)
            case Logical(op, a, b):
                return self._logical(op, a, b)
            case Compare(op, a, b):
                left, right = self._inside(a, SUM), self._inside(b, SUM)
                return f"{left} {op} {right}", LEVELS[op]
            case Select(c, a, b):
                condition, chosen = self._inside(c, OR), self._inside(a, OR)
                return f"{condition} ? {chosen} : {self._inside(b, SELECT)}", SELECT
            case Binary(op, a, b):
                return self._binary(node, op, a, b)
            case Call(function, args):
                name = EXP_NEGATIVE if node in self.negative else function
                callee = self.dialect.function(name, args[0].dtype)
                return self.call(callee, *(self.text(arg) for arg in args))
            case Cast():
                return self._cast(node)
        raise TemplateFault(f"{node_text(node)} is computed by the kernel, not by an expression")

    def _operand(self, node: Operand) -> str:
        if node.name in self.names:
            return self.names[node.name]
        if len(node.indices) == 1:
            return f"{node.name}[{self.names.get(node.indices[0], node.indices[0])}]"
        raise TemplateFault(f"no C text was given for the operand {node_text(node)}")

    def _unary(self, op: str, a: Node) -> tuple[str, int]:
        if op == "not":
            return f"!{self._inside(a, ATOM)}", UNARY
        inner = self._inside(a, UNARY)
        return (f"-({inner})" if inner.startswith("-") else f"-{inner}"), UNARY

    def _logical(self, op: str, a: Node, b: Node) -> tuple[str, int]:
        level = LEVELS[op]
        sides = []
        for side, need in ((a, level), (b, level + 1)):
            mixed = isinstance(side, Logical) and side.op != op
            sides.append(self._inside(side, ATOM if mixed else need))
        return f"{sides[0]} {SYMBOLS[op]} {sides[1]}", level

    def _binary(self, node: Binary, op: str, a: Node, b: Node) -> tuple[str, int]:
        if op == "**":
            return self._power(node, a, b)
        if op in ("//", "%"):
            if not (self._nonnegative(a) and self._positive(b)):
                helper = "floor_div" if op == "//" else "floor_mod"
                return self.call(helper + TAILS[node.dtype], self.text(a), self.text(b))
            op = op[0]
        level = LEVELS[op]
        left = self._inside(a, level)
        if node.dtype == I64 and _constant(a) and _constant(b):
            left = self.dialect.cast(I64, self._inside(a, UNARY))
        return f"{left} {op} {self._inside(b, level + 1)}", level

    def _power(self, node: Binary, a: Node, b: Node) -> tuple[str, int]:
        kind = node.dtype
        if isinstance(b, Number) and not b.dtype.is_float:
            base = self.text(a)
            if isinstance(a, Name) and base.isidentifier() and b.value < 4:
                return " * ".join([base] * b.value), PRODUCT
            return self.call(POWERS[b.value] + TAILS[kind], base)
        return self.call(self.dialect.function("pow", kind), self.text(a), self.text(b))

    def _cast(self, node: Cast) -> tuple[str, int]:
        source, kind, a = node.a.dtype, node.dtype, node.a
        if isinstance(a, Name | Operand) and self.loaded.get(a.name) == kind:
            return self._print(a)
        if kind in (F32, F64) and source.is_float:
            return self._to_compute(a, source, kind)
        if kind.is_float and kind not in (F32, F64):
            return self._to_storage(a, source, kind)
        if not kind.is_float and source.is_float:
            return self._round(a, source, kind)
        if kind in (I8, U8) or (kind == I32 and source == I64):
            return self._saturate(a, source, kind)
        if kind == BOOL:
            return f"{self._inside(a, SUM)} != 0", EQUALITY
        if kind.is_float:
            return self._plain(kind, a)
        return self._plain(I64, a) if _constant(a) and kind == I64 else self._print(a)

    def _plain(self, kind: DType, a: Node) -> tuple[str, int]:
        if self.dialect.name == "cuda":
            return self.dialect.cast(kind, self.text(a)), ATOM
        return self.dialect.cast(kind, self._inside(a, UNARY)), UNARY

    def _to_compute(self, a: Node, source: DType, kind: DType) -> tuple[str, int]:
        if source in (F32, TF32):
            return self._print(a) if kind == F32 else self._plain(F64, a)
        if source == F64:
            return self._plain(F32, a)
        load = self.dialect.loads[source.name]
        inner = self.call(load, self.text(a)) if load else self._plain(F32, a)
        if kind == F32:
            return inner
        return self.dialect.cast(F64, inner[0]), ATOM if self.dialect.name == "cuda" else UNARY

    def _to_storage(self, a: Node, source: DType, kind: DType) -> tuple[str, int]:
        text = self.text(a) if source in (F32, TF32) else self._plain(F32, a)[0]
        if kind == TF32:
            return self.call("round_tf32", text)
        return self.call(self.dialect.stores[kind.name], text)

    def _round(self, a: Node, source: DType, kind: DType) -> tuple[str, int]:
        if source == F32 and kind != I64:
            return self.call(f"round_to_{kind}", self.text(a))
        wide = self.call("round_to_i64", self.text(a))
        if kind == I64:
            return wide
        narrow = self.call("saturate_i32", wide[0])
        return narrow if kind == I32 else self.call(f"saturate_{kind}", narrow[0])

    def _saturate(self, a: Node, source: DType, kind: DType) -> tuple[str, int]:
        text = self.text(a)
        if source == I64:
            text = self.call("saturate_i32", text)[0]
        return (text, ATOM) if kind == I32 else self.call(f"saturate_{kind}", text)

    def _nonnegative(self, node: Node) -> bool:
        """Whether an integer is known not to be negative, so that C's / and % are Python's."""
        match node:
            case Number(value):
                return value >= 0
            case Name(name):
                return name in self.nonnegative
            case Cast(_, a):
                return a.dtype in (BOOL, U8) or self._nonnegative(a)
            case Binary("+" | "*" | "//", a, b):
                return self._nonnegative(a) and self._nonnegative(b)
            case Binary("%", _, b):
                return self._positive(b)
        return False

    def _positive(self, node: Node) -> bool:
        return isinstance(node, Number) and node.value > 0


def _constant(node: Node) -> bool:
    """Whether the expression is made of literals alone, which C would compute as int."""
    children = node.children()
    return all(map(_constant, children)) if children else isinstance(node, Number)
