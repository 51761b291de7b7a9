"""Few schedules for many sizes: those whose worst loss over the rows of a table is smallest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilegen.tables.lookup import loss
from tilegen.tables.rows import Row

# A handful of kernels, and what they may lose, where nothing else is asked for.
FEW = 12
WITHIN = 0.03

# What a chooser's kernels may lose at its worst size, where too few of them keep within what was asked for.
LIMITS = (0.05, 0.1, 0.2, 0.5)

# Above this many subsets of one count, schedules are added one by one instead of all subsets tried.
MOST_SUBSETS = 2000


@dataclass(frozen=True)
class Cover:
    """Chosen schedules.

    Attributes:
        schedules: their words, in the order of the table.
        worst: largest loss at any row, when each row takes the best of them; 0.03 is 3 %.
        mean: mean loss over the rows.
    """

    schedules: tuple[str, ...]
    worst: float
    mean: float


def measured(rows: Sequence[Row]) -> list[str]:
    """Schedules that were measured at some row, in the order of the rows."""
    found: dict[str, None] = {}
    for row in rows:
        found |= dict.fromkeys([row.schedule, *row.speedups])
    return list(found)


def judge(chosen: Sequence[str], rows: Sequence[Row]) -> Cover:
    """What a set of schedules loses; inf where none of them was measured."""
    losses = [min(loss(s, row) for s in chosen) for row in rows]
    return Cover(tuple(chosen), max(losses), sum(losses) / len(losses))


def _capped(chosen: Sequence[str], rows: Sequence[Row]) -> float:
    """Sum of losses, where what was not measured needs twice the time."""
    return sum(min(1.0, *(loss(s, row) for s in chosen)) for row in rows)


def cover(rows: Sequence[Row], count: int, within: float = WITHIN) -> Cover:
    """The best set of at most `count` schedules: least worst loss, then least mean loss, then order.

    Where there are too many sets to try, schedules are added one by one, each the one that leaves fewest rows
    beyond `within`, then the least worst loss, then the least mean loss; then each in turn is exchanged for
    another, until no exchange helps.
    """
    known = measured(rows)
    count = min(count, len(known))
    if math.comb(len(known), count) <= MOST_SUBSETS:
        sets = [judge(chosen, rows) for chosen in itertools.combinations(known, count)]
        return min(sets, key=lambda c: (round(c.worst, 6), _capped(c.schedules, rows)))
    return _exchanged(rows, known, count, (within,))


def _exchanged(
    rows: Sequence[Row], known: Sequence[str], count: int, bounds: Sequence[float]
) -> Cover:
    """Schedules that leave fewest rows beyond each bound in turn, of those that exchanges find."""
    losses = np.array([[min(loss(s, row), 1.0) for row in rows] for s in known])

    def left(least: np.ndarray) -> np.ndarray:
        """Rows beyond the bounds, worst loss and sum of losses, of sets in columns; `least` has a line of losses each."""
        beyond = [(least > bound).sum(axis=1) for bound in bounds]
        return np.stack([*beyond, least.max(axis=1), least.sum(axis=1)])

    def added(chosen: Sequence[int]) -> tuple[int, tuple[float, ...]]:
        """The schedule that is best added to some, and what is left then."""
        least = losses[list(chosen)].min(axis=0, initial=1.0)
        after = left(np.minimum(losses, least))
        after[:, list(chosen)] = np.inf
        place = int(np.lexsort(after[::-1])[0])
        return place, tuple(after[:, place])

    chosen: list[int] = []
    while len(chosen) < count:
        chosen.append(added(chosen)[0])
    exchanged = True
    while exchanged:
        exchanged = False
        for old in list(chosen):
            rest = [place for place in chosen if place != old]
            new, after = added(rest)
            if after < tuple(left(losses[chosen].min(axis=0)[None])[:, 0]):
                chosen, exchanged = [*rest, new], True
    return judge([known[place] for place in sorted(chosen)], rows)


def smallest(rows: Sequence[Row], most: int, within: float) -> Cover:
    """The smallest cover that loses no more than `within` anywhere, or the best of `most` schedules."""
    most = min(most, len(measured(rows)))
    best = cover(rows, most, within)
    if best.worst > within:
        return best
    for count in range(1, most):
        found = cover(rows, count, within)
        if found.worst <= within:
            return found
    return best


def gentlest(rows: Sequence[Row], most: int, within: float) -> Cover:
    """As `smallest`; but where `most` schedules lose more than `within` somewhere, none loses much anywhere.

    They keep every row within the least of LIMITS that they can, and as many as they then can within `within`.
    """
    best = smallest(rows, most, within)
    if best.worst <= within:
        return best
    known = measured(rows)
    for limit in (limit for limit in LIMITS if limit > within):
        found = _exchanged(rows, known, min(most, len(known)), (limit, within))
        if found.worst <= limit:
            return found
    return best
