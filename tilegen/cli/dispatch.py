"""`tilegen dispatch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen.artifacts import project, writer
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.emit.dispatch import render_dispatch
from tilegen.emit.render import render
from tilegen.errors import UsageError

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
        typer.Option("--target", "-t", help="C targets, most preferred first. Repeatable."),
    ] = None,
    assignments: opt.SetOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that were edited by hand.")
    ] = False,
) -> int:
    """Write C kernels for several instruction sets and a function that picks one at run time.

    Example: `tilegen dispatch gemm --dtype f32 -t x86-64-v4 -t x86-64-v3 -t portable -o third_party/kernels`
    """
    given = opt.given_fields(context, None, None, dtype, layout, epilogue, assignments)
    if "schedule" in given or "tile" in given:
        raise UsageError(
            "each target has a schedule of its own: give only the problem's options",
            "Emit the kernels one by one where schedules matter.",
        )
    style = project.style()
    kernels = [render(s, style) for s in opt.specs(kernel, target or DEFAULT_TARGETS, given, "*")]
    made = render_dispatch(kernels, style)
    for item in writer.write_files(folder, made.files, force=force):
        out.print(f"{item.path}{'' if item.changed else '  (unchanged)'}")
    return 0
