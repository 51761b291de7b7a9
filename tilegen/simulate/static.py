"""Checks of a kernel that need no run."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.simulate.launch import Finding, Launch
from tilegen.simulate.lower.program import Program


def check(program: Program, launch: Launch) -> Iterator[Finding]:
    yield from ()
