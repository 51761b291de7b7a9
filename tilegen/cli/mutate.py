"""`tilegen simulate --mutate`: how many of a kernel's mutants the simulator finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilegen.cli.console import out
from tilegen.emit.render import Rendered
from tilegen.simulate.launch import SimulationError
from tilegen.verify.mutation import (
    Scored,
    describe,
    document,
    read_reviewed,
    representatives,
    score_kernel,
    unreviewed,
)


def mutate(
    kernels: Sequence[Rendered], reviewed_list: Path | None, page: Path | None, seeds: int
) -> int:
    """Score CUDA kernels, print a line for each and its survivors, and write the page of all.

    Of kernels that fill one template with the same parts, the first is scored.

    Returns 1 if a survivor is on no reviewed list, else 0.
    """
    reviewed = read_reviewed(reviewed_list) if reviewed_list else []
    status, scored = 0, []
    for kernel in representatives(kernels):
        try:
            score = score_kernel(kernel, seeds)
        except SimulationError as error:
            out.print(f"FOUND  {error}")
            status = 1
            continue
        scored.append(Scored(kernel, score))
        left = unreviewed(kernel, score, reviewed)
        status = max(status, int(bool(left)))
        found = len(score.executed) - len(score.survivors)
        state = "ok" if not left else "FOUND"
        out.print(
            f"{state:<6} {kernel.stem}: {found} of {len(score.executed)} mutants found, "
            f"{len(score.survivors)} survived, {len(left)} of them not reviewed"
        )
        for verdict in left:
            out.print(f"       {describe(verdict)}")
    if page:
        page.write_text(document(scored, reviewed))
    return status
