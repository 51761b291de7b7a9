"""What the commands print with."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from tilegen.errors import TilegenError

out = Console(soft_wrap=True, highlight=False, markup=False)


def err(error: TilegenError) -> None:
    """Print an error: `error: what`, then the hint indented under it."""
    first, *rest = error.message.splitlines() or [""]
    lines = [f"error: {first}", *rest]
    for line in error.hint.splitlines():
        lines.append(line if line.startswith(" ") else f"  {line}")
    sys.stderr.write("\n".join(lines) + "\n")


def progress(what: str) -> Progress:
    """A progress bar on standard error, for work of a known number of steps."""
    # On a narrow terminal the description is cut, not the count or the time.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        TextColumn(what),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", table_column=rest),
        console=Console(stderr=True),
        transient=True,
        expand=True,
        disable=not sys.stderr.isatty(),
    )
