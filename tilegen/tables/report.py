"""Tables as text for people: tuned against the default, geometric means, and how few kernels suffice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from tilegen.tables import cover, files, lookup
from tilegen.tables.cover import FEW, WITHIN
from tilegen.tables.rows import Row


def text(folder: Path) -> str:
    """Every row below a folder: sizes, speedup over the default, best peer; geometric means; covers."""
    lines: list[str] = []
    for path in sorted(folder.glob("*/*.toml")):
        table = files.read(path)
        lines.append(f"{table.device}: {table.operator}")
        for row in table.rows:
            sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
            peer = min(row.peers, key=row.peers.__getitem__, default="")
            beside = f", {row.peers[peer]:.3f} of {peer}" if peer else ""
            lines.append(
                f"  {row.problem} {sizes} on {row.target}: {row.speedup:.3f} of the default{beside}: "
                f"{row.schedule}"
            )
        if table.rows:
            tuned = _mean(r.speedup for r in table.rows)
            best = _mean(min(r.peers.values()) for r in table.rows if r.peers)
            beside = "" if math.isnan(best) else f", {best:.3f} of the best peer"
            lines.append(
                f"  geometric mean of {len(table.rows)} rows: {tuned:.3f} of the default{beside}"
            )
        lines += _covers(table.rows)
        lines += [f"  {fault}" for fault in table.faults]
    return "\n".join(lines) if lines else f"no tables in {folder}"


def _covers(rows: Sequence[Row]) -> list[str]:
    """For each problem with several rows, how few kernels serve them all."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.target, row.threads), []).append(row)
    lines = []
    for (problem, where, threads), members in groups.items():
        if len(members) < 2:
            continue
        few = cover.smallest(members, FEW, WITHIN)
        losses = [min(lookup.loss(s, row) for s in few.schedules) for row in members]
        inside = [x for x in losses if x <= WITHIN]
        known = [x for x in losses if math.isfinite(x)]
        beside = f" with {threads} threads" if threads > 1 else ""
        kernels = f"{len(few.schedules)} kernel{'s cover' if len(few.schedules) > 1 else ' covers'}"
        line = f"  {problem or 'defaults'} on {where}{beside}: {kernels} "
        line += (
            f"{len(inside)} of {len(members)} sizes within {WITHIN:.0%} of the best kernel at each"
        )
        line += f", {len(known)} within {max(known):.1%} (mean {statistics.mean(known):.1%})"
        lines.append(line)
    return lines


def _mean(values) -> float:
    logs = [math.log(v) for v in values if v > 0]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
