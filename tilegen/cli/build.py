"""`tilegen build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen.artifacts import project
from tilegen.cli import options as opt
from tilegen.cli.console import out, progress
from tilegen.emit.render import render
from tilegen.runtime.bundle_build import build_into
from tilegen.shared_files import require_writable
from tilegen.targets import CudaTarget
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
        Optional[Path],
        typer.Option(
            "--out-dir",
            "--out",
            "-o",
            help="Folder for tilegen.load and C programs; outputs of a formula: --set out=h,y.",
        ),
    ] = None,
) -> int:
    """Compile kernels to shared libraries, in the cache or, with cubins, headers and a manifest, in a folder.

    `tilegen.load(DIR)` and C programs run what lies in the folder without a compiler or templates.
    """
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    chosen = opt.specs(kernel, target, given, kernels)
    if folder is not None:
        require_writable(folder, "-o")
    style = project.style()
    with progress("building") as bar:
        task = bar.add_task("", total=len(chosen))
        if folder is not None:
            rendered = [render(spec, style) for spec in chosen]
            done = lambda k: bar.update(task, description=k.stem, advance=1)  # noqa: E731
            libraries = build_into(folder, rendered, done)
        else:
            libraries = []
            for spec in chosen:
                made = render(spec, style)
                bar.update(task, description=made.stem)
                cuda = isinstance(spec.target, CudaTarget)
                libraries.append(
                    (toolchain.library_without_spill if cuda else toolchain.library)(made)
                )
                bar.advance(task)
    for library in libraries:
        out.print(str(library))
    return 0
