"""Text to nodes: Python's own grammar through `ast`, nothing evaluated."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from tilegen.errors import FormulaError
from tilegen.formula.diagnostics import fault
from tilegen.formula.expressions import ExpressionReader
from tilegen.formula.nodes import Assign, Span
from tilegen.formula.functions import RESERVED


def read_statements(text: str, indices: Collection[str] = ()) -> tuple[Assign, ...]:
    """Parse the statements of a formula's text.

    Args:
        indices: names that are indices even where none stands in a subscript.

    Raises:
        FormulaError: anything that is no formula, with a caret under its first column.
    """
    lines = text.split("\n")
    margins = [len(line) - len(line.lstrip()) for line in lines]
    stripped = "\n".join(line.lstrip() for line in lines)
    try:
        module = ast.parse(stripped)
    except SyntaxError as error:
        raise _syntax_fault(text, margins, error) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"the formula cannot be read: {error}") from None
    return read_module(module.body, text, stripped, margins, indices)


def read_module(
    body: Sequence[ast.stmt],
    text: str,
    stripped: str,
    margins: Sequence[int],
    indices: Collection[str] = (),
) -> tuple[Assign, ...]:
    """Turn the statements of a parsed module, or of a function's body, into assignments.

    Args:
        text: what the user wrote, for messages.
        stripped: what `ast` saw; `margins[i]` columns were taken off line i + 1.
    """
    place = Place(stripped.split("\n"), margins)
    if not body:
        raise fault(
            text, Span(), "the formula is empty", "Write an expression, such as acc + bias[n]."
        )
    reader = ExpressionReader(text, place, _indices_used(body) | frozenset(indices))
    statements = []
    for statement in body:
        statements.append(_statement(statement, reader, last=statement is body[-1]))
    return tuple(statements)


class Place:
    """Finds the span of an `ast` node in the user's text."""

    def __init__(self, lines: Sequence[str], margins: Sequence[int]) -> None:
        self._lines = lines
        self._margins = margins

    def __call__(self, node: ast.AST) -> Span:
        line = node.lineno
        start = self._column(line, node.col_offset)
        if node.end_lineno != line:
            return Span(line, start, self._margins[line - 1] + len(self._lines[line - 1]))
        return Span(line, start, self._column(line, node.end_col_offset))

    def _column(self, line: int, offset: int) -> int:
        """Characters from the line's start for a UTF-8 byte offset."""
        read = self._lines[line - 1].encode()[:offset].decode()
        return len(read) + self._margins[line - 1]


STATEMENT = (
    "A formula is one or more of `name = expression` and `name[m,n] = expression`, "
    "separated by ; or new lines, or a bare expression."
)
# What C has for something that a formula writes in words, by its first character.
C_OPERATORS = {
    "?": "Write where(c, a, b) or `a if c else b`.",
    "&": "Write `a and b`.",
    "|": "Write `a or b`.",
    "!": "Write `not a`.",
}


def _syntax_fault(text: str, margins: Sequence[int], error: SyntaxError) -> FormulaError:
    line = min(max(error.lineno or 1, 1), len(margins))
    start = max((error.offset or 1) - 1, 0) + margins[line - 1]
    words = (error.msg or "invalid syntax").split(". ")[0]
    found = text.splitlines()[line - 1][start : start + 1]
    return fault(
        text,
        Span(line, start, start + 1),
        f"this does not parse: {words}",
        C_OPERATORS.get(found, STATEMENT),
    )


def _indices_used(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every name that stands in a subscript: these are the formula's index names."""
    found = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript):
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                found.update(part.id for part in parts if isinstance(part, ast.Name))
    return frozenset(found)


REFUSED_STATEMENTS = {
    ast.If: ("a Python `if` cannot choose by a value", "Write where(c, a, b) or `a if c else b`."),
    ast.For: (
        "a formula has no loops",
        "The index names are the loops; reduce with sum(e, n) and the like.",
    ),
    ast.While: ("a formula has no loops", "The index names are the loops."),
    ast.AugAssign: (
        "a formula has no augmented assignment",
        "Write c[m,n] = c[m,n] + ... in full.",
    ),
    ast.AnnAssign: ("a formula has no annotations", "Write name = expression."),
    ast.Import: ("a formula imports nothing", "Its functions are built in."),
    ast.ImportFrom: ("a formula imports nothing", "Its functions are built in."),
    ast.FunctionDef: ("a formula defines no functions", "Name an intermediate instead: h = ..."),
}


def _statement(node: ast.stmt, reader: ExpressionReader, last: bool) -> Assign:
    span = reader.place(node)
    match node:
        case ast.Assign(targets=[target]):
            name, indices = _target(target, reader)
            return Assign(name, indices, reader.read(node.value), span)
        case ast.Assign():
            raise fault(reader.text, span, "one name for one assignment", "Write two assignments.")
        case ast.Expr():
            if not last:
                raise fault(
                    reader.text,
                    span,
                    "a bare expression must be the last statement",
                    "Give this one a name: h = ...",
                )
            return Assign(None, None, reader.read(node.value), span)
        case ast.Return(value=ast.expr() as value):
            return Assign(None, None, reader.read(value), span)
    problem, allowed = REFUSED_STATEMENTS.get(
        type(node),
        ("this statement is not part of the language", "Write `name = expression`."),
    )
    raise fault(reader.text, span, problem, allowed)


def _target(node: ast.expr, reader: ExpressionReader) -> tuple[str, tuple[str, ...] | None]:
    span = reader.place(node)
    match node:
        case ast.Name(id=name):
            indices = None
        case ast.Subscript(value=ast.Name(id=name)):
            indices = reader.indices(node)
        case _:
            raise fault(
                reader.text,
                span,
                "this cannot be assigned to",
                "Assign to a name, h = ..., or to an output with its indices, c[m,n] = ...",
            )
    if name in RESERVED:
        raise fault(reader.text, span, f"'{name}' belongs to the language", "Choose another name.")
    if name in reader.index_names:
        raise fault(
            reader.text,
            span,
            f"'{name}' is an index of this formula and cannot be assigned to",
            "Choose another name.",
        )
    return name, indices
