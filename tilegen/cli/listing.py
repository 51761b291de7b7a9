"""`tilegen list` and `tilegen fields`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from tilegen import fields, registry
from tilegen.artifacts import kernel_list
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.emit import naming
from tilegen.plans import make_plan
from tilegen.targets import target


def list_kernels(
    kernels: opt.GlobOption = "*",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    cmake: Annotated[
        bool, typer.Option("--cmake", help="Print the source paths, one a line.")
    ] = False,
) -> int:
    """Print the kernels of `tilegen.toml`: name, target, and the command that makes each."""
    listed = kernel_list.read(kernel_list.find())
    chosen = listed.specs if kernels == "*" else listed.select(kernels)
    rows = []
    for spec in chosen:
        plan = make_plan(spec)
        stem = naming.stem(plan)
        source, header = naming.paths(plan, stem)
        row = {"name": stem, "target": spec.target.name, "source": source, "header": header}
        rows.append({**row, "command": spec.command()})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif cmake:
        for row in rows:
            typer.echo(str(listed.out / row["source"]))
    else:
        for row in rows:
            typer.echo(f"{row['name']}\n    {row['command']}")
    return 0


def show_fields(
    operator: Annotated[
        str, typer.Argument(help="An operator, such as gemm, or a formula or its name.")
    ] = "gemm",
) -> int:
    """Print every field of an operator's problem and schedules: flag, default, meaning.

    Of a formula, the schedules that compute it.
    """
    operator, implied = registry.operator_of(operator)
    problem_class = registry.problem_class(operator)
    schedules = registry.schedule_classes(operator)
    if implied:
        problem = problem_class(**implied)
        wheres = [target(name) for name in ("sm_90a", "portable")]
        schedules = [registry.schedule_class(problem, where) for where in wheres]
        out.print(problem.title(), style="bold")
        out.print()
    for cls in (problem_class, *schedules):
        backend = getattr(cls, "backend", "")
        head = f"{cls.__name__} (schedule {cls.name}, {backend})" if backend else cls.__name__
        table = Table(title=head, title_justify="left", box=None, show_header=False, pad_edge=False)
        for name, field in fields.options(cls).items():
            default = "derived" if field.metadata["derived"] else fields.to_text(field.default)
            unit = f" [{field.metadata['unit']}]" if field.metadata["unit"] else ""
            table.add_row(fields.flag(name), default, field.metadata["doc"] + unit)
        out.print(table)
        out.print()
    return 0
