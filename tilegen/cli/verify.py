"""`tilegen verify`."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from tilegen.artifacts import project
from tilegen.cli import options as opt
from tilegen.cli.console import out, progress
from tilegen.emit.render import Rendered, render
from tilegen.verify.report import Outcome, has_gpu, verify_kernel
from tilegen.verify.workers import each


def verify(
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
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Inputs drawn for each size.")] = 1,
    jobs: opt.JobsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Build kernels, run them over a grid of sizes, and compare with float64.

    Prints how each kernel ran, the sizes tried, the largest error in units of its bound, and where it is. A
    kernel that this machine cannot run is compiled and says so. Exits with 1 if a result is outside its bound.
    """
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    style = project.style()
    rendered = [render(spec, style) for spec in opt.specs(kernel, target, given, kernels)]
    return report(rendered, seeds, as_json, jobs)


def report(
    rendered: Sequence[Rendered], seeds: int = 1, as_json: bool = False, jobs: int | None = None
) -> int:
    """Verify emitted kernels and print a line for each; the exit code is the worst one's.

    Kernels are verified side by side, except where a GPU runs them: it stays with this process.
    """
    outcomes: list[Outcome] = []
    if jobs is None and len(rendered) > 1 and has_gpu():
        jobs = 1
    results = each(functools.partial(verify_kernel, seeds=seeds), rendered, jobs)
    with progress("verifying") as bar:
        task = bar.add_task("", total=len(rendered))
        for kernel in rendered:
            bar.update(task, description=kernel.stem)
            outcome = next(results)
            outcomes.append(outcome)
            bar.advance(task)
            if not as_json:
                out.print(f"{outcome.status:<9} {kernel.stem}: {outcome.summary}")
                for line in outcome.details:
                    out.print(f"          {line}")
    if as_json:
        typer.echo(json.dumps([o.as_dict() for o in outcomes], indent=2))
    return max((o.exit_code for o in outcomes), default=0)
