"""What a model says of a schedule: seconds, and the terms they come from."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilegen.schedules.base import Schedule


@dataclass(frozen=True)
class Term:
    """One part of the time.

    Attributes:
        name: what takes it, such as `matrix units`.
        seconds: how long.
        why: the numbers behind it.
        overlaps: whether it runs beside the other overlapping terms, so that the longest counts most.
    """

    name: str
    seconds: float
    why: str
    overlaps: bool = True


# Part of the shorter overlapping terms that still shows: work that runs beside other work disturbs it.
DISTURBS = 0.04


@dataclass(frozen=True)
class Estimate:
    """The estimated time of one schedule.

    Attributes:
        schedule: the schedule.
        terms: what the time is made of.
    """

    schedule: Schedule
    terms: tuple[Term, ...]

    @functools.cached_property
    def seconds(self) -> float:
        """The longest of the overlapping terms, a little of the others, and what overlaps nothing."""
        beside = sum(t.seconds for t in self.terms if t.overlaps) - self.limit.seconds
        alone = sum(t.seconds for t in self.terms if not t.overlaps)
        return self.limit.seconds + DISTURBS * beside + alone

    @functools.cached_property
    def limit(self) -> Term:
        """The overlapping term that takes longest."""
        return max((t for t in self.terms if t.overlaps), key=lambda t: t.seconds)

    def why(self) -> str:
        """The limit and what is added to it, in words."""
        rest = [f"{t.name} {t.seconds * 1e6:.1f} us" for t in self.terms if not t.overlaps]
        said = f"{self.limit.name} {self.limit.seconds * 1e6:.1f} us ({self.limit.why})"
        return " + ".join([said, *rest])
