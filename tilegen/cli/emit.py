"""`tilegen emit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen.artifacts import check as drift
from tilegen.artifacts import index, kernel_list, manifest, project, writer
from tilegen.cli import options as opt
from tilegen.cli.console import out
from tilegen.emit.render import render
from tilegen.errors import CheckFailed


def emit(
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
        typer.Option("--out-dir", "-o", help="Output folder; default: the project's."),
    ] = None,
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Print the source instead of writing.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Also append the kernel to tilegen.toml.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that were edited by hand.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove files that the list no longer makes.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Build and run at once what was written.")
    ] = False,
) -> int:
    """Write kernels: one by its operator and fields, or without a kernel all of `tilegen.toml`.

    Examples:

    - `tilegen emit gemm --tile 128x128x32`
    - `tilegen emit gemm --dtype bf16 --epilogue 'gelu(acc + bias[n])' --target sm_80 --stdout`
    - `tilegen emit`
    """
    given = opt.given_fields(context, tile, stages, dtype, layout, epilogue, assignments)
    chosen = opt.specs(kernel, target, given, kernels)
    listed = None
    if kernel is None or add:
        listed = kernel_list.read(kernel_list.find())
    style = listed.style if listed else project.style()
    if kernel is None and kernels == "*" and not stdout:
        rendered, duplicates = drift.render_list(listed)
        if duplicates:
            raise CheckFailed(
                "\n".join(f"{d.path}: {d.detail}" for d in duplicates), duplicates[0].mend
            )
        files = drift.emitted(rendered)
        unguarded = {index.INDEX, index.CMAKE, index.UMBRELLA, manifest.FILE}
        stale = manifest.read(folder or listed.out).owned() - set(files)
        guarded = frozenset(set(files) - unguarded)
        place = folder or listed.out
        written = writer.write_files(place, files, force=force, guarded=guarded)
        if prune:
            for path in writer.prune(place, stale | project.orphans(place, set(files))):
                out.print(f"removed {path}")
    else:
        rendered = [render(spec, style) for spec in chosen]
        if stdout:
            for k in rendered:
                typer.echo(k.files[k.source], nl=False)
            return 0
        place = opt.project_out(folder)
        files = {path: text for k in rendered for path, text in k.files.items()}
        written = writer.write_files(place, files, force=force)
        if add:
            project.append(listed.path, [k.spec for k in rendered])
    sources = {k.source for k in rendered}
    changed = 0
    for item in written:
        changed += item.changed
        relative = item.path.relative_to(place).as_posix()
        if relative in sources and (kernel is not None or item.changed):
            out.print(f"{item.path}{'' if item.changed else '  (unchanged)'}")
    if kernel is None:
        out.print(f"{len(rendered)} kernels, {changed} of {len(written)} files changed in {place}")
    if not verify:
        return 0
    from tilegen.cli.verify import report

    return report(rendered)
