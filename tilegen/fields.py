"""Dataclass fields that the command line, `tilegen.toml` and the docs know: typed, documented, text both ways."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tilegen.errors import UsageError
from tilegen.values import DType, Layout, Tile, dtype, nearest


def _integer(text: Any) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        raise UsageError(f"'{text}' is not an integer") from None


def _boolean(text: Any) -> bool:
    word = str(text).lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise UsageError(f"'{text}' is not a yes or no", "Write true or false.")


_PARSERS: dict[type, Callable[[Any], Any]] = {
    int: _integer,
    bool: _boolean,
    str: str,
    DType: dtype,
    Layout: Layout.parse,
    Tile: Tile.parse,
}


def option(
    default: Any,
    doc: str,
    *,
    kind: type = str,
    parse: Callable[[Any], Any] | None = None,
    unit: str = "",
    derived: bool = False,
) -> Any:
    """Declare a dataclass field that a user may set by `--name value` or in `tilegen.toml`.

    Args:
        default: the value when nothing is given.
        doc: one sentence: what it is and what it trades.
        kind: int, bool, str, DType, Layout or Tile; selects how text becomes a value.
        parse: overrides the parser of `kind`.
        unit: unit of the value, for help and docs, such as `elements`.
        derived: the default is filled in by the dataclass, so that None prints as `derived`.
    """
    metadata = {
        "doc": doc,
        "unit": unit,
        "parse": parse or _PARSERS[kind],
        "derived": derived,
        "kind": kind,
    }
    return dataclasses.field(default=default, metadata=metadata)


def options(cls: type) -> dict[str, dataclasses.Field]:
    """The settable fields of a problem or schedule class, in declaration order."""
    return {f.name: f for f in dataclasses.fields(cls) if "parse" in f.metadata}


def from_text(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the given texts as fields of `cls`.

    Returns:
        Keyword arguments for the dataclass; fields that were not given are absent.

    Raises:
        UsageError: an unknown field (with the nearest known one) or a value of the wrong form.
    """
    known = options(cls)
    values = {}
    for name, text in given.items():
        if name not in known:
            raise UsageError(
                f"{cls.__name__} has no field '{name}'{nearest(name, known)}",
                f"Fields: {', '.join(known)}",
            )
        try:
            values[name] = known[name].metadata["parse"](text)
        except UsageError as error:
            raise UsageError(f"{flag(name)}: {error.message}", error.hint) from None
    return values


def to_text(value: Any) -> str:
    """Print a field's value so that `from_text` reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def given(made: Any) -> dict[str, str]:
    """The fields of a problem that differ from its defaults, as text, in declaration order."""
    found = {}
    for name, field in options(type(made)).items():
        value, usual = getattr(made, name), field.default
        if field.metadata["derived"]:
            usual = getattr(dataclasses.replace(made, **{name: None}), name)
        if value != usual:
            found[name] = to_text(value)
    return found


def flag(name: str) -> str:
    """The command-line flag of a field: `head_dim` is `--head-dim`."""
    return "--" + name.replace("_", "-")
