"""Few schedules for many sizes: those whose worst loss over the rows of a table is smallest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.tables.lookup import loss
from tilegen.tables.rows import Row

# A handful of kernels, and what they may lose, where nothing else is asked for.
FEW = 12
WITHIN = 0.03

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
    losses = {s: [min(loss(s, row), 1.0) for row in rows] for s in known}

    def least(chosen: Sequence[str]) -> list[float]:
        return [min(column) for column in zip([1.0] * len(rows), *(losses[s] for s in chosen))]

    def left(base: Sequence[float], more: str) -> tuple[int, float, float]:
        best = list(map(min, base, losses[more]))
        return sum(x > within for x in best), max(best), sum(best)

    chosen: list[str] = []
    while len(chosen) < count:
        base = least(chosen)
        chosen.append(min((s for s in known if s not in chosen), key=lambda s: left(base, s)))
    exchanged = True
    while exchanged:
        exchanged = False
        for old in list(chosen):
            rest = [s for s in chosen if s != old]
            base = least(rest)
            new = min((s for s in known if s not in rest), key=lambda s: left(base, s))
            if left(base, new) < left(base, old):
                chosen, exchanged = [*rest, new], True
    return judge([s for s in known if s in chosen], rows)


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
