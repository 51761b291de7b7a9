"""Table files: `tuning/DEVICE/OPERATOR.toml`, read row by row, written whole or not at all."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tilegen.errors import UsageError
from tilegen.shared_files import locked, replace
from tilegen.tables.rows import Row, from_table
from tilegen.values import nearest

SCHEMA = 2
FOLDER = "tuning"
_ROW = "[[row]]"


@dataclass(frozen=True)
class Table:
    """A table file as read.

    Attributes:
        path: the file, there or not.
        device, operator: what its rows are for.
        rows: the usable rows, sorted.
        faults: one line `path:line: what` for each part that could not be read.
    """

    path: Path
    device: str
    operator: str
    rows: tuple[Row, ...]
    faults: tuple[str, ...] = ()


def table_path(folder: Path, device: str, operator: str) -> Path:
    """Where the rows of a device and an operator lie."""
    return folder / device / f"{operator}.toml"


def require_device(folder: Path, device: str) -> None:
    """Raise UsageError, naming the nearest known device, if a device has no tables."""
    if not (folder / device).is_dir():
        known = sorted(p.name for p in folder.glob("*") if p.is_dir())
        raise UsageError(
            f"{folder} has no tables for '{device}'{nearest(device, known)}",
            f"Devices: {', '.join(known) or 'none'}",
        )


def read(path: Path) -> Table:
    """Read a table; a file that is not there is an empty table.

    A part that is broken becomes a fault with its line, and the other rows stay usable.

    Raises:
        UsageError: the file was written by a newer tilegen, or cannot be opened.
    """
    device, operator = path.parent.name, path.stem
    if not path.exists():
        return Table(path, device, operator, ())
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    faults: list[str] = []
    rows: dict[object, Row] = {}
    parts = list(_parts(text))
    head = _parse(path, *parts[0], faults)
    if head is not None and not _head_fits(path, head, device, operator, faults):
        return Table(path, device, operator, (), tuple(faults))
    for line, part in parts[1:]:
        table = _parse(path, line, part, faults)
        if table is None:
            continue
        try:
            row = from_table(table["row"][0])
        except UsageError as error:
            faults.append(f"{path}:{line}: {error.message}")
            continue
        if row.key in rows:
            faults.append(f"{path}:{line}: a second row for {row.problem} {dict(row.sizes)}")
        else:
            rows[row.key] = row
    return Table(path, device, operator, _ordered(rows.values()), tuple(faults))


def _ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda r: (r.problem, r.target, r.threads, [*r.sizes.values()])))


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The text before the first row, and each row, with the number of its first line."""
    start, part = 1, []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() == _ROW:
            yield start, "\n".join(part)
            start, part = number, []
        part.append(line)
    yield start, "\n".join(part)


def _parse(path: Path, line: int, text: str, faults: list[str]) -> dict | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        where = line + int(at.group(1)) - 1 if at else line + text.count("\n")
        faults.append(f"{path}:{where}: {str(error).partition(' (at')[0]}")
        return None


def _head_fits(path: Path, head: dict, device: str, operator: str, faults: list[str]) -> bool:
    schema = head.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UsageError(
            f"{path} has schema {schema}, this tilegen reads up to {SCHEMA}",
            "Use the tilegen that wrote it, or move the file away and tune again.",
        )
    for name, expected in (("device", device), ("operator", operator)):
        if head.get(name, expected) != expected:
            faults.append(
                f"{path}:1: its {name} is '{head[name]}', its place says '{expected}'; not used"
            )
            return False
    return True


def text_of(device: str, operator: str, rows: Iterable[Row]) -> str:
    """A whole table file."""
    head = (
        "# Written by `tilegen tune`. A row is used only while its digest fits the kernel's text.\n"
        f'schema = {SCHEMA}\noperator = "{operator}"\ndevice = "{device}"\n'
    )
    return head + "".join("\n" + row.text() for row in _ordered(rows))


def update(path: Path, new: Iterable[Row]) -> Table:
    """Put rows into a table, replacing those with the same keys; other rows stay.

    Writers wait for each other, and the file is replaced as a whole. What was broken in it is kept
    beside it as `NAME.toml.broken`.

    Raises:
        UsageError: the file is a newer tilegen's, or belongs to another device; nothing is written.
    """
    with locked(path):
        old = read(path)
        rows = {row.key: row for row in old.rows}
        if old.faults:
            if any(fault.endswith("; not used") for fault in old.faults):
                raise UsageError(old.faults[0], "Move the file away, or to its device's folder.")
            replace(path.with_name(path.name + ".broken"), path.read_bytes())
        rows |= {row.key: row for row in new}
        replace(path, text_of(old.device, old.operator, rows.values()).encode())
    return read(path)
