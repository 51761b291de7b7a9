"""A report as a picture: ratios to each peer, and where the kernels stand under the roofline."""

from __future__ import annotations

from pathlib import Path

from tilegen.bench.samples import Report
from tilegen.errors import ToolMissing


def draw(report: Report, path: Path) -> None:
    """Write a PNG. Raises ToolMissing without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise ToolMissing(
            f"charts need matplotlib: {error}", "pip install 'tilegen[bench]'"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [r for r in report.rows if r.ratios]
    peers = sorted({name for r in rows for name in r.ratios})
    figure, (bars, roof) = pyplot.subplots(
        1, 2, figsize=(14, max(4, 0.34 * len(rows) + 1.5)), layout="constrained"
    )
    height = 0.8 / max(1, len(peers))
    for number, peer in enumerate(peers):
        at = [i + number * height for i, r in enumerate(rows) if peer in r.ratios]
        bars.barh(at, [r.ratio(peer) for r in rows if peer in r.ratios], height, label=peer)
    bars.axvline(1.0, color="black", linewidth=0.8)
    bars.set_yticks([i + 0.4 for i in range(len(rows))], [r.case for r in rows], fontsize=7)
    bars.invert_yaxis()
    bars.set_xlabel("time of peer / time of tilegen")
    bars.legend(fontsize=7)
    for row in rows:
        if row.flops and row.bytes:
            roof.loglog(row.flops / row.bytes, row.flops / row.median() / 1e9, "o", color="C0")
    roof.set_xlabel("flop / byte")
    roof.set_ylabel("Gflop/s")
    roof.grid(True, which="both", linewidth=0.3)
    figure.suptitle(
        f"{report.suite} on {report.machine.get('name') or report.machine.get('cpu', '')}"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
