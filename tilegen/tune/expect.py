"""What rows would say of schedules that were not timed at their sizes: a model's estimates, on the scale of what was.

Few kernels for many sizes are chosen together, from how all of them do at all sizes. Where nothing is expected of
a kernel that was not timed, those are chosen that happened to be timed most often.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tilegen.errors import UsageError
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import cover, words
from tilegen.tables.rows import Row
from tilegen.targets import Target

# A schedule that nobody timed may be one of the few if a model thinks it this near to its best at some size.
PROMISING = 0.03

# Speeds below this part of a row's best are of no use to a cover.
USEFUL = 0.5


def recorded(rows: Sequence[Row], problem: Problem, where: Target) -> dict[str, Schedule]:
    """Schedules that the rows of a problem speak of, by their words, without those that are not legal any more."""
    found: dict[str, Schedule] = {}
    for text in cover.measured(rows):
        try:
            spec = words.kernel_spec(problem.operator, where, rows[0].problem, text)
        except UsageError:
            continue
        found[text] = spec.schedule
    return found


def promising(rows: Sequence[Row], problem: Problem, where: Target) -> dict[str, Schedule]:
    """Schedules that a model thinks near its best at the size of some row; none without a model."""
    found: dict[str, Schedule] = {}
    for row in rows:
        ranked = choose.rank(problem, where, row.sizes)
        near = (e for e in ranked if e.seconds <= ranked[0].seconds * (1 + PROMISING))
        found |= {words.schedule_text(e.schedule): e.schedule for e in near}
    return found


def filled(
    rows: Iterable[Row], pool: Mapping[str, Schedule], problem: Problem, where: Target
) -> list[Row]:
    """Rows in which every schedule of a pool has a speed, as far as a model knows the problem.

    A row's scale is the median ratio of what was measured there and its estimate. No guess is better than what
    was best when it was measured.

    Args:
        rows: of one problem.
        pool: schedules by their words.
        problem, where: what is computed, and the target.
    """
    model = choose.model_of(problem, where)
    found = []
    for row in rows:
        takes = {t: s for t, s in pool.items() if choose.takes(s, problem, where, row.sizes)}
        known = {t: v for t, v in row.speedups.items() if t in takes and v > 0}
        if model is not None and known:
            seconds = {
                t: model[0].estimate(s, problem, where, row.sizes).seconds for t, s in takes.items()
            }
            scale = statistics.median(v * seconds[t] for t, v in known.items())
            guesses = {t: min(scale / seconds[t], row.speedup) for t in takes if t not in known}
            known |= {t: v for t, v in guesses.items() if v >= USEFUL * row.speedup}
        found.append(dataclasses.replace(row, speedups=known))
    return found
