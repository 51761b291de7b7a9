"""Filters and checks between Python values and C text."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable

from tilegen.emit.wrap import statement
from tilegen.errors import UsageError
from tilegen.names import c_ident


def doc(text: str) -> str:
    """Return text that is safe inside a C comment.

    Raises:
        UsageError: it would end the comment, continue the line or break it.
    """
    if "*/" in text or "/*" in text or "\n" in text or "\r" in text or text.endswith("\\"):
        raise UsageError(f"{text!r} cannot stand in a C comment")
    return text


def c_float(value: float, suffix: str = "f") -> str:
    """A C literal of a float, the shortest that reads back to the same value.

    Args:
        value: any float, infinities and NaN included.
        suffix: `f` for float, empty for double.
    """
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = repr(float(value))
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + (f"e{exponent}" if exponent else "") + suffix


def c_bool(value: bool) -> str:
    return "true" if value else "false"


def block(text: str, spaces: int, first: bool = False) -> str:
    """Indent a macro's output by `spaces`, for a call that already stands at that column.

    Lines of the preprocessor stay at column 0, where they belong.

    Args:
        first: indent the first line too, for a call that stands at column 0.
    """
    lines = str(text).strip("\n")
    lines = textwrap.indent(lines, " " * spaces, lambda x: x.strip() and x[0] != "#")
    return lines if first else lines.lstrip(" ")


def comment(text: str, prefix: str = "// ", width: int = 100, first: str = "") -> str:
    """Wrap sentences as comment lines.

    Args:
        text: paragraphs, between which there are empty lines.
        prefix: what starts a line, such as `// ` or ` * `.
        width: columns of a line, the prefix included.
        first: what starts the first line instead, as long as the prefix.
    """
    lines: list[str] = []
    for paragraph in str(text).split("\n\n"):
        lines += [""] if lines else []
        lines += textwrap.wrap(
            doc(" ".join(paragraph.split())), width - len(prefix), break_long_words=False
        )
    starts = [first or prefix, *[prefix] * len(lines)]
    return "\n".join((start + line).rstrip() for start, line in zip(starts, lines))


def condition(text: str, column: int, width: int = 100) -> str:
    """Break a C condition after `||` outside of parentheses, for an `if (` that ends at `column`.

    A part that is too long for a line is broken inside, after its operators.
    """
    pieces, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text.startswith(" || ", at):
            pieces.append(text[start : at + 3])
            start = at + 4
    pieces.append(text[start:])
    # Two columns are left for what closes the statement.
    room = width - 3 - column
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + 1 + len(piece) <= room:
            lines[-1] += f" {piece}"
        else:
            lines += broken(piece, room)
    return f"\n{' ' * column}".join(lines)


def guard(text: str, statement: str, remark: str = "", column: int = 2, width: int = 100) -> str:
    """`if (text) { statement }  // remark` on one line where it fits, else broken; starts at `column`."""
    comment = f"  // {remark}" if remark else ""
    line = f"if ({text}) {{ {statement} }}{comment}"
    if column + len(line) <= width:
        return line
    indent = " " * column
    head = f"if ({condition(text, column + 4, width)}) {{"
    return f"{head}\n{indent}  {statement}{comment}\n{indent}}}"


def broken(text: str, room: int) -> list[str]:
    """An expression as lines of at most `room` columns, broken after operators, later ones one column in."""
    lines, indent = [""], " "
    for word in re.split(r"(?<= [-+*|<] )|(?<= [|&]{2} )", text):
        if lines[-1].strip() and len(lines[-1]) + len(word.rstrip()) > room:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += word
    return lines


def listed(head: str, items: Iterable[str], tail: str, column: int = 0, width: int = 100) -> str:
    """A C parameter or argument list, broken between its items as clang-format does.

    Args:
        head: what stands before the first item, the opening parenthesis included.
        items: the parameters or arguments.
        tail: what follows the last one, such as `) {`.
        column: where `head` starts; further lines are indented for it.
        width: columns of a line.
    """
    items = list(items)
    words = [f"{item}," for item in items[:-1]] + [f"{items[-1] if items else ''}{tail}"]
    lines = _filled([head + words[0]], words[1:], column + len(head), column, width)
    if max(len(line) for line in lines) > width or column + len(lines[0]) > width:
        indent = column + 4
        lines = [head, *_filled([" " * indent + words[0]], words[1:], indent, 0, width)]
    return "\n".join(lines)


def aligned(text: str, width: int = 100) -> str:
    """Align the trailing `//` comments of neighbouring lines, except behind a line too long for it.

    Args:
        text: lines of C; a line without a trailing comment ends a group.
        width: columns of a line.
    """
    lines, group = str(text).split("\n"), []
    for at, line in enumerate([*lines, ""]):
        if "  // " in line and line.split("  // ")[0].strip():
            group.append(at)
            continue
        pieces = {i: lines[i].split("  // ", 1) for i in group}
        codes = sorted(len(code.rstrip()) for code, _ in pieces.values())
        longest = max((len(words) for _, words in pieces.values()), default=0)
        column = max((n for n in codes if n + 5 + longest <= width), default=0)
        for i, (code, words) in pieces.items():
            lines[i] = f"{code.rstrip().ljust(column)}  // {words}"
        group = []
    return "\n".join(lines)


def assigned(head: str, value: str, column: int = 0, width: int = 100) -> str:
    """`head = value;`, broken after the sign where it does not fit; `head` starts at `column`."""
    line = f"{head} = {value};"
    return line if column + len(line) <= width else f"{head} =\n{' ' * (column + 4)}{value};"


def _filled(lines: list[str], words: list[str], indent: int, column: int, width: int) -> list[str]:
    """Append words to the last line while they fit, else to a new one; line 0 starts at `column`."""
    for word in words:
        start = column if len(lines) == 1 else 0
        if start + len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(" " * indent + word)
    return lines


FILTERS = {
    "aligned": aligned,
    "assigned": assigned,
    "block": block,
    "c_bool": c_bool,
    "c_float": c_float,
    "c_ident": c_ident,
    "comment": comment,
    "condition": condition,
    "doc": doc,
    "guard": guard,
    "listed": listed,
    "statement": statement,
}
