"""`tilegen dispatch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen import fields, registry
from tilegen.artifacts import project, writer
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.emit.render import Rendered, render
from tilegen.errors import UsageError
from tilegen.tables import chooser
from tilegen.tables.selector import Wanted
from tilegen.targets import Target
from tilegen.targets import target as find_target

DEFAULT_TARGETS = ["x86-64-v4", "x86-64-v3", "portable"]


def dispatch(
    context: typer.Context,
    kernel: Annotated[str, typer.Argument(help="An operator, or a formula in quotes.")],
    folder: Annotated[
        Path, typer.Option("--out-dir", "-o", help="Folder to write to: your own sources.")
    ],
    dtype: opt.DtypeOption = None,
    layout: opt.LayoutOption = None,
    epilogue: opt.EpilogueOption = None,
    target: Annotated[
        Optional[list[str]],
        typer.Option(
            "--target", "-t", help="C targets, or CUDA ones, most preferred first. Repeatable."
        ),
    ] = None,
    assignments: opt.SetOption = None,
    tuned: Annotated[
        Optional[str],
        typer.Option("--tuned", help="Choose by size, from this device's tuning table."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Of the table's rows (C).")] = 1,
    most: Annotated[int, typer.Option("--most", min=1, help="Kernels at most.")] = 6,
    within: Annotated[
        float, typer.Option("--within", min=0.0, help="Loss that is small enough: 0.03 is 3 %.")
    ] = 0.03,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that were edited by hand.")
    ] = False,
) -> int:
    """Write kernels and a function that picks one at run time: by the processor or GPU, and by size with --tuned.

    - `tilegen dispatch gemm --dtype f32 -t x86-64-v4 -t x86-64-v3 -t portable -o third_party/kernels`
    - `tilegen dispatch gemm --dtype bf16 -t sm_90a -t sm_80 -o third_party/kernels`
    - `tilegen dispatch gemm --dtype f32 -t x86-64-v4 --tuned DEVICE -o third_party/kernels`
    """
    given = opt.given_fields(context, None, None, dtype, layout, epilogue, assignments)
    if "schedule" in given or "tile" in given:
        raise UsageError(
            "each target has a schedule of its own: give only the problem's options",
            "Emit the kernels one by one where schedules matter.",
        )
    names = target or (DEFAULT_TARGETS if tuned is None else [])
    if not names:
        raise UsageError("--tuned needs a --target", "A table's rows are for one target.")
    opt.require_outside(folder)
    style = project.style()

    def plain(where: Target) -> Rendered:
        (spec,) = opt.specs(kernel, [where.name], given, "*")
        return render(spec, style)

    def wanted(where: Target) -> Wanted:
        operator, implied = registry.operator_of(kernel)
        cls = registry.problem_class(operator)
        problem = cls(**fields.from_text(cls, {**implied, **given}))
        of_rows = 0 if where.backend == "cuda" else threads
        return Wanted(problem, where, str(tuned), of_rows, most, within)

    targets = [find_target(name) for name in names]
    asked = wanted if tuned is not None else None
    made = chooser.make(targets, plain, asked, opt.tables_folder(), style)
    opt.note(made.notes)
    for item in writer.write_files(folder, made.files, force=force):
        out.print(f"{item.path}{'' if item.changed else '  (unchanged)'}")
    for line in made.told:
        out.print(line)
    return 0
