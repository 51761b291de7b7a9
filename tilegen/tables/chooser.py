"""One function for several targets: each has a kernel, or where a table has rows for it a chooser by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilegen.emit.dispatch import Branch, render_dispatch
from tilegen.emit.render import Rendered, Style
from tilegen.tables import selector
from tilegen.tables.selector import Wanted
from tilegen.targets import Target


@dataclass
class Chooser:
    """What is written, and what a user should know of it.

    Attributes:
        files: text by path relative to the output folder: the choosers, then every kernel.
        told: what is lost, and the schedules that are chosen among, by lines.
        notes: stale rows, and targets without rows.
    """

    files: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def make(
    targets: Sequence[Target],
    plain: Callable[[Target], Rendered],
    wanted: Callable[[Target], Wanted] | None,
    folder: Path,
    style: Style = Style(),
) -> Chooser:
    """Emit a function that picks by processor or GPU where there are several targets, and by size from a table.

    Args:
        targets: most preferred first.
        plain: emits the one kernel of a target.
        wanted: what is asked of a table for a target; None where none is asked.
        folder: of the tables.
        style: prefix and licence.

    Raises:
        NoRow: one target, for which the table has no row.
        UsageError: no such device, or targets among which nothing can be chosen.
    """
    made, branches, more = Chooser(), [], []
    for target in targets:
        by_size = None
        if wanted is not None:
            asked = wanted(target)
            more = selector.flags(asked)
            try:
                by_size = selector.make(asked, folder, style)
            except selector.NoRow as error:
                if len(targets) == 1:
                    raise
                made.notes.append(f"{error.message}: one kernel for all sizes")
        if by_size is None:
            one = plain(target)
            branches.append(Branch(one.stem, one.symbol, one.plan, one.files))
            continue
        branches.append(Branch(by_size.stem, by_size.symbol, by_size.plan, by_size.files))
        made.notes += by_size.notes
        made.told += [by_size.losses(), *(f"  {s}" for s in selector.schedules(by_size))]
    alone = wanted is not None and len(branches) == 1
    made.files = dict(branches[0].files if alone else render_dispatch(branches, style, more).files)
    return made
