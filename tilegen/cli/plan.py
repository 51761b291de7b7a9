"""`tilegen plan`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from tilegen.artifacts import project
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.emit import naming
from tilegen.emit.render import render
from tilegen.plans import make_plan
from tilegen.simulate import Options
from tilegen.targets import CudaTarget
from tilegen.verify.simulated import simulate_case


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Show every derived number of a kernel and why: shared memory, registers, occupancy, intensity."""
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    rows = []
    for spec in opt.specs(kernel, target, given, kernels):
        made = make_plan(spec)
        facts = made.facts()
        stem = naming.stem(made)
        facts_json = [{"name": f.name, "value": f.value, "why": f.why} for f in facts]
        rows.append({"kernel": stem, "command": spec.command(), "facts": facts_json})
        if as_json:
            continue
        table = Table(title=stem, title_justify="left", box=None, show_header=False, pad_edge=False)
        table.add_row("computes", spec.problem.title(), "")
        for fact in facts:
            table.add_row(fact.name, fact.value, fact.why)
        out.print(table)
        if costs and isinstance(spec.target, CudaTarget):
            rendered = render(spec, project.style())
            sizes = spec.problem.cases(spec.schedule.tile_extents())[-1]
            out.print(simulate_case(rendered, sizes, Options(detectors=False)).text(costs=True))
        out.print()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    return 0
