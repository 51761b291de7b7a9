"""`tilegen doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tilegen.cli.console import out
from tilegen.runtime.doctor import examine


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Say what is here and what is missing: compilers, OpenMP, PyCUDA, driver, GPU; and what to install."""
    findings = examine()
    if as_json:
        rows = [
            {"name": f.name, "found": f.found, "detail": f.detail, "install": f.install}
            for f in findings
        ]
        typer.echo(json.dumps(rows, indent=2))
        return 0
    for finding in findings:
        out.print(
            f"{'found  ' if finding.found else 'missing'} {finding.name:<12} {finding.detail}"
        )
        if not finding.found and finding.install:
            out.print(f"                     {finding.install}")
    return 0
