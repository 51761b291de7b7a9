"""Operators against the ceiling: which part of a plain copy, or read, each reaches at each size."""

from __future__ import annotations

import math
import statistics

from tilegen.bench.samples import CEILINGS, Report, Row

# From this size on a case no longer fits a cache, and its ceiling is the fastest copy or read of the run.
LARGE_BYTES = 100 << 20


def against_ceiling(report: Report) -> list[str]:
    """Lines of a Markdown table, operators by sizes; none for a report without ceilings, or of much arithmetic.

    Of a large case the ceiling is the best rate that the run saw of any copy (or read) of a large size: a
    library's copy takes slower ways at some sizes. Of a smaller one it is the copy or read of its own size.
    """
    best = {name: _best(report.rows, name) for name in CEILINGS}
    rows = [r for r in report.rows if r.seconds.get("tilegen")]
    if not any(best.values()) or any(r.flops > 40 * r.bytes for r in rows):
        return []
    sizes = list(dict.fromkeys(_size(r) for r in rows))
    table: dict[str, dict[str, str]] = {}
    for row in rows:
        part = _part(row, best)
        table.setdefault(_operator(row), {})[_size(row)] = f"{part:.2f}" if part > 0 else "-"
    lines = [
        "Part of a plain copy, for reductions of a plain read:",
        "",
        f"| operator | {' | '.join(sizes)} |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for operator, parts in table.items():
        lines.append(f"| {operator} | {' | '.join(parts.get(s, '-') for s in sizes)} |")
    return [*lines, ""]


def _best(rows: list[Row], name: str) -> float:
    """Bytes a second of the fastest ceiling of that name at a large size, 0 where there is none."""
    large = [r for r in rows if r.bytes >= LARGE_BYTES and r.seconds.get(name)]
    return max((r.bytes / statistics.median(r.seconds[name]) for r in large), default=0.0)


def _part(row: Row, best: dict[str, float]) -> float:
    name, part = row.ceiling()
    if row.bytes < LARGE_BYTES:
        return part
    ceiling = best[name or "copy"]
    return row.bytes / row.median() / ceiling if ceiling else math.nan


def _size(row: Row) -> str:
    return "x".join(str(v) for v in row.sizes.values())


def _operator(row: Row) -> str:
    return row.case.removesuffix(_size(row)).strip()
