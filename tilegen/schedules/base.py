"""What every schedule knows: which problems and targets it is legal for, and why not, in numbers."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.errors import IllegalSchedule
from tilegen.problems.base import Problem
from tilegen.targets import Target


@dataclass(frozen=True)
class Violation:
    """One rule that a schedule breaks.

    Attributes:
        field: the schedule's field, as in `tile`.
        message: what is wrong, with the numbers.
        legal: the nearest legal values as flags, such as `--stages 2 (131072 bytes)`.
    """

    field: str
    message: str
    legal: str = ""


class Schedule(ABC):
    """How a problem is computed. Subclasses are frozen dataclasses, each the owner of one template."""

    operator: ClassVar[str]
    backend: ClassVar[str]
    # Name on the command line (`--schedule`), of the template and in the tuning tables.
    name: ClassVar[str]

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
    """Raise IllegalSchedule listing every violation, each with numbers and the nearest legal values."""
    refusal = type(schedule).accepts(problem, target)
    broken = [refusal] if refusal else schedule.violations(problem, target)
    if not broken:
        return
    lines = []
    for violation in broken:
        lines.append(f"  {violation.message}")
        if violation.legal:
            lines.append(f"  Legal: {violation.legal}")
    raise IllegalSchedule(f"schedule does not fit {target}", "\n".join(lines))
