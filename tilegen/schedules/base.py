"""What every schedule knows: which problems and targets it is legal for, and why not, in numbers."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.errors import IllegalSchedule
from tilegen.fields import flag, from_text, options, to_text
from tilegen.problems.base import Problem
from tilegen.targets import Target
from tilegen.values import Tile


@dataclass(frozen=True)
class Violation:
    """One rule that a schedule breaks.

    Attributes:
        field: the schedule's field, as in `tile`.
        message: what is wrong, with the numbers.
    """

    field: str
    message: str


class Schedule(ABC):
    """How a problem is computed. Subclasses are frozen dataclasses, each the owner of one template."""

    operator: ClassVar[str]
    backend: ClassVar[str]
    # Name on the command line (`--schedule`), of the template and in the tuning tables.
    name: ClassVar[str]
    # Whether its kernels take arguments of their own, and so are chosen by name alone.
    by_name_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Take every field in the form of its text too, as `tile="128x128x32"`. Raises UsageError."""
        given = {name: getattr(self, name) for name in options(type(self))}
        for name, value in from_text(type(self), given).items():
            object.__setattr__(self, name, value)

    @classmethod
    @abstractmethod
    def accepts(cls, problem: Problem, target: Target) -> Violation | None:
        """None if some schedule of this class can compute the problem on the target, else why not."""

    @classmethod
    @abstractmethod
    def default(cls, problem: Problem, target: Target) -> Schedule:
        """The schedule used when no field is given, by a stated rule."""

    @classmethod
    def with_options(cls, problem: Problem, target: Target, given: Mapping[str, Any]) -> Schedule:
        """The default schedule with the given fields replaced; a legal default adapts to them.

        Args:
            given: field values by name, already parsed.
        """
        return dataclasses.replace(cls.default(problem, target), **given)

    @abstractmethod
    def violations(self, problem: Problem, target: Target) -> list[Violation]:
        """Every rule this schedule breaks for the problem on the target; empty if it is legal."""

    @abstractmethod
    def tokens(self) -> list[str]:
        """Words of the stem that name this schedule, defaults omitted: `["128x128x32", "s3"]`."""

    @abstractmethod
    def tile_extents(self) -> tuple[int, ...]:
        """The tile whose edges verification probes."""

    @classmethod
    def space(cls, problem: Problem, target: Target) -> Iterator[Schedule]:
        """Every legal schedule worth a trial for the problem on the target."""
        candidates = cls.candidates(problem, target)
        return (s for s in candidates if not s.violations(problem, target))

    @classmethod
    @abstractmethod
    def candidates(cls, problem: Problem, target: Target) -> Iterator[Schedule]:
        """The search space before the legality rules."""


def require_legal(schedule: Schedule, problem: Problem, target: Target) -> None:
    """Raise IllegalSchedule listing every violation, with numbers and the nearest legal schedules."""
    refusal = type(schedule).accepts(problem, target)
    broken = [refusal] if refusal else schedule.violations(problem, target)
    if not broken:
        return
    lines = [f"  {violation.message}" for violation in broken]
    if refusal is None:
        near = nearest_legal(schedule, problem, target)
        if near:
            lines.append(f"  Legal: {', or '.join(near)}")
    raise IllegalSchedule(f"schedule does not fit {target}", "\n".join(lines))


def nearest_legal(
    schedule: Schedule, problem: Problem, target: Target, count: int = 2
) -> list[str]:
    """The closest legal schedules of the class, as the flags that lead to them.

    First every value that one field takes in the search space is tried in the schedule's own place,
    then whole schedules of the space; fewer changed fields and smaller ratios are closer.
    """
    space = list(type(schedule).candidates(problem, target))
    tried: dict[Schedule, float] = {}
    for name in options(type(schedule)):
        for value in {getattr(s, name) for s in space}:
            other = dataclasses.replace(schedule, **{name: value})
            tried.setdefault(other, _distance(schedule, other))
    for other in space:
        tried.setdefault(other, _distance(schedule, other))
    found: list[str] = []
    for other in sorted(tried, key=lambda s: (tried[s], str(s))):
        if other.violations(problem, target):
            continue
        found.append(_changed(schedule, other))
        if len(found) == count:
            break
    return found


def _changed(schedule: Schedule, other: Schedule) -> str:
    words = []
    for name in options(type(schedule)):
        value = getattr(other, name)
        if value != getattr(schedule, name):
            words.append(f"{flag(name)} {to_text(value)}")
    return " ".join(words)


def _distance(schedule: Schedule, other: Schedule) -> float:
    total = 0.0
    for name in options(type(schedule)):
        a, b = getattr(schedule, name), getattr(other, name)
        if a == b:
            continue
        total += 4
        pairs = zip(a, b) if isinstance(a, Tile) and isinstance(b, Tile) else [(a, b)]
        for x, y in pairs:
            if isinstance(x, int) and isinstance(y, int) and min(x, y) > 0:
                total += abs(math.log2(x / y))
    return total
