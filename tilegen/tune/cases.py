"""A tuning run in words, and what comes of each of its cases."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from tilegen.bench.suites import BenchCase
from tilegen.errors import UsageError
from tilegen.problems.base import Problem
from tilegen.tables import words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune.confirm import Final
from tilegen.tune.search import Budget, Search
from tilegen.tune.trial import Outcome, Rules


@dataclass(frozen=True)
class Settings:
    """What a tuning run is told.

    Attributes:
        where: the target.
        tables: folder of the tables.
        budget: of each case.
        rules: of each trial.
        peers: peers of the confirming run; None for all that know the problem.
        seed: of the random sample.
        schedule: only schedules of this class; empty for all.
        again: tune cases that have a fresh row already.
        portfolio: kernels that are tried over all sizes of a problem; 0 for each size's own.
        refresh: time what the rows recorded again, and search nothing; with a portfolio, also what a model
            has serve many sizes, and search sizes without a row.
        strategy: what a search tries next where no model ranks its space.
        everywhere: kernels that are timed at every size of their problem once all have a row.
    """

    where: Target
    tables: Path
    budget: Budget
    rules: Rules
    peers: Sequence[str] | None = None
    seed: int = 0
    schedule: str = ""
    again: bool = False
    portfolio: int = 0
    refresh: bool = False
    strategy: str = "neighbours"
    everywhere: int = 0


@dataclass
class Tuned:
    """What came of one case.

    Attributes:
        row: its row.
        search: its candidates and their outcomes.
        kept: whether a fresh row was there already, so that nothing was searched.
        final: its confirming run, if there was one.
        notes: what a user should know.
    """

    row: Row
    search: Search
    kept: bool = False
    final: Final | None = None
    notes: list[str] = field(default_factory=list)

    def failures(self) -> list[tuple[str, Outcome]]:
        """Schedules that failed, with their outcomes, by stage and then in the fixed order."""
        failed = [(p, o) for p, o in self.search.outcomes.items() if not o.ok]
        failed.sort(key=lambda item: (item[1].stage, item[0]))
        return [(words.schedule_text(self.search.schedules[p]), o) for p, o in failed]

    def why_failed(self) -> list[str]:
        """Why candidates failed, a line for each stage and reason; the same reason of several is told once."""
        groups: dict[tuple[str, str], list[str]] = {}
        for schedule, outcome in self.failures():
            groups.setdefault((outcome.stage, outcome.reason), []).append(schedule)
        lines = []
        for (stage, reason), schedules in groups.items():
            more = f" and {len(schedules) - 1} more" if schedules[1:] else ""
            lines.append(f"failed at {stage}: {schedules[0]}{more}: {reason}")
        return lines


@dataclass
class Confirmed:
    """A case whose winner is being verified.

    Attributes:
        search: its trials.
        final: the confirming run.
        names: places of the finalists by name.
        winner: the finalist that is being verified.
        verdict: the future of what verification finds.
        failures: why finalists and peers dropped out.
    """

    search: Search
    final: Final
    names: dict[str, int]
    winner: str
    verdict: Future
    failures: dict[str, str]


def sizes_of(problem: Problem, case: BenchCase) -> dict[str, int]:
    """The extents of a case in the problem's order."""
    return {s.name: case.sizes[s.name] for s in problem.sizes()}


def possible(
    cases: Sequence[BenchCase], where: Target
) -> tuple[list[BenchCase], list[tuple[BenchCase, str]]]:
    """The cases that a schedule computes on the target, and of several the others, with the reason.

    Raises:
        UsageError, IllegalSchedule: there is one case, and none computes it.
    """
    found, refused = [], []
    for case in cases:
        try:
            case.spec(where)
        except UsageError as error:
            if len(cases) == 1:
                raise
            refused.append((case, error.message))
        else:
            found.append(case)
    return found, refused
