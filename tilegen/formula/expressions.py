"""Expressions: one `ast` expression to one node, refusing what the language lacks."""

from __future__ import annotations

import ast
import functools
import math

from tilegen.errors import FormulaError
from tilegen.formula.diagnostics import fault, listing, nearest
from tilegen.formula.functions import (
    CASTS,
    CONSTANTS,
    FOREIGN,
    FUNCTIONS,
    MANY,
    REDUCTIONS,
    RESERVED,
)
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
    Span,
    Unary,
)

BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
ALL_OPERATORS = "Operators: + - * / // % ** < <= > >= == != and or not, `a if c else b`."
# What to write instead of an operator that the language lacks.
REWRITES = {
    ast.BitXor: "A power is x ** 2.",
    ast.MatMult: "A product of matrices is the operator gemm.",
    ast.LShift: "Multiply by a power of two.",
    ast.RShift: "Divide by a power of two.",
}
REFUSED = {
    ast.Attribute: ("a formula has no attributes", "Call the function by its bare name: exp(x)."),
    ast.Lambda: ("a formula has no lambda", "Name an intermediate instead: h = ..."),
    ast.List: ("a formula has no lists", ALL_OPERATORS),
    ast.Dict: ("a formula has no dictionaries", ALL_OPERATORS),
    ast.Set: ("a formula has no sets", ALL_OPERATORS),
    ast.Tuple: ("one value is needed here, not a tuple", "Write several assignments instead."),
    ast.ListComp: ("a formula has no comprehensions", "Reduce with sum(e, n) and the like."),
    ast.GeneratorExp: ("a formula has no comprehensions", "Reduce with sum(e, n) and the like."),
    ast.JoinedStr: ("a formula has no strings", ALL_OPERATORS),
    ast.NamedExpr: ("a formula has no :=", "Put the assignment before, separated by ;"),
    ast.Starred: ("a formula has no *arguments", "Write the arguments one by one."),
    ast.Await: ("a formula has no await", ALL_OPERATORS),
}


