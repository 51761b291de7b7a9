"""A portfolio: the kernels that are tried over all sizes of a problem, where each size's own would be too many.

Every kernel has to be compiled and verified once, whatever the number of sizes it is timed at. So a suite of many
sizes tries the kernels that a model takes first at one size or another, and those that help most sizes beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from tilegen import fields
from tilegen.bench.suites import BenchCase
from tilegen.model import choose
from tilegen.model.estimate import Estimate
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.targets import Target
from tilegen.tune.candidates import HOPELESS, Space, neighbours, order, space
from tilegen.tune.cases import Settings, sizes_of

# Kernels of a portfolio beside one for each size, where a model ranks them and the sizes are few.
LEAST = 4

# Of sizes whose first choice is still slower than this by estimate, a further kernel may take care.
CLOSE = 0.01


def spaces(cases: Sequence[BenchCase], settings: Settings) -> dict[int, Space]:
    """Spaces of cases by their place, where the sizes of a problem share their kernels.

    Without a model these are the default of each schedule class and what differs from one in one field, in turn,
    then others at random; all sizes then have the same.
    """
    groups: dict[Problem, list[int]] = {}
    for number, case in enumerate(cases):
        groups.setdefault(case.spec(settings.where).problem, []).append(number)
    found: dict[int, Space] = {}
    for problem, numbers in groups.items():
        if not settings.portfolio or len(numbers) < 2:
            continue
        sizes = [sizes_of(problem, cases[n]) for n in numbers]
        count = min(settings.portfolio, LEAST + len(numbers))
        made = _ranked(problem, settings.where, settings.schedule, sizes, count)
        if made is None:
            every = space(problem, settings.where, settings.schedule).schedules
            made = [Space(sample(every, settings.portfolio, settings.seed))] * len(numbers)
        found |= dict(zip(numbers, made, strict=True))
    return found


def sample(schedules: Sequence[Schedule], count: int, seed: int) -> list[Schedule]:
    """Some schedules of an unranked space: its defaults, their neighbours, then a random choice.

    Args:
        schedules: the space; the first of each class is its default.
        count: of schedules.
        seed: of the random choice.
    """
    turns = order(schedules, seed)
    firsts: dict[type, int] = {}
    for place in turns:
        firsts.setdefault(type(schedules[place]), place)
    around = [_by_field(schedules, place) for place in firsts.values()]
    near = [place for turn in zip_longest(*around) for place in turn if place is not None]
    return [schedules[p] for p in list(dict.fromkeys([*firsts.values(), *near, *turns]))[:count]]


def _by_field(schedules: Sequence[Schedule], place: int) -> list[int]:
    """Places of the neighbours of a schedule, the fields that differ in turn."""
    of = schedules[place]
    groups: dict[str, list[int]] = {}
    for other in neighbours(schedules, of):
        names = fields.options(type(of))
        field = next(n for n in names if getattr(schedules[other], n) != getattr(of, n))
        groups.setdefault(field, []).append(other)
    turns = zip_longest(*groups.values())
    return [other for turn in turns for other in turn if other is not None]


def _ranked(
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
