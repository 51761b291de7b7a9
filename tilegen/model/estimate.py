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


# Part of the shorter overlapping terms that still shows on a CPU: work that runs beside other work disturbs it.
DISTURBS = 0.04
# Exponent of the norm of the overlapping terms on a GPU, fitted on an H200: where several are as long as the longest,
# each is waited for now and then.
OVERLAP = 3.6


@dataclass(frozen=True)
class Estimate:
    """The estimated time of one schedule.

    Attributes:
        schedule: the schedule.
        terms: what the time is made of.
        overlap: exponent of the norm of the overlapping terms; 0 for the longest and a little of the others.
    """

    schedule: Schedule
    terms: tuple[Term, ...]
    overlap: float = 0.0

    @functools.cached_property
    def seconds(self) -> float:
        """What the overlapping terms take together, and what overlaps nothing."""
        return self.together + sum(t.seconds for t in self.terms if not t.overlaps)

    @functools.cached_property
    def together(self) -> float:
        """Seconds of all that overlaps."""
        beside = [t.seconds for t in self.terms if t.overlaps]
        longest = max(beside)
        if not self.overlap:
            return longest + DISTURBS * (sum(beside) - longest)
        return longest * sum((t / longest) ** self.overlap for t in beside) ** (1 / self.overlap)

    @functools.cached_property
    def limit(self) -> Term:
        """The overlapping term that takes longest."""
        return max((t for t in self.terms if t.overlaps), key=lambda t: t.seconds)

    def why(self) -> str:
        """The limit, what other work beside it adds, and what overlaps nothing, in words."""
        rest = [f"{t.name} {t.seconds * 1e6:.1f} us" for t in self.terms if not t.overlaps]
        said = f"{self.limit.name} {self.limit.seconds * 1e6:.1f} us ({self.limit.why})"
        beside = (self.together - self.limit.seconds) * 1e6
        return " + ".join(
            [said, *([f"beside it {beside:.1f} us"] if beside >= 0.05 else []), *rest]
        )
