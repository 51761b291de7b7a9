"""Winners at other sizes: what a dispatcher of few kernels would lose is measured, not assumed."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from tilegen.errors import UsageError
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import cover, words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune.confirm import Final, beats

# A kernel of another size that a model thinks this near to the winner is measured too; of the few that are to
# serve all sizes, any that is not far from it.
NEAR = 0.05
FAR = 0.15
ROUNDS = 5


def wanted(rows: Sequence[Row], problem: Problem, where: Target) -> list[list[Schedule]]:
    """For each row of a problem, the schedules of the others that are worth measuring at its size.

    These are the few that cover all rows, and where a model knows the problem, those near the row's winner by
    estimate. What the row has, what is not legal any more and what does not take its arrays is left out.
    """
    few = cover.smallest(rows, cover.FEW, cover.WITHIN).schedules
    ranked = choose.model_of(problem, where) is not None
    pool: dict[str, Schedule] = {}
    for text in cover.measured(rows):
        try:
            pool[text] = words.kernel_spec(problem.operator, where, rows[0].problem, text).schedule
        except UsageError:
            continue
    found = []
    for row in rows:
        near, limit = nearness(row, problem, where), NEAR if ranked else -math.inf
        found.append(
            [
                schedule
                for text, schedule in pool.items()
                if text not in row.speedups
                and near(schedule) <= (FAR if text in few else limit)
                and choose.takes(schedule, problem, where, row.sizes)
            ]
        )
    return found


def nearness(row: Row, problem: Problem, where: Target) -> Callable[[Schedule], float]:
    """By how much more time than a row's winner a model gives a schedule; 0 where no model knows the problem."""
    model = choose.model_of(problem, where)
    if model is None:
        return lambda schedule: 0.0
    seconds = lambda s: model[0].estimate(s, problem, where, row.sizes).seconds  # noqa: E731
    try:
        winner = words.kernel_spec(problem.operator, where, row.problem, row.schedule).schedule
    except UsageError:
        winner = choose.choice(problem, where, row.sizes)
    mine = seconds(winner)
    return lambda schedule: seconds(schedule) / mine - 1


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
