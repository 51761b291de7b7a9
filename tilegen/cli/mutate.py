"""`tilegen simulate --mutate`: how many of a kernel's mutants the simulator finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilegen.cli.console import out
from tilegen.emit.render import Rendered
from tilegen.simulate.launch import SimulationError
from tilegen.verify.mutation import representatives, score_all
from tilegen.verify.mutation_page import Scored, describe, document, read_reviewed, unreviewed


def mutate(
    kernels: Sequence[Rendered],
    reviewed_list: Path | None,
    page: Path | None,
    seeds: int,
    jobs: int | None,
) -> int:
    """Score CUDA kernels, print a line for each and its survivors, and write the page of all.

    Of kernels that fill one template with the same parts, the first is scored. Scores are kept in the cache: a run
    that was interrupted goes on where it was, and a changed kernel is scored alone.

    Returns 1 if a survivor is on no reviewed list, else 0.
    """
    reviewed = read_reviewed(reviewed_list) if reviewed_list else []
    status, scored = 0, []
    for kernel, score in score_all(representatives(kernels), seeds, jobs):
        if isinstance(score, SimulationError):
            out.print(f"FOUND  {score}")
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
