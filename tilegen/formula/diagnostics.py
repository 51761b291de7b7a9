"""Errors that point at the formula: the line, a caret under the column, what is allowed there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from tilegen.errors import FormulaError
from tilegen.formula.nodes import Span


def fault(text: str, span: Span, problem: str, allowed: str = "") -> FormulaError:
    """The error for `problem` at `span` of the formula `text`; `allowed` becomes its hint.

    The message shows the line of the formula and carets under the span:

        unknown function 'gleu'
          gleu(acc + bias[n])
          ^^^^
    """
    lines = text.split("\n")
    line = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
    where = f" (line {span.line})" if len(lines) > 1 else ""
    shown = line.replace("\t", " ")
    width = max(1, min(span.end, len(shown)) - span.start)
    message = f"{problem}{where}\n  {shown.rstrip()}\n  {' ' * span.start}{'^' * width}"
    return FormulaError(message, allowed)


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'? ` for the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'? " if close else ""


def listing(names: Iterable[str]) -> str:
    """Names for a message, in the given order, separated by commas; `none` when there are none."""
    return ", ".join(names) or "none"


def index_span(text: str, span: Span, index: str) -> Span:
    """Where the index name stands inside the operand, reduction or assignment at `span`."""
    line = text.split("\n")[span.line - 1]
    found = re.compile(rf"[\[,(]\s*({re.escape(index)})\s*[\],)]").search(line, span.start)
    return Span(span.line, found.start(1), found.end(1)) if found else span
