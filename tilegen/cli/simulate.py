"""`tilegen simulate`."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen.artifacts import project
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.cli.mutate import mutate
from tilegen.emit.render import Rendered, render
from tilegen.errors import UsageError
from tilegen.simulate import Options, report
from tilegen.simulate import as_json as simulate_json
from tilegen.targets import CudaTarget
from tilegen.verify.own import run_plan
from tilegen.verify.simulated import costs_by_line, simulate_case
from tilegen.verify.workers import each

ORDERS = ("deterministic", "lazy", "random")


def simulate(
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
    order: Annotated[str, typer.Option("--order", help="deterministic, lazy or random.")] = ORDERS[
        0
    ],
    seed: Annotated[
        int, typer.Option("--seed", help="Of the random order, and of the inputs.")
    ] = 0,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Seeds to try, from --seed on.")] = 1,
    costs: Annotated[
        bool, typer.Option("--costs", help="Bank conflicts and sectors by line.")
    ] = False,
    multiprocessors: Annotated[
        Optional[int], typer.Option("--multiprocessors", help="Of the simulated card.")
    ] = None,
    launch: Annotated[
        Optional[Path],
        typer.Option(
            "--launch", help="How to call a .cu of your own; default: FILE.toml beside it."
        ),
    ] = None,
    jobs: opt.JobsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    mutated: Annotated[
        bool, typer.Option("--mutate", help="Weaken each synchronisation instruction in turn.")
    ] = False,
    reviewed: Annotated[
        Optional[Path], typer.Option("--reviewed", help="Mutants known to make no difference.")
    ] = None,
    page: Annotated[Optional[Path], typer.Option("--page", help="Write a page of mutants.")] = None,
) -> int:
    """Run a CUDA kernel without a GPU, and report races, missing fences, stray accesses, hangs, wrong values.

    Sizes are given as flags of their own: `tilegen simulate gemm --m 200 --n 136 --k 72`. Without them the
    kernel's own verification sizes are tried. Exits with 1 if anything was found.

    A .cu file of your own runs by a launch plan, which names its launcher (or kernel, grid and block) and its
    arguments: docs/simulator.md.

    With --mutate each synchronisation instruction is deleted or weakened in turn, and what the simulator does not
    find is listed; exits with 1 if such a survivor is not on the reviewed list.
    """
    if order not in ORDERS:
        raise UsageError(f"unknown order '{order}'", f"Orders: {', '.join(ORDERS)}")
    if kernel and kernel.endswith(".cu"):
        every = [_options(order, number) for number in range(seed, seed + runs)]
        return _own(Path(kernel), launch, every, costs, as_json)
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    sizes, given = opt.take_sizes(given)
    if kernel is not None and not target:
        target = ["sm_80"]
    specs = opt.specs(kernel, target, given, kernels)
    cuda = [render(s, project.style()) for s in specs if isinstance(s.target, CudaTarget)]
    if mutated:
        return mutate(cuda, reviewed, page, runs, jobs)
    work = [(made, _options(order, number)) for made in cuda for number in range(seed, seed + runs)]
    status, rows = 0, []
    for ok, row, text in each(functools.partial(_one, sizes, multiprocessors, costs), work, jobs):
        status = max(status, 0 if ok else 1)
        rows.append(row)
        if not as_json:
            out.print(text)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    return status


def _options(order: str, seed: int) -> Options:
    return Options(order=order, seed=seed, adversarial_elect=order == "random")


def _own(
    source: Path, launch: Path | None, every: list[Options], costs: bool, as_json: bool
) -> int:
    """Run a .cu file by its launch plan, once for each of the options."""
    plan = launch or source.with_suffix(".toml")
    found, rows = 0, []
    for options in every:
        run = run_plan(source, plan, options)
        found += len(run.findings)
        launches = [simulate_json(outcome, counters=costs) for outcome in run.outcomes]
        rows.append({"source": run.source, "ok": not run.findings, "launches": launches})
        if as_json:
            continue
        state = "ok" if not run.findings else "FOUND"
        out.print(f"{state:<6} {source}: {len(run.outcomes)} launches, seed {options.seed}")
        for finding in run.findings:
            if finding.kind == "launch":
                out.print(f"launch: {finding.message}")
        for outcome in run.outcomes:
            out.print(report(outcome, run.source, costs))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    return int(found > 0)


def _one(
    sizes: Mapping[str, int],
    multiprocessors: int | None,
    costs: bool,
    work: tuple[Rendered, Options],
) -> tuple[bool, dict[str, object], str]:
    """Simulate a kernel: whether it is right, the result for JSON, and the report."""
    found = simulate_case(work[0], sizes, work[1], multiprocessors)
    row = found.as_dict()
    if costs:
        row["lines"] = costs_by_line(found.outcomes)
    return found.ok, row, found.text(costs)
