"""A formula written as a Python function: read from its source, never run."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable

from tilegen.errors import FormulaError
from tilegen.formula.diagnostics import fault, listing, nearest
from tilegen.formula.parsed import Formula, check
from tilegen.formula.nodes import Name, Operand, walk
from tilegen.formula.parser import Place, read_module


def formula(function: Callable) -> Formula:
    """Decorator: the formula that a Python function spells.

        @tilegen.formula
        def bias_gelu(acc, bias):
            h = acc + bias[n]
            return gelu(h)

    The parameters name the operands, scalars and values; index names need no declaration. `return e` is
    a bare expression, `c[m,n] = e` an output.

    Raises:
        FormulaError: the source cannot be read, a name is neither a parameter nor an index, a parameter
            is not used, or the body is no formula.
    """
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise FormulaError(
            "the source of this function cannot be read",
            "Define it with def in a file, or pass its text to tilegen.formula.parse.",
        ) from None
    module = ast.parse(source)
    definition = next((n for n in module.body if isinstance(n, ast.FunctionDef)), None)
    if definition is None:
        raise FormulaError("a formula function is written with def", "A lambda has no statements.")
    body = definition.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:] if isinstance(body[0].value.value, str) else body
    lines = source.split("\n")
    statements = read_module(body, source, source, [0] * len(lines))
    parsed = check(Formula(statements, source))
    _check_parameters(parsed, definition, Place(lines, [0] * len(lines)))
    return parsed


def _check_parameters(parsed: Formula, definition: ast.FunctionDef, place: Place) -> None:
    arguments = definition.args
    for bad in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs):
        if bad is not None:
            raise fault(
                parsed.source,
                place(bad),
                "a formula has positional parameters only",
                "Name each one.",
            )
    parameters = {a.arg: a for a in (*arguments.posonlyargs, *arguments.args)}
    assigned = {s.name for s in parsed.statements}
    indices = set(parsed.index_names)
    used = set()
    for statement in parsed.statements:
        for node in walk(statement.value):
            if not isinstance(node, Name | Operand):
                continue
            used.add(node.name)
            if node.name not in parameters and node.name not in assigned | indices:
                raise fault(
                    parsed.source,
                    node.span,
                    f"unknown name '{node.name}'",
                    nearest(node.name, parameters) + f"Parameters: {listing(parameters)}.",
                )
    for name, argument in parameters.items():
        if name not in used:
            raise fault(
                parsed.source, place(argument), f"nothing reads '{name}'", "Take it out, or use it."
            )
