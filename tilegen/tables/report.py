"""Tables as text for people: tuned against the default, geometric means, and how few kernels suffice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilegen.errors import UsageError
from tilegen.model import peak
from tilegen.tables import cover, files, lookup, words
from tilegen.tables.cover import FEW, WITHIN
from tilegen.tables.files import Table
from tilegen.tables.rows import Row
from tilegen.targets import target

# No more kernels than these are counted.
MOST = 40


def text(folder: Path) -> str:
    """Every row below a folder: sizes, speedup over the default, best peer; geometric means; covers."""
    lines: list[str] = []
    for path in sorted(folder.glob("*/*.toml")):
        try:
            table = files.read(path)
        except UsageError as error:
            lines.append(error.message)
            continue
        lines.append(f"{table.device}: {table.operator}")
        for row in table.rows:
            sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
            peer = min(row.peers, key=row.peers.__getitem__, default="")
            beside = f", {row.peers[peer]:.3f} of {peer}" if peer else ""
            of_peak = _share(table, row)
            beside += f", {of_peak:.0%} of the peak" if of_peak is not None else ""
            lines.append(
                f"  {row.problem} {sizes} on {row.target}: {row.speedup:.3f} of the default{beside}: "
                f"{row.schedule}"
            )
        if table.rows:
            tuned = geomean(r.speedup for r in table.rows)
            best = geomean(min(r.peers.values()) for r in table.rows if r.peers)
            beside = "" if math.isnan(best) else f", {best:.3f} of the best peer"
            lines.append(
                f"  geometric mean of {_counted(len(table.rows), 'row')}: {tuned:.3f} of the default{beside}"
            )
        lines += _mend(_stale_by_target(table)) + _covers(lookup.of_today(table))
        lines += [f"  {fault}" for fault in table.faults]
    return "\n".join(lines) if lines else f"no tables in {folder}"


def _share(table: Table, row: Row) -> float | None:
    """Part of the peak that a row's winner reaches; None where it is not known."""
    if not row.seconds:
        return None
    try:
        problem = words.problem_of(table.operator, row.problem)
    except UsageError:
        return None
    return peak.share(table.device, problem, row.sizes, statistics.median(row.seconds))


def stale(folder: Path) -> tuple[str, int]:
    """How many rows below a folder are of kernels that have changed since, in words and as a number."""
    lines, total, rows = [], 0, 0
    for path in sorted(folder.glob("*/*.toml")):
        table = files.read(path)
        count = _stale_by_target(table)
        if any(count.values()):
            lines += [f"{table.device}: {table.operator}", *_mend(count)]
        total, rows = total + sum(count.values()), rows + len(table.rows)
    lines.append(f"{total} of {_counted(rows, 'row')} stale")
    return "\n".join(lines), total


def _mend(count: Mapping[str, int]) -> list[str]:
    """A line for each target that has stale rows, with the command that measures them again."""
    return [
        f"  stale, as their kernels have changed: {_counted(stale, 'row')} on {where}; "
        f"tilegen tune --refresh --target {where}"
        for where, stale in count.items()
        if stale
    ]


def _stale_by_target(table: Table) -> dict[str, int]:
    """How many rows of each target are of kernels that have changed since."""
    groups = dict.fromkeys((row.problem, row.target) for row in table.rows)
    count: dict[str, int] = {}
    for problem, where in groups:
        rows = [r for r in table.rows if (r.problem, r.target) == (problem, where)]
        try:
            subject = words.problem_of(table.operator, problem)
            fresh = len(lookup.sort_rows(table, subject, target(where)).fresh)
        except UsageError:
            fresh = 0
        count[where] = count.get(where, 0) + len(rows) - fresh
    return count


def _covers(rows: Sequence[Row]) -> list[str]:
    """How few kernels serve all sizes of a problem: of one type, layout and epilogue, so of one C signature."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.target, row.threads), []).append(row)
    several = {key: members for key, members in groups.items() if len(members) > 1}
    lines, served = [], len(groups) - len(several)
    for (problem, where, threads), members in several.items():
        few = cover.smallest(members, FEW, WITHIN)
        losses = [min(lookup.loss(s, row) for s in few.schedules) for row in members]
        served += sum(x <= WITHIN for x in losses)
        beside = f" with {threads} threads" * (threads > 1)
        lines.append(
            f"  {problem or 'defaults'} on {where}{beside}, {len(members)} sizes: "
            f"{_served(members, len(few.schedules), losses)}"
        )
    if len(groups) > 1:
        lines.append(
            f"  in all, {FEW} kernels at most for each C signature: {served} of {len(rows)} sizes of "
            f"{len(groups)} signatures within {WITHIN:.0%}"
        )
    return lines


def _served(rows: Sequence[Row], few: int, losses: Sequence[float]) -> str:
    """How many sizes few kernels serve, what is lost there, and how many kernels serve all."""
    inside = sum(x <= WITHIN for x in losses)
    known = [x for x in losses if math.isfinite(x)]
    text = f"{few} kernel{'s serve' if few > 1 else ' serves'} "
    text += "all" if inside == len(rows) else f"{inside}"
    text += f" within {WITHIN:.0%} of the best kernel at each "
    text += f"(worst {max(known):.1%}, geometric mean {geomean(1 + x for x in known) - 1:.1%}"
    if len(known) < len(rows):
        text += f", none measured at {len(rows) - len(known)}"
    text += ")"
    if inside < len(rows):
        counts = range(FEW + 1, min(len(cover.measured(rows)), MOST) + 1)
        enough = (n for n in counts if cover.cover(rows, n, WITHIN).worst <= WITHIN)
        every = next(enough, None)
        text += f"; {every} serve all" if every else f"; more than {MOST} to serve all"
    return text


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of what is above 0; nan of nothing."""
    logs = [math.log(v) for v in values if v > 0]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
