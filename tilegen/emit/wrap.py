"""Breaks a long C statement where a person would: after an operator or comma, least nested first."""

from __future__ import annotations

import textwrap

INDENT = "    "

RANKS = {"?": 1, ":": 1, "||": 2, "&&": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4}
RANKS |= {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "=": 8}


def wrap(line: str, width: int) -> list[str]:
    """`line` as lines of at most `width` columns; continuation lines are indented by four.

    A line is broken at a space outside of every bracket that it opened, where there is one, else at the
    outermost that fits; a piece without spaces stays whole.
    """
    lines = []
    while len(line) > width:
        at = _break(line, width)
        if at is None:
            break
        lines.append(line[:at].rstrip())
        line = INDENT + line[at:].lstrip()
    return [*lines, line]


def statement(text: str, column: int, width: int = 100) -> str:
    """A C statement that starts at `column` of a template, broken where it would pass `width` columns."""
    return f"\n{' ' * column}".join(wrap(text, width - column))


def fit(text: str, width: int = 100) -> str:
    """An emitted text whose lines are at most `width` columns wide, however long the user's names are.

    Templates break their lines for names of usual length; what passes the width with longer ones is broken here. Lines
    that hold a string or belong to the preprocessor stay as they are.
    """
    lines = []
    for line in text.split("\n"):
        lines += [line] if len(line) <= width else _fitted(line, width)
    return "\n".join(lines)


def _fitted(line: str, width: int) -> list[str]:
    code = line.lstrip()
    margin = line[: len(line) - len(code)]
    room = width - len(margin)
    if code.startswith("#") or '"' in code or "/*" in code:
        return [line]
    if code.startswith("// "):
        words = textwrap.wrap(code[3:], room - 3, break_long_words=False, break_on_hyphens=False)
        return [f"{margin}// {part}" for part in words]
    code, mark, comment = code.partition("  // ")
    above = _fitted(f"{margin}// {comment}", width) if mark else []
    return above + [margin + part for part in wrap(code, room)]


def _break(line: str, width: int) -> int | None:
    best: tuple[int, int] | None = None
    depth = 0
    start = len(line) - len(line.lstrip())
    for column, character in enumerate(line[: width + 1]):
        depth += (character in "([") - (character in ")]")
        rank = _rank(line, column) if character == " " and column > start + 1 else None
        if rank is None:
            continue
        cost = depth * 10 + rank
        if best is None or cost <= best[0] or column - best[1] > width // 2:
            best = cost, column
    return None if best is None else best[1] + 1


def _rank(line: str, column: int) -> int | None:
    """How tightly what stands before the space binds; None where a line is not broken."""
    before = line[:column].rsplit(" ", 1)[-1]
    if before.endswith((",", ";")):
        return 0
    return RANKS.get(before)
