"""Winners at other sizes: what a dispatcher of few kernels would lose is measured, not assumed."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import cover, lookup
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune import expect
from tilegen.tune.confirm import Final, beats

# What is timed where it was not: of the few kernels that are to serve all sizes, those that are not expected to
# take twice the time of a size's best, and the best of them in any case; of others, and of those that may take
# their place, the near.
NEAR = 0.05
FAR = 1.0
ROUNDS = 5

# Where the few lose more than they should, but no more than this, it may be that a winner was lucky.
DOUBTFUL = 0.10
DOUBT_ROUNDS = 21


def wanted(
    rows: Sequence[Row],
    problem: Problem,
    where: Target,
    new: bool = False,
    everywhere: int = 0,
) -> list[list[Schedule]]:
    """For each row of a problem, the schedules that were not measured at its size and are worth it.

    The few that serve all rows are chosen together, by what was measured and by what a model expects of the
    rest; without a model they are timed everywhere. What is not legal any more and what does not take a row's
    arrays is left out.

    Args:
        rows: of one problem.
        problem, where: what is computed, and the target.
        new: whether schedules that were measured nowhere may be among the few.
        everywhere: of so many that would serve most rows together every one is timed, as the few are.
    """
    ranked = choose.model_of(problem, where) is not None
    pool = expect.recorded(rows, problem, where)
    limits = dict.fromkeys(pool, NEAR if ranked else -math.inf)
    if new:
        pool |= expect.promising(rows, problem, where)
    guessed = expect.filled(rows, pool, problem, where)
    covered = cover.smallest(guessed, cover.FEW, cover.WITHIN)
    few = covered.schedules
    if ranked and covered.worst > cover.WITHIN:
        spare = cover.cover(guessed, 2 * cover.FEW, cover.WITHIN).schedules
        limits |= dict.fromkeys(spare, NEAR)
    useful = dict.fromkeys(few)
    if everywhere:
        useful |= dict.fromkeys(cover.cover(guessed, everywhere, cover.WITHIN).schedules)
    limits |= dict.fromkeys(useful, FAR)
    found = []
    for row, guess in zip(rows, guessed):
        lost = {text: lookup.loss(text, guess) for text in limits if text in pool}
        own = min(few, key=lambda text: lost.get(text, math.inf))
        near = {t for t, x in lost.items() if x <= limits[t] or t == own}
        near = near if ranked else set(useful) & set(pool)
        found.append(
            [
                pool[text]
                for text in limits
                if text in near
                and text not in row.speedups
                and choose.takes(pool[text], problem, where, row.sizes)
            ]
        )
    return found


def doubtful(rows: Sequence[Row], problem: Problem, where: Target) -> list[list[Schedule]]:
    """For each row of a problem, which of the few to time again beside its winner; none where nothing is in doubt.

    Of many medians the best is too good by its noise. So where the few seem to lose a little more than they
    should, winner and kernel are timed once more, by themselves and for longer, and that counts.

    Args:
        rows: of one problem.
        problem, where: what is computed, and the target.
    """
    few = cover.smallest(rows, cover.FEW, cover.WITHIN).schedules
    pool = expect.recorded(rows, problem, where)
    found = []
    for row in rows:
        best = min(few, key=lambda text: lookup.loss(text, row))
        doubt = cover.WITHIN < lookup.loss(best, row) <= DOUBTFUL and best in pool
        found.append([pool[best]] if doubt else [])
    return found


def speedups(row: Row, final: Final) -> dict[str, float]:
    """Speedups over a row's default of what was timed beside its winner."""
    return {
        name: row.speedup * statistics.median(ratios)
        for name, ratios in final.ratios.items()
        if ratios and name != row.schedule
    }


def better(row: Row, final: Final) -> list[str]:
    """Schedules that were faster than a row's winner beyond noise, the fastest first."""
    base = final.ratios[row.schedule]
    found = [n for n, r in final.ratios.items() if n != row.schedule and r and beats(r, base)]
    return sorted(found, key=lambda name: -statistics.median(final.ratios[name]))


def holds(crossed: Row, new: Row, faster: Sequence[str]) -> bool:
    """Whether a confirming run finds what a crossing said: leads over its winner, to what a cover may lose.

    Where the winner was slow in the crossing alone, all that was timed beside it there seems too fast.
    """
    winner = crossed.schedule
    told = max(crossed.speedups[name] for name in faster) / crossed.speedup
    found = max(new.speedups.get(name, 0.0) for name in faster) / new.speedups.get(winner, math.inf)
    return told <= found * (1 + cover.WITHIN)


def merged(old: Row, new: Row) -> Row:
    """A row with what an earlier one of the same size had measured besides, in terms of the new one's default."""
    known = old.schedule
    factor = 1.0
    if old.speedups.get(known) and known in new.speedups:
        factor = new.speedups[known] / old.speedups[known]
    speedups = {name: factor * value for name, value in old.speedups.items()}
    return dataclasses.replace(
        new,
        speedups=speedups | dict(new.speedups),
        digests=dict(old.digests) | dict(new.digests),
    )
