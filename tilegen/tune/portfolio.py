"""A portfolio: the kernels that are tried over all sizes of a problem, where each size's own would be too many.

Every kernel has to be compiled and verified once, whatever the number of sizes it is timed at. So a suite of many
sizes tries the kernels that a model takes first at one size or another, and those that help most sizes beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.model import choose
from tilegen.model.estimate import Estimate
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.targets import Target
from tilegen.tune.candidates import HOPELESS, Space

# Of sizes whose first choice is still slower than this by estimate, a further kernel may take care.
CLOSE = 0.01


def spaces(
    problem: Problem, where: Target, name: str, sizes: Sequence[Mapping[str, int]], count: int
) -> list[Space] | None:
    """The spaces of several sizes of a problem, drawn from `count` kernels; None where no model ranks them.

    Args:
        problem, where: what is computed, and the target.
        name: a schedule class; empty for all.
        sizes: extents of each size.
        count: of kernels; more only where the first choices alone are more.
    """
    given = {"schedule": name} if name else {}
    ranked = [choose.rank(problem, where, one, given) for one in sizes]
    if not all(ranked):
        return None
    chosen = portfolio(ranked, count)
    found = []
    for estimates in ranked:
        most = estimates[0].seconds * HOPELESS
        near = [e.schedule for e in estimates if e.schedule in chosen and e.seconds <= most]
        found.append(Space(near, ranked=True))
    return found


def portfolio(ranked: Sequence[Sequence[Estimate]], count: int) -> set[Schedule]:
    """The first choice of each size, and the schedules that are near the best at most sizes.

    Args:
        ranked: schedules of each size with their estimates, best first.
        count: of schedules.
    """
    chosen = dict.fromkeys(estimates[0].schedule for estimates in ranked)
    near: dict[Schedule, float] = {}
    for estimates in ranked:
        for estimate in estimates:
            loss = estimate.seconds / estimates[0].seconds - 1
            worth = near.get(estimate.schedule, 0.0)
            near[estimate.schedule] = worth + CLOSE / (CLOSE + loss)
    others = sorted((s for s in near if s not in chosen), key=lambda s: -near[s])
    return {*chosen, *others[: max(0, count - len(chosen))]}
