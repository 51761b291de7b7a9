"""A few comparisons of sizes that choose among schedules: the smallest tree with the least worst loss."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilegen.tables import lookup
from tilegen.tables.rows import Row

# A comparison must reduce the worst loss below it by this much, or a tree does without it.
WORTH = 0.002
MOST_DEPTH = 3

# Above this many rows comparisons are chosen one after the other, as deep as this, until so little is lost; a row that
# loses more weighs so much more.
MOST_ROWS = 16
GREEDY_DEPTH = 9
ENOUGH = 0.03
OUTSIDE = 0.05

# What a schedule is taken to lose where it was not measured: it needs twice the time.
UNMEASURED = 1.0


@dataclass(frozen=True)
class Leaf:
    """A choice.

    Attributes:
        schedule: the chosen schedule's words.
        rows: the measured sizes that end here.
    """

    schedule: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Split:
    """A comparison `size <= limit`.

    Attributes:
        size: name of the size.
        limit: largest extent of the first side.
        low, high: what follows on either side.
    """

    size: str
    limit: int
    low: Tree
    high: Tree


Tree = Leaf | Split

# What each schedule loses at each row, which is told by its identity: a row's key takes long to make.
Losses = Mapping[str, Mapping[int, float]]


def loss(schedule: str, row: Row) -> float:
    """What a schedule loses at a row, measured there or not."""
    found = lookup.loss(schedule, row)
    return found if math.isfinite(found) else UNMEASURED


def grow(rows: Sequence[Row], schedules: Sequence[str], depth: int = MOST_DEPTH) -> Tree:
    """The best tree of at most `depth` comparisons on a path: least worst loss, fewest leaves, least mean.

    Of many rows, comparisons are chosen one after the other, each with the next one on either side in view.
    """
    if len(rows) > MOST_ROWS:
        losses = {s: {id(row): _weight(loss(s, row)) for row in rows} for s in schedules}
        return _greedy(tuple(rows), tuple(schedules), GREEDY_DEPTH, losses)
    return _grow(tuple(rows), tuple(schedules), depth, {})


def _weight(lost: float) -> float:
    return lost + OUTSIDE * (lost > ENOUGH)


def _grow(
    rows: tuple[Row, ...],
    schedules: tuple[str, ...],
    depth: int,
    known: dict[tuple[tuple[int, ...], int], Tree],
) -> Tree:
    key = (tuple(id(r) for r in rows), depth)
    if key in known:
        return known[key]
    best: Tree = _leaf(rows, schedules)
    if depth and worst(best) > WORTH:
        for size in rows[0].sizes:
            for limit in _limits(sorted({row.sizes[size] for row in rows})):
                low = tuple(r for r in rows if r.sizes[size] <= limit)
                high = tuple(r for r in rows if r.sizes[size] > limit)
                sides = [_grow(side, schedules, depth - 1, known) for side in (low, high)]
                made = Split(size, limit, *sides)
                if _cost(made) < _cost(best):
                    best = made
    known[key] = best
    return best


def _greedy(
    rows: Sequence[Row],
    schedules: Sequence[str],
    depth: int,
    losses: Losses,
) -> Tree:
    """The tree whose every comparison leaves the least loss once each side has been cut again at its best."""
    total, schedule = min((sum(losses[s][id(row)] for row in rows), s) for s in schedules)
    leaf = Leaf(schedule, tuple(rows))
    if not depth or max(losses[schedule][id(row)] for row in rows) <= ENOUGH:
        return leaf
    best: tuple[float, str, int] | None = None
    for _, size, limit in _cuts(rows, schedules, losses):
        left = sum(_left(side, schedules, losses) for side in _sides(rows, size, limit))
        if best is None or left < best[0]:
            best = left, size, limit
    if best is None or best[0] > total - ENOUGH:
        return leaf
    sides = _sides(rows, *best[1:])
    low, high = (_greedy(side, schedules, depth - 1, losses) for side in sides)
    return Split(*best[1:], low, high)


def _left(rows: Sequence[Row], schedules: Sequence[str], losses: Losses) -> float:
    """The loss of rows with one schedule, or with two and the best comparison if that is worth it."""
    alone = min(sum(losses[s][id(row)] for row in rows) for s in schedules)
    cut = min((cut[0] for cut in _cuts(rows, schedules, losses)), default=alone)
    return min(alone, cut + ENOUGH)


def _sides(rows: Sequence[Row], size: str, limit: int) -> tuple[list[Row], list[Row]]:
    low = [row for row in rows if row.sizes[size] <= limit]
    return low, [row for row in rows if row.sizes[size] > limit]


def _cuts(
    rows: Sequence[Row], schedules: Sequence[str], losses: Losses
) -> Iterator[tuple[float, str, int]]:
    """Every comparison that parts rows: the loss with the best schedule on either side, size and limit."""
    for size in rows[0].sizes:
        ordered = sorted(rows, key=lambda row: row.sizes[size])
        sums = [
            list(itertools.accumulate((losses[s][id(row)] for row in ordered), initial=0.0))
            for s in schedules
        ]
        extents = [row.sizes[size] for row in ordered]
        for limit in _limits(sorted(set(extents))):
            place = bisect.bisect_right(extents, limit)
            high = min(known[-1] - known[place] for known in sums)
            yield min(known[place] for known in sums) + high, size, limit


def _leaf(rows: tuple[Row, ...], schedules: tuple[str, ...]) -> Leaf:
    losses = {s: [loss(s, row) for row in rows] for s in schedules}
    chosen = min(schedules, key=lambda s: (round(max(losses[s]), 6), sum(losses[s])))
    return Leaf(chosen, rows)


def _cost(tree: Tree) -> tuple[float, int, float]:
    return round(worst(tree) / WORTH) * WORTH, len(leaves(tree)), _total(tree)


def worst(tree: Tree) -> float:
    """Largest loss at any measured size."""
    return max(loss(leaf.schedule, row) for leaf in leaves(tree) for row in leaf.rows)


def _total(tree: Tree) -> float:
    return sum(loss(leaf.schedule, row) for leaf in leaves(tree) for row in leaf.rows)


def leaves(tree: Tree) -> list[Leaf]:
    """The choices in the order of the text."""
    return [tree] if isinstance(tree, Leaf) else [*leaves(tree.low), *leaves(tree.high)]


def _limits(values: Sequence[int]) -> list[int]:
    """A readable limit between each two neighbouring extents: a power of two where one lies there."""
    found = []
    for low, high in zip(values, values[1:]):
        middle = math.sqrt(max(low, 1) * high)
        power = 1 << round(math.log2(middle))
        found.append(power if low <= power < high else _round(low, high, middle))
    return found


def _round(low: int, high: int, middle: float) -> int:
    """A multiple of a power of two near the middle, from `low` to below `high`: of an eighth of it, or of less."""
    step = 1 << max(0, math.floor(math.log2(middle / 8))) if middle > 8 else 1
    while step > 1:
        near = round(middle / step) * step
        if low <= near < high:
            return near
        step //= 2
    return min(max(low, round(middle)), high - 1)


def choose(tree: Tree, sizes: dict[str, int]) -> str:
    """The schedule that a tree chooses for any sizes."""
    while isinstance(tree, Split):
        tree = tree.low if sizes[tree.size] <= tree.limit else tree.high
    return tree.schedule
