"""The page of measured results, docs/performance.md, made from the files in benchmarks/results/."""

from __future__ import annotations

import math
from pathlib import Path

from tilegen.bench.against import against_ceiling
from tilegen.bench.samples import Report, Row, geomean, load

HEAD = """# Performance

Written by `tilegen bench --page docs/performance.md` from the raw samples in `benchmarks/results/`; do not edit.

A ratio is the time of the best peer divided by ours, medians of pairs measured in one run with inputs rotated past
the caches: above 1, ours is faster. `least` is the worst case of a group. Peers: `torch` is PyTorch eager (cuBLAS for a
product), `cudnn` and `flash` its attention by cuDNN and by FlashAttention, `flex` its FlexAttention, compiled, `cublaslt` a
product with the epilogue inside cublasLt, `torch_gated` one product of both matrices of a gated layer and a compiled kernel
that joins the halves, `triton` and `tilelang` kernels of these with the epilogue inside, `torch_fp8` and `torch_blocks`
PyTorch's products of fp8 with scales of rows and of blocks. A ceiling is no peer: `copy` is a plain copy of as many bytes,
`read` a kernel that only reads as many, `without_score` our attention without the formula of its score, and the figure is
the part of its speed that ours reaches. On the CPU
`onednn_prepacked` was spared the packing of weights; it is a peer of kernels of ours that are too, and named in brackets
beside the others. The rate of an attention counts every pair of query and key but those that a causal mask leaves out; a
kernel that skips what a mask formula leaves out shows more than the hardware can multiply.
"""


def page(folder: Path) -> str:
    """The page's text, from every `*.json` of a results folder.

    Raises:
        UsageError: a file cannot be read.
    """
    reports = [(path, load(path)) for path in sorted(folder.glob("*.json"))]
    parts = [HEAD]
    for path, report in reports:
        parts.append(_section(path, report))
    return "\n".join(parts)


def _section(path: Path, report: Report) -> str:
    machine = report.machine
    name = machine.get("name") or machine.get("cpu", "")
    keys = ("driver_version", "cuda", "threads", "text")
    facts = [f"{key} {machine[key]}" for key in keys if key in machine]
    lines = [
        f"## {path.stem}",
        "",
        f"{name}, {', '.join(facts)}; `{path.parent.name}/{path.name}`",
        "",
    ]
    lines += [
        "| group | cases | ratio, geometric mean | least | of the ceiling |",
        "|---|---|---|---|---|",
    ]
    for group in dict.fromkeys(r.group for r in report.rows):
        rows = [r for r in report.rows if r.group == group]
        best = [ratio for name, ratio in map(Row.best_peer, rows) if name]
        limit = [ratio for name, ratio in map(Row.ceiling, rows) if name]
        if best or limit:
            cells = [group or "all", str(max(len(best), len(limit))), _mean(best)]
            cells += [f"{min(best):.3f}" if best else "-", _mean(limit)]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *against_ceiling(report)]
    lines += [
        "| case | kernel | time | rate | best peer | ratio | of the ceiling |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report.rows:
        peer, ratio = row.best_peer()
        limit, part = row.ceiling()
        seconds = row.median()
        if math.isnan(seconds):
            continue
        cells = [row.case, f"`{row.kernel}`", f"{seconds * 1e6:.1f} us", _rate(row, seconds)]
        spared, beside = row.spared_packing()
        who = f"{peer or '-'} ({spared} {beside:.3f})" if spared else peer or "-"
        cells += [who, f"{ratio:.3f}" if peer else "-", f"{part:.3f}" if limit else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _rate(row: Row, seconds: float) -> str:
    if not row.flops and not row.bytes:
        return "-"
    if row.flops and row.flops > 40 * row.bytes:
        tera = row.flops / seconds / 1e12
        return f"{tera:.1f} Tflop/s" if tera >= 1 else f"{tera * 1e3:.0f} Gflop/s"
    return f"{row.bytes / seconds / 1e9:.0f} GB/s"


def _mean(ratios: list[float]) -> str:
    return f"{geomean(ratios):.3f}" if ratios else "-"
