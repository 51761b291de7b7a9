"""`tilegen build`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen.artifacts import project
from tilegen.cli import options as opt
from tilegen.cli.console import out, progress
from tilegen.emit.render import render
from tilegen.toolchain import build as toolchain


def build(
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
    folder: Annotated[
        Optional[Path], typer.Option("--out-dir", "-o", help="Also copy the libraries here.")
    ] = None,
) -> int:
    """Compile kernels to shared libraries, in the cache and on request in a folder."""
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    chosen = opt.specs(kernel, target, given, kernels)
    style = project.style()
    with progress("building") as bar:
        task = bar.add_task("", total=len(chosen))
        for spec in chosen:
            made = render(spec, style)
            bar.update(task, description=made.stem)
            library = toolchain.library(made)
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                library = Path(shutil.copy2(library, folder / f"lib{made.symbol}.so"))
            bar.advance(task)
            out.print(str(library))
    return 0
