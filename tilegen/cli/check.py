"""`tilegen check`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tilegen.artifacts import check as drift
from tilegen.artifacts import kernel_list
from tilegen.cli.console import out


def check(
    diff: Annotated[bool, typer.Option("--diff", help="Show what emission would change.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the statuses as JSON.")] = False,
) -> int:
    """Say of each generated file whether it is fresh, stale, edited, missing, orphan or duplicate.

    Exits with 1 unless all are fresh, and names the command that mends each.
    """
    listed = kernel_list.read(kernel_list.find())
    statuses = drift.check(listed)
    drifted = [s for s in statuses if s.status != "fresh"]
    if as_json:
        rows = [
            {"path": s.path, "status": s.status, "detail": s.detail, "mend": s.mend}
            for s in statuses
        ]
        typer.echo(json.dumps({"out": str(listed.out), "files": rows}, indent=2))
        return 1 if drifted else 0
    for status in drifted:
        out.print(f"{listed.out / status.path}: {status.status}: {status.detail}")
        out.print(f"  {status.mend}")
        if diff and status.wanted:
            typer.echo(status.diff(), nl=False)
    fresh = len(statuses) - len(drifted)
    out.print(f"{fresh} fresh, {len(drifted)} not, in {listed.out}")
    return 1 if drifted else 0
