"""Refuses text that a careful person would not have written; nothing reformats emitted C afterwards."""

from __future__ import annotations

from tilegen.errors import TemplateFault

COLUMNS = 100


def faults(text: str) -> list[str]:
    """Every fault of layout in an emitted file, as `line: what`."""
    found = []
    if "\r" in text:
        found.append("carriage return in the text")
    if not text.endswith("\n") or text.endswith("\n\n"):
        found.append("the text must end with exactly one newline")
    blank = False
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if "\t" in line:
            found.append(f"line {number}: tab")
        if line != line.rstrip():
            found.append(f"line {number}: trailing space")
        # The first line is the command that reproduces the file, as long as it must be.
        if len(line) > COLUMNS and number > 1:
            found.append(
                f"line {number}: {len(line)} columns, {COLUMNS} allowed: {line.strip()[:60]}"
            )
        if not line and blank:
            found.append(f"line {number}: two blank lines in a row")
        blank = not line
    return found


def require_clean(path: str, text: str) -> None:
    """Raise TemplateFault naming each fault of layout in `text`, which would be written to `path`."""
    found = faults(text)
    if found:
        raise TemplateFault(
            f"{path}: emitted text is not clean", "\n".join(f"  {f}" for f in found)
        )
