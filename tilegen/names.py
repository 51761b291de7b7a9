"""What may be a name in emitted C, and how a message counts things."""

from __future__ import annotations

import re

from tilegen.errors import UsageError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Words that are no identifier in C11, C++17 or CUDA C, and macros of the headers that kernels include.
_RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
    compl concept const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq EINVAL ENOMEM INFINITY NAN NULL errno""".split()
)


def c_ident(name: str) -> str:
    """Return the name if it is an identifier in C, C++ and CUDA.

    Raises:
        UsageError: it is not one, or it is a reserved word or a macro.
    """
    if not _IDENTIFIER.match(name) or name in _RESERVED or name.startswith("__"):
        raise UsageError(
            f"'{name}' cannot be a name in C",
            "Use letters, digits and underscores, not a keyword or a macro, not two leading underscores.",
        )
    return name


def counted(count: int, singular: str, plural: str = "s") -> str:
    """Return the count with its noun, with the plural's ending unless there is one: `1 warp`, `2 launches`."""
    return f"{count} {singular}" if count == 1 else f"{count} {singular}{plural}"
