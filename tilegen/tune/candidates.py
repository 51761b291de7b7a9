"""Which schedules are tried, and in which order."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen import fields, registry
from tilegen.emit.render import Rendered, render
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.spec import KernelSpec
from tilegen.tables.words import (
    code_digest,
    problem_options,
    problem_text,
    schedule_options,
    schedule_text,
)
from tilegen.targets import Target

# Schedules that a model thinks slower than its best by this factor are not tried, unless few are left.
HOPELESS = 1.6
FEWEST = 24


@dataclass(frozen=True)
class Candidate:
    """A schedule to try.

    Attributes:
        schedule: its words.
        kernel: what was emitted for it.
        rank: its place in the fixed order that breaks ties; the default has 0.
    """

    schedule: str
    kernel: Rendered
    rank: int

    @functools.cached_property
    def digest(self) -> str:
        """Digest of the kernel's code."""
        return code_digest(self.kernel.files[self.kernel.source])

    @functools.cached_property
    def options(self) -> dict[str, str]:
        """Every option of problem and schedule as text."""
        problem = problem_options(problem_text(self.kernel.spec.problem))
        return {**problem, **schedule_options(self.schedule)}


@dataclass(frozen=True)
class Space:
    """What a search chooses from.

    Attributes:
        schedules: legal schedules, the default first.
        ranked: whether they are in the order of a model's estimates for the sizes, best first.
        recorded: whether a row recorded them, so that all are timed together.
    """

    schedules: Sequence[Schedule]
    ranked: bool = False
    recorded: bool = False


def space(
    problem: Problem, where: Target, name: str = "", sizes: Mapping[str, int] | None = None
) -> Space:
    """Every legal schedule worth a trial, the default first, in a fixed order.

    Args:
        problem: what is computed.
        where: the target.
        name: a schedule class; empty for all that accept the problem.
        sizes: extents; where a model has the problem, what it thinks slow is left out.
    """
    if sizes is not None:
        ranked = choose.rank(problem, where, sizes, {"schedule": name} if name else {})
        if ranked:
            most = ranked[0].seconds * HOPELESS
            near = [e.schedule for e in ranked if e.seconds <= most]
            return Space(
                near if len(near) >= FEWEST else [e.schedule for e in ranked[:FEWEST]], True
            )
    preferred = registry.schedule_class(problem, where, name)
    found: dict[Schedule, None] = {preferred.default(problem, where): None}
    for cls in registry.schedule_classes(problem.operator, where.backend):
        wanted = cls.name == name if name or cls.by_name_only else True
        if wanted and cls.accepts(problem, where) is None:
            default = cls.default(problem, where)
            if not default.violations(problem, where):
                found[default] = None
            found |= dict.fromkeys(cls.space(problem, where))
    return Space(list(found))


def candidate(schedule: Schedule, problem: Problem, where: Target, rank: int) -> Candidate:
    """Emit a schedule; one that was emitted for another size is the same kernel."""
    return Candidate(schedule_text(schedule), _emitted(problem, schedule, where), rank)


@functools.lru_cache(maxsize=4096)
def _emitted(problem: Problem, schedule: Schedule, where: Target) -> Rendered:
    return render(KernelSpec(problem, schedule, where))


def neighbours(schedules: Sequence[Schedule], of: Schedule) -> list[int]:
    """Places of the schedules of the same class that differ in one field, nearest first."""
    names, own = fields.options(type(of)), schedules.index(of)
    found = []
    for place, other in enumerate(schedules):
        if type(other) is type(of):
            if sum(getattr(other, n) != getattr(of, n) for n in names) == 1:
                found.append((abs(place - own), place))
    return [place for _, place in sorted(found)]


def order(schedules: Sequence[Schedule], seed: int) -> list[int]:
    """Places in the order of trials where not all are tried: the default, then the classes in turn.

    A class begins with its first schedule, which `space` makes its default; its others follow at
    random, the same for the same seed.
    """
    by_class: dict[type, list[int]] = {}
    for place, schedule in enumerate(schedules):
        by_class.setdefault(type(schedule), []).append(place)
    for places in by_class.values():
        others = places[1:]
        random.Random(seed).shuffle(others)
        places[1:] = others
    turns = itertools.zip_longest(*by_class.values())
    return [place for turn in turns for place in turn if place is not None]
