"""`tilegen plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.table import Table

from tilegen.artifacts import project
from tilegen.bench.samples import load
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.emit import naming
from tilegen.emit.render import render
from tilegen.errors import UsageError
from tilegen.model import choose
from tilegen.plans import make_plan
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.tables import files
from tilegen.tables.lookup import parse_sizes
from tilegen.tables.measured import of_table
from tilegen.targets import CpuTarget, CudaTarget, Target
from tilegen.toolchain import host
from tilegen.verify.simulated import costs_by_line, simulate_case

# Schedules of a ranking that are printed.
SHOWN = 12

# Bytes of the smallest L2 cache for which a block of B is derived.
LEAST_L2 = 65536


def plan(
    context: typer.Context,
    kernel: opt.Kernel = None,
    tile: opt.TileOption = None,
    stages: opt.StagesOption = None,
    dtype: opt.DtypeOption = None,
    layout: opt.LayoutOption = None,
    epilogue: opt.EpilogueOption = None,
    target: opt.TargetOption = None,
    assignments: opt.SetOption = None,
    kernels: opt.GlobOption = "*",
    costs: Annotated[
        bool,
        typer.Option(
            "--costs", help="Simulate one call: bank conflicts and global sectors by line."
        ),
    ] = False,
    measured: Annotated[
        Optional[Path],
        typer.Option(
            "--measured",
            help="Only say what the model's choices lose in a saved benchmark or a tuning table.",
        ),
    ] = None,
    l2: Annotated[
        Optional[str],
        typer.Option(
            "--l2",
            help="With sizes, on a CPU: rank for an L2 cache of these bytes, or `here` for this machine's.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Show every derived number of a kernel and why: shared memory, registers, occupancy, intensity.

    With sizes, also the schedules that a model ranks for them, and what limits each.

    - `tilegen plan gemm --dtype bf16 -t sm_90a --m 64 --n 6144 --k 4096`
    - `tilegen plan gemm --dtype f32 -t x86-64-v4 --m 1024 --n 1024 --k 1024 --l2 here`
    - `tilegen plan --measured benchmarks/results/gemm_wgmma_h200.json`
    - `tilegen plan --measured tuning/nvidia-h200/gemm.toml`
    """
    if measured is not None:
        return _judge(measured)
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    rows = []
    at = opt.with_sizes(dict(given)).get("at") if kernel is not None else None
    if l2 is not None and (at is None or as_json):
        raise UsageError(
            "--l2 is for the ranking of schedules", "Give sizes, --m 1024 ..., and no --json."
        )
    for spec in opt.specs(kernel, target, given, kernels):
        made = make_plan(spec)
        facts = made.facts()
        stem = naming.stem(made)
        facts_json = [{"name": f.name, "value": f.value, "why": f.why} for f in facts]
        rows.append({"kernel": stem, "command": spec.command(), "facts": facts_json})
        simulated = None
        if costs and isinstance(spec.target, CudaTarget):
            sizes = spec.problem.cases(spec.schedule.tile_extents())[-1]
            rendered = render(spec, project.style())
            simulated = simulate_case(rendered, sizes, Options(detectors=False))
            rows[-1]["costs"] = {"sizes": sizes, "lines": costs_by_line(simulated.outcomes)}
        if as_json:
            continue
        table = Table(title=stem, title_justify="left", box=None, show_header=False, pad_edge=False)
        table.add_row("computes", spec.problem.title(), "")
        for fact in facts:
            table.add_row(fact.name, fact.value, fact.why)
        out.print(table)
        if simulated:
            out.print(simulated.text(costs=True))
        if at is not None:
            _print_ranking(spec, at, l2)
        out.print()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    return 0


def _with_l2(where: Target, l2: str) -> CpuTarget:
    """The target with a cache of another size than it assumes."""
    if not isinstance(where, CpuTarget):
        raise UsageError(f"--l2 is for targets of a CPU, not {where}")
    size = host.l2_bytes() if l2 == "here" else int(l2) if l2.isascii() and l2.isdigit() else 0
    if size is None:
        raise UsageError("this machine does not say how large its L2 cache is", "Give --l2 BYTES.")
    if size < LEAST_L2:
        raise UsageError(f"--l2 {l2}: give bytes, {LEAST_L2} at least, or `here`")
    return replace(where, l2_bytes=size)


def _print_ranking(spec: KernelSpec, at: str, l2: str | None) -> None:
    """The schedules that the model ranks best for sizes, with their times and limits."""
    where = spec.target if l2 is None else _with_l2(spec.target, l2)
    ranked = choose.rank(spec.problem, where, parse_sizes(at, spec.problem))
    if not ranked:
        out.print(f"no model ranks {spec.problem.operator} on {spec.target}")
        return
    out.print(f"{len(ranked)} schedules, estimated for {at}:")
    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("schedule", "time", "limit and what comes on top"):
        table.add_column(name, no_wrap=name != "limit and what comes on top")
    for estimate in ranked[:SHOWN]:
        words = [type(estimate.schedule).name, *estimate.schedule.tokens()]
        time = f"{estimate.seconds * 1e6:.1f} us"
        table.add_row(" ".join(dict.fromkeys(words)), time, estimate.why())
    out.print(table)


def _judge(path: Path) -> int:
    """How far the model's choices are from the fastest of what was measured."""
    is_table = path.suffix == ".toml"
    kernels = of_table(files.read(path)) if is_table else choose.of_report(load(path).rows)
    judged = choose.judge(kernels)
    if not judged:
        raise UsageError(f"{path} has no size at which a model could choose among schedules")
    for one in sorted(judged, key=lambda j: -j.loss):
        sizes = " ".join(f"{k}={v}" for k, v in one.sizes.items())
        out.print(f"{one.loss:6.1%}  {sizes}: {one.chosen} of {one.measured}; fastest: {one.best}")
    out.print(choose.summary(judged))
    return 0
