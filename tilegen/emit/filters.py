"""Filters and checks between Python values and C text."""

from __future__ import annotations

import math
import re
import textwrap

from tilegen.errors import UsageError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Words that are no identifier in C11, C++17 or CUDA C.
_RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
    compl concept const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq""".split()
)


def c_ident(name: str) -> str:
    """Return the name if it is an identifier in C, C++ and CUDA.

    Raises:
        UsageError: it is not one, or it is a reserved word.
    """
    if not _IDENTIFIER.match(name) or name in _RESERVED or name.startswith("__"):
        raise UsageError(
            f"'{name}' cannot be a name in C",
            "Use letters, digits and underscores, not a keyword, not two leading underscores.",
        )
    return name


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


def block(text: str, spaces: int) -> str:
    """Indent a macro's output by `spaces`, for a call that already stands at that column."""
    return textwrap.indent(str(text).strip("\n"), " " * spaces).lstrip(" ")


def comment(text: str, prefix: str = "// ", width: int = 100) -> str:
    """Wrap a sentence as comment lines.

    Args:
        text: one paragraph.
        prefix: what starts a line, such as `// ` or ` * `.
        width: columns of a line, the prefix included.
    """
    lines = textwrap.wrap(
        doc(" ".join(str(text).split())), width - len(prefix), break_long_words=False
    )
    return "\n".join(prefix + line for line in lines)


FILTERS = {
    "block": block,
    "c_bool": c_bool,
    "c_float": c_float,
    "c_ident": c_ident,
    "comment": comment,
    "doc": doc,
}
