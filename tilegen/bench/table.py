"""Reports as text: a table of ratios, geometric means by group, and changes against an earlier run."""

from __future__ import annotations

import math

from tilegen.bench.samples import Report, Row, geomean, spread, verdict

# A lead of no more than this is none; what is said then.
LEAST = 0.02
EVEN = "neither wins beyond noise"
VERDICTS = ("same", "faster", "slower", "unclear", "not timed")


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return lines


def text(report: Report) -> str:
    """The report as a table; ratios are peer / ours, above 1 ours is faster."""
    peers = sorted({name for row in report.rows for name in row.ratios})
    rows = [["case", "time", "Gflop/s", "GB/s", *peers, "best"]]
    notes = []
    for row in report.rows:
        seconds = row.median()
        cells = [row.case, "-" if math.isnan(seconds) else f"{seconds * 1e6:.1f} us"]
        cells.append(f"{row.flops / seconds / 1e9:.0f}" if seconds > 0 and row.flops else "-")
        cells.append(f"{row.bytes / seconds / 1e9:.0f}" if seconds > 0 else "-")
        cells += [f"{row.ratio(p):.3f}" if p in row.ratios else "-" for p in peers]
        name, ratio = row.best_peer()
        cells.append(f"{ratio:.3f}" if name else "-")
        rows.append(cells)
        notes += [f"{_what(row)}: {who}: {what}" for who, what in row.notes.items()]
        notes += [f"{row.case}: {who}: {why}" for who, why in row.errors.items()]
    lines = [f"{report.suite} on {report.machine.get('name') or report.machine.get('cpu', '')}"]
    lines += _columns(rows)
    for group in dict.fromkeys(r.group for r in report.rows):
        rows_of = [r for r in report.rows if r.group == group]
        for what, found in (("the best peer", Row.best_peer), ("the ceiling", Row.ceiling)):
            best = [ratio for name, ratio in map(found, rows_of) if name]
            if best:
                lines.append(
                    f"{group or 'all'}: geometric mean {geomean(best):.3f} of {what}, least {min(best):.3f}"
                )
    noise = [spread(r.ratios[p]) for r in report.rows for p in r.ratios]
    if noise:
        lines.append(f"noise of a ratio: {max(noise):.1%} at most")
    return "\n".join([*lines, *dict.fromkeys(notes)])


def _what(row: Row) -> str:
    """A case's label without its sizes."""
    return row.case.rpartition(" ")[0] or row.case


def wins(report: Report) -> list[str]:
    """At which sizes each case's fused kernel wins, at which a split does, and where noise decides."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in report.rows:
        name, ratio = row.best_peer()
        if not name:
            continue
        least = max(LEAST, 2 * spread(row.ratios[name]))
        word = "fused wins" if ratio > 1 + least else f"{name} wins" if ratio < 1 - least else EVEN
        sizes = "x".join(str(extent) for extent in row.sizes.values())
        found.setdefault(_what(row), {}).setdefault(word, []).append(f"{sizes} ({ratio:.2f})")
    return [
        f"{what}: " + "; ".join(f"{word} at {', '.join(sizes)}" for word, sizes in words.items())
        for what, words in found.items()
    ]


def compare(old: Report, new: Report) -> tuple[list[str], int]:
    """Lines `case peer: verdict (old -> new)`, their number by verdict, and how many cases became worse.

    Worse is slower beyond the noise, or not timed any more; cases that only one of the runs has are no verdict.
    """
    before = {row.case: row for row in old.rows}
    lines, words = [], []
    devices = [report.machine.get("name") or report.machine.get("cpu", "") for report in (old, new)]
    if devices[0] != devices[1]:
        lines.append(f"of two devices: {' and '.join(d or 'unknown' for d in devices)}")
    for row in new.rows:
        if row.case not in before:
            lines.append(f"{row.case}: new")
            continue
        earlier = before[row.case]
        if earlier.seconds.get("tilegen") and not row.seconds.get("tilegen"):
            words.append("not timed")
            lines.append(f"{row.case}: not timed now: {row.errors.get('tilegen', 'no samples')}")
            continue
        for peer, ratios in row.ratios.items():
            known = earlier.ratios.get(peer, [])
            words.append(verdict(known, ratios))
            was = f"{earlier.ratio(peer):.3f}" if known else "-"
            lines.append(f"{row.case} {peer}: {words[-1]} ({was} -> {row.ratio(peer):.3f})")
    left = len(before.keys() - {row.case for row in new.rows})
    counts = [f"{words.count(word)} {word}" for word in VERDICTS if word in words]
    counts += [f"{left} only in the earlier run"] if left else []
    lines.append(", ".join(counts) or "no case in common")
    return lines, sum(word in ("slower", "not timed") for word in words)