class ExpressionReader:
    """Reads expressions of one formula.

    Attributes:
        text: the user's text, for messages.
        place: finds an `ast` node's span in it.
        index_names: names that stand in a subscript anywhere in the formula.
    """

    def __init__(self, text: str, place, index_names: frozenset[str]) -> None:
        self.text = text
        self.place = place
        self.index_names = index_names

    def fault(self, node: ast.AST, problem: str, allowed: str = "") -> FormulaError:
        return fault(self.text, self.place(node), problem, allowed)

    def read(self, node: ast.expr) -> Node:
        """The node for `node`; FormulaError with a caret for what the language lacks."""
        span = self.place(node)
        match node:
            case ast.Constant(value=value):
                return self._constant(node, value, span)
            case ast.Name(id=name):
                return self._name(node, name, span)
            case ast.Subscript(value=ast.Name(id=name)):
                self._own(node, name)
                return Operand(name, self.indices(node), span=span)
            case ast.Subscript():
                raise self.fault(node, "only a named operand has indices", "Write bias[n].")
            case ast.UnaryOp(op=ast.USub()):
                return self._negative(self.read(node.operand), span)
            case ast.UnaryOp(op=ast.UAdd()):
                return self.read(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                return Unary("not", self.read(node.operand), span=span)
            case ast.BinOp() if type(node.op) in BINARY:
                left, right = self.read(node.left), self.read(node.right)
                return Binary(BINARY[type(node.op)], left, right, span=span)
            case ast.BinOp() | ast.UnaryOp():
                rewrite = REWRITES.get(type(node.op), "For conditions use and, or, not.")
                allowed = f"{rewrite} {ALL_OPERATORS}"
                raise self.fault(node, "this operator is not part of the language", allowed)
            case ast.Compare():
                return self._compare(node, span)
            case ast.BoolOp():
                op = "and" if isinstance(node.op, ast.And) else "or"
                values = [self.read(value) for value in node.values]
                return functools.reduce(lambda a, b: Logical(op, a, b, span=span), values)
            case ast.IfExp():
                parts = (self.read(part) for part in (node.test, node.body, node.orelse))
                return Select(*parts, span=span)
            case ast.Call():
                return self._call(node, span)
        problem, allowed = REFUSED.get(
            type(node), ("this expression is not part of the language", ALL_OPERATORS)
        )
        raise self.fault(node, problem, allowed)

    def indices(self, node: ast.Subscript) -> tuple[str, ...]:
        """The index names of `x[m,n]`, each a bare name and used once."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        names = []
        for part in parts:
            if not isinstance(part, ast.Name):
                raise self.fault(part, "an index is a bare name", _index_hint(part))
            if part.id in RESERVED:
                raise self.fault(
                    part, f"'{part.id}' belongs to the language and is no index", "Write bias[n]."
                )
            if part.id in names:
                raise self.fault(
                    part, f"index '{part.id}' is used twice in one operand", "Use two names."
                )
            names.append(part.id)
        return tuple(names)

    def _own(self, node: ast.AST, name: str) -> None:
        if name in RESERVED:
            raise self.fault(
                node,
                f"'{name}' is a word of the language and cannot name an operand",
                "Call a function with (); give the operand another name.",
            )
        if name in self.index_names:
            raise self.fault(node, f"'{name}' is an index here and has no elements")

    def _constant(self, node: ast.AST, value: object, span: Span) -> Node:
        if isinstance(value, (bool, int, float)):
            if type(value) is int and not -(2**63) <= value < 2**63:
                raise self.fault(node, "this integer does not fit 64 bits", "Write it as a float.")
            return Number(value, span=span)
        kind = {str: "strings", bytes: "strings", complex: "complex numbers"}.get(type(value))
        raise self.fault(
            node, f"a formula has no {kind or 'such literals'}", "Numbers are int or float."
        )

    def _name(self, node: ast.AST, name: str, span: Span) -> Node:
        if name in CONSTANTS:
            return Number(CONSTANTS[name], span=span)
        if name in FUNCTIONS or name in REDUCTIONS or name in CASTS or name == "float":
            raise self.fault(node, f"'{name}' is a function", f"Call it: {_usage(name)}")
        return Name(name, span=span)

    def _negative(self, value: Node, span: Span) -> Node:
        if isinstance(value, Number) and not isinstance(value.value, bool):
            return Number(-value.value, span=span)
        return Unary("-", value, span=span)

    def _compare(self, node: ast.Compare, span: Span) -> Node:
        values = [self.read(value) for value in (node.left, *node.comparators)]
        links: list[Node] = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            if type(op) not in COMPARE:
                raise self.fault(node, "this comparison is not part of the language", ALL_OPERATORS)
            links.append(Compare(COMPARE[type(op)], a, b, span=span))
        return functools.reduce(lambda a, b: Logical("and", a, b, span=span), links)

    def _call(self, node: ast.Call, span: Span) -> Node:
        if not isinstance(node.func, ast.Name):
            raise self.fault(
                node.func, "only a function of the language can be called", _function_list()
            )
        name = node.func.id
        if node.keywords:
            raise self.fault(
                node.keywords[0], "arguments have no names in a formula", f"Write {_usage(name)}."
            )
        if name == "float":
            return self._float(node, span)
        if name in CASTS:
            if len(node.args) != 1:
                raise self._arity(node, name, "1 argument")
            return Cast(name, self.read(node.args[0]), span=span)
        if name in REDUCTIONS and self._is_reduction(node, name):
            return self._reduction(node, name, span)
        if name not in FUNCTIONS:
            known = {*FUNCTIONS, *REDUCTIONS, *CASTS}
            instead = f"Write {FOREIGN[name]}. " if name in FOREIGN else nearest(name, known)
            raise self.fault(node.func, f"unknown function '{name}'", instead + _function_list())
        function = FUNCTIONS[name]
        if not function.low <= len(node.args) <= function.high:
            raise self._arity(node, name, _count(function.low, function.high))
        args = [self.read(arg) for arg in node.args]
        if name == "where":
            return Select(*args, span=span)
        if name in ("min", "max"):
            return functools.reduce(lambda a, b: Call(name, (a, b), span=span), args)
        missing = function.high - len(args)
        defaults = function.defaults[len(function.defaults) - missing :] if missing else ()
        args += [Number(value, span=span) for value in defaults]
        return Call(name, tuple(args), span=span)

    def _float(self, node: ast.Call, span: Span) -> Node:
        match node.args:
            case [ast.Constant(value=str(word))]:
                try:
                    value = float(word)
                except ValueError:
                    value = 0.0
                if not math.isfinite(value):
                    return Number(math.nan if math.isnan(value) else value, span=span)
        raise self.fault(
            node, "float() takes the text of inf or nan alone", 'Write float("nan") or f32(x).'
        )

    def _is_reduction(self, node: ast.Call, name: str) -> bool:
        """Whether the last argument names indices; alone it does for the names that are no function."""
        if name not in FUNCTIONS:
            return True
        if len(node.args) != 2:
            return False
        value, last = node.args
        if isinstance(value, ast.Name) and value.id in self.index_names:
            return False
        if isinstance(last, ast.Tuple):
            return True
        return isinstance(last, ast.Name) and last.id in self.index_names

    def _reduction(self, node: ast.Call, name: str, span: Span) -> Node:
        if len(node.args) != 2:
            raise self._arity(node, name, "2 arguments")
        value, last = node.args
        indices = []
        for part in last.elts if isinstance(last, ast.Tuple) else [last]:
            if not isinstance(part, ast.Name) or part.id not in self.index_names:
                word = f"'{part.id}'" if isinstance(part, ast.Name) else "this"
                raise self.fault(
                    part,
                    f"{word} is no index of this formula",
                    f"Reduce over one of its indices: {listing(sorted(self.index_names))}.",
                )
            if part.id in indices:
                raise self.fault(part, f"index '{part.id}' is reduced twice", "Name it once.")
            indices.append(part.id)
        if not indices:
            raise self.fault(last, "a reduction needs an index", f"Write {_usage(name)}.")
        return Reduce(name, self.read(value), tuple(indices), span=span)

    def _arity(self, node: ast.Call, name: str, wanted: str) -> FormulaError:
        got = len(node.args)
        return self.fault(node, f"{name} takes {wanted}, not {got}", f"Write {_usage(name)}.")


def _index_hint(part: ast.expr) -> str:
    """What to do instead of an index that is no bare name."""
    match part:
        case ast.Subscript():
            instead = "Nothing is gathered; sum(where(n == t[m], x[m,n], 0), n) picks one of a row."
        case ast.Slice():
            instead = "Give each index a name."
        case _:
            instead = "Pass those elements as an operand of its own: a view needs no copy."
    return f"Write bias[n] or residual[m,n]. {instead}"


def _usage(name: str) -> str:
    if name in FUNCTIONS:
        reduction = f" or {name}(e, n)" if name in REDUCTIONS else ""
        return FUNCTIONS[name].signature + reduction
    return f"{name}(e, n)" if name in REDUCTIONS else f"{name}(x)"


def _count(low: int, high: int) -> str:
    if high == MANY:
        return f"{low} or more arguments"
    if low == high:
        return f"{low} argument" if low == 1 else f"{low} arguments"
    return f"{low} to {high} arguments"


def _function_list() -> str:
    return (
        f"Functions: {' '.join(FUNCTIONS)}. Reductions: {' '.join(REDUCTIONS)}. "
        f"Casts: {' '.join(CASTS)}."
    )
