"""Tables as text for people: tuned against the default, and geometric means."""

from __future__ import annotations

import math
from pathlib import Path

from tilegen.tables import files


def text(folder: Path) -> str:
    """Every row below a folder: sizes, speedup over the default, best peer; and geometric means."""
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
        lines += [f"  {fault}" for fault in table.faults]
    return "\n".join(lines) if lines else f"no tables in {folder}"


def _mean(values) -> float:
    logs = [math.log(v) for v in values if v > 0]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
