"""Typed formulas as lines of C: intermediates as constants, outputs as stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen.emit.c_expr.dialects import Dialect, dialect
from tilegen.emit.c_expr.helpers import catalogue, closure, helper_texts, includes_for
from tilegen.emit.c_expr.printer import ExpressionPrinter
from tilegen.emit.wrap import wrap
from tilegen.emit.filters import c_ident
from tilegen.formula.nodes import Assign, Name, Node, Operand, walk
from tilegen.formula.typed import TypedFormula, stored
from tilegen.values import BOOL, DType


@dataclass(frozen=True)
class Printed:
    """A printed formula.

    Attributes:
        lines: C statements, at column 0.
        helpers: names of the helper functions that the lines need, each after what it calls.
        helper_texts: their text, in that order.
        includes: headers such as `<math.h>` that lines and helpers need, sorted.
    """

    lines: tuple[str, ...]
    helpers: tuple[str, ...]
    helper_texts: tuple[str, ...]
    includes: tuple[str, ...]


def print_expr(
    node: Node,
    into: str | Dialect,
    names: Mapping[str, str] | None = None,
    *,
    loaded: Mapping[str, DType] | None = None,
    nonnegative: frozenset[str] = frozenset(),
) -> str:
    """One typed expression as C, without outer parentheses.

    Args:
        into: `c` or `cuda`, or a target's backend.
        names: C text of names and operands; see ExpressionPrinter.
        loaded: names whose C text is already in the given type.
        nonnegative: integer names that are never negative.

    Raises:
        TemplateFault: a reduction, or an operand of rank 2 or more without a text.
    """
    return ExpressionPrinter(dialect(into), names or {}, loaded or {}, nonnegative).text(node)


def print_statements(
    typed: TypedFormula,
    into: str | Dialect,
    names: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    *,
    loaded: Mapping[str, DType] | None = None,
    width: int = 96,
) -> Printed:
    """A typed formula without reductions as C statements for one element.

    Args:
        into: `c` or `cuda`, or a target's backend.
        names: C text of names and operands, such as {"acc": "acc[i][j]", "bias": "bias[col]"}.
        stores: for each output, the place it is assigned to, `c[m * ldc + n]`, or a whole statement with
            `{value}` in it. `c[n]` when left out and of rank 1.
        loaded: operands and specials whose C text is already in the given type.
        width: columns that a line may take.

    Raises:
        TemplateFault: a reduction, or an operand or output of rank 2 or more without a text.
        UsageError: an intermediate whose name is a word of C.
    """
    into = dialect(into)
    names = names or {}
    taken = {*typed.operands, *typed.scalars, *typed.specials, *typed.index_names, *names.values()}
    taken |= {s.name for s in typed.statements if s.store is None}
    single = len(typed.outputs) == 1 and "value" not in taken
    locals = {
        s.name: "value" if single and s.store is not None else _local(s, into)
        for s in typed.statements
    }
    indices = frozenset(i for i in typed.index_names if i not in typed.scalars)
    printer = ExpressionPrinter(into, names, loaded or {}, indices, locals)
    lines: list[str] = []
    for position, statement in enumerate(typed.statements):
        later = typed.statements[position + 1 :]
        lines += _statement(
            statement, printer, stores or {}, _read_in(statement.name, later), width
        )
    used = [name for name in printer.used if not into.is_library(name)]
    texts = helper_texts(used, into)
    return Printed(tuple(lines), closure(used, into), texts, includes_for([*texts, *lines], into))


def _local(statement: Assign, into: Dialect) -> str:
    """The C name of a statement's value; an output's leaves the name itself to its array."""
    if statement.store is not None:
        return f"{statement.name}_value"
    name = c_ident(statement.name)
    return f"{name}_value" if name in _functions(into) else name


def _functions(into: Dialect) -> frozenset[str]:
    return frozenset((*catalogue(into), *into.library))


def _read_in(name: str, statements: tuple[Assign, ...]) -> bool:
    nodes = (node for s in statements for node in walk(s.value))
    return any(isinstance(node, Name) and node.name == name for node in nodes)


def _statement(
    s: Assign, printer: ExpressionPrinter, stores: Mapping[str, str], read_later: bool, width: int
) -> list[str]:
    local = printer.locals[s.name]
    kind = printer.dialect.type(s.value.dtype)
    if s.store is None:
        return wrap(f"const {kind} {local} = {printer.text(s.value)};", width)
    lines = []
    value: Node = s.value
    if read_later or not (stored(s) is s.value or isinstance(value, Name)):
        lines = wrap(f"const {kind} {local} = {printer.text(value)};", width)
        value = Name(s.name, dtype=value.dtype)
    text = printer.text(stored(replace(s, value=value)))
    if s.store == BOOL:
        text = printer.dialect.cast(s.store, f"({text})")
    place = stores.get(s.name) or printer.text(Operand(s.name, s.indices, dtype=s.store))
    line = place.replace("{value}", text) if "{value}" in place else f"{place} = {text};"
    return lines + wrap(line, width)
