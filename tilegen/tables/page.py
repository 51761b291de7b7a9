"""The page of tuned tables, docs/tables.md, made from the files in tuning/."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tilegen.tables import cover, files, lookup
from tilegen.tables.cover import FEW, WITHIN
from tilegen.tables.report import geomean
from tilegen.tables.rows import Row

HEAD = f"""# Tuned tables

Written by `tilegen tune --page docs/tables.md` from `tuning/`; do not edit. `tilegen tune --show` says which rows are stale.

Means are geometric. `over the default` is the time of what the model, or the stated rule, chose on the day of the row, divided
by that of the tuned kernel (`tilegen plan --measured TABLE` says what the model of today loses); `over the best peer` the same of
the fastest library in the run. A signature is one type, layout and epilogue, on one target, with one number of threads: kernels that
are called alike, of which `tilegen dispatch` takes {FEW} at most. A size is served if one of them is within {WITHIN:.0%} of the best
that was measured there.
"""

# Where few kernels do not serve all sizes, what so many do is told too.
MORE = (16, 20, 24, 32)

COLUMNS = (
    "operator",
    "target",
    "signatures",
    "rows",
    "over the default",
    "most",
    "over the best peer",
    "served by few",
)


def page(folder: Path) -> str:
    """The page's text, from every table below a folder: a section a device, a line an operator and target."""
    parts = [HEAD]
    for device in sorted(p.name for p in folder.iterdir() if p.is_dir()):
        lines, beyond = [], []
        for path in sorted((folder / device).glob("*.toml")):
            table = files.read(path)
            every = lookup.of_today(table)
            for where, threads in dict.fromkeys((r.target, r.threads) for r in every):
                rows = [r for r in every if (r.target, r.threads) == (where, threads)]
                name = f"{where}, {threads} threads" if threads > 1 else where
                lines.append(_line(f"`{table.operator}`", name, rows))
                beyond += _beyond(rows)
        if lines:
            head = [f"\n## {device}\n", _cells(COLUMNS), _cells(["---"] * len(COLUMNS))]
            parts.append("\n".join([*head, *lines, *beyond]) + "\n")
    return "".join(parts)


def _cells(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _signatures(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.problem, []).append(row)
    return found


def _losses(rows: Sequence[Row], few: Sequence[str]) -> list[float]:
    """What some kernels of a signature lose at each of its sizes; inf where none of them was timed."""
    return [min(lookup.loss(s, row) for s in few) for row in rows]


def _line(operator: str, where: str, rows: Sequence[Row]) -> str:
    groups = _signatures(rows)
    served = 0
    for members in groups.values():
        few = cover.smallest(members, FEW, WITHIN).schedules
        served += sum(x <= WITHIN for x in _losses(members, few))
    peers = [min(r.peers.values()) for r in rows if r.peers]
    return _cells(
        [
            operator,
            where,
            str(len(groups)),
            str(len(rows)),
            f"{geomean(r.speedup for r in rows):.3f}",
            f"{max(r.speedup for r in rows):.2f}",
            f"{geomean(peers):.3f}" if peers else "none timed",
            f"{served} of {len(rows)}",
        ]
    )


def _beyond(rows: Sequence[Row]) -> list[str]:
    """A paragraph for each signature of which some sizes are not served: where, and what is lost."""
    found = []
    for problem, members in _signatures(rows).items():
        losses = _losses(members, cover.smallest(members, FEW, WITHIN).schedules)
        lost = [(x, "x".join(map(str, r.sizes.values()))) for x, r in zip(losses, members)]
        lost = sorted((x, size) for x, size in lost if x > WITHIN)
        if not lost:
            continue
        known = [x for x in losses if math.isfinite(x)]
        told = ", ".join(f"{s} {x:.1%}" if math.isfinite(x) else f"{s} not timed" for x, s in lost)
        text = (
            f"Of `{problem or 'the defaults'}` on {members[0].target} {len(members) - len(lost)} of "
            f"{len(members)} sizes are served; in the geometric mean {FEW} kernels lose "
            f"{geomean(1 + x for x in known) - 1:.2%}. {_more(members)} {_chosen(members)}The other sizes, "
            f"and what is lost there: {told}."
        )
        found.append("\n" + textwrap.fill(text, 140, break_on_hyphens=False))
    return found


def _chosen(rows: Sequence[Row]) -> str:
    """What the kernels lose that a chooser takes, where each size was timed with one of them."""
    losses = _losses(rows, cover.gentlest(rows, FEW, WITHIN).schedules)
    if not all(math.isfinite(x) for x in losses):
        return ""
    return (
        f"Those that a chooser takes lose {max(losses):.1%} at most and "
        f"{geomean(1 + x for x in losses) - 1:.2%} in the geometric mean, and serve "
        f"{sum(x <= WITHIN for x in losses)}. "
    )


def _more(rows: Sequence[Row]) -> str:
    """How many sizes more kernels would serve."""
    counts = []
    for number in MORE:
        losses = _losses(rows, cover.cover(rows, number, WITHIN).schedules)
        counts.append(f"{number} kernels serve {sum(x <= WITHIN for x in losses)}")
    return f"{', '.join(counts)}."
