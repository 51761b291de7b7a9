"""Searches the schedules of one problem at one size within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from tilegen.bench.suites import BenchCase
from tilegen.errors import CheckFailed, TilegenError
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tune import strategy
from tilegen.tune.builds import Builds
from tilegen.tune.candidates import Candidate, order
from tilegen.tune.executors import Places
from tilegen.tune.journal import Journal
from tilegen.tune.trial import Job, Outcome, Rules, measure


@dataclass(frozen=True)
class Budget:
    """When a search stops.

    Attributes:
        trials: most candidates, those known from an earlier run included; 0 for all.
        seconds: longest time; 0 for no limit.
    """

    trials: int = 0
    seconds: float = 0.0


@dataclass
class Progress:
    """What a search tells while it runs.

    Attributes:
        best: speedup of the best candidate so far.
        schedule: its words.
        done, total: trials.
    """

    best: float = 0.0
    schedule: str = ""
    done: int = 0
    total: int = 0


Tell = Callable[[Progress], None]


@dataclass
class Search:
    """A search over one list of candidates.

    Attributes:
        case: what was asked for.
        problem: what is computed.
        sizes: extents at which candidates are timed.
        rules: how trials run.
        places: where they run.
        builds: libraries of candidates, shared with the searches at other sizes.
        journal: what is known, and where results are kept.
        emit: emits a candidate from its schedule and its place in `schedules`.
        schedules: the space; the first is the default.
        ranked: whether the space is in the order of a model's estimates, best first.
        tell: called after each trial.
        strategy: what proposes candidates where no model ranks the space: one of STRATEGIES.
        recorded: whether a row recorded the space, which is then not searched but timed together.
        outcomes: results by candidate.
        right: candidates that were built and verified without a trial.
    """

    case: BenchCase
    problem: Problem
    sizes: Mapping[str, int]
    rules: Rules
    places: Places
    builds: Builds
    journal: Journal
    emit: Callable[[Schedule, int], Candidate]
    schedules: Sequence[Schedule]
    ranked: bool = False
    tell: Tell = lambda _: None
    strategy: str = "neighbours"
    recorded: bool = False
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    right: set[int] = field(default_factory=set)
    _candidates: dict[int, Candidate] = field(default_factory=dict)
    _progress: Progress = field(default_factory=Progress)
    _until: float = float("inf")

    def run(self, budget: Budget, seed: int = 0) -> None:
        """Try candidates until the budget is spent.

        All of them where the budget allows; the first ones where a model ranks them; else half of it on the
        first of `turns`, the rest on what the strategy proposes.

        Raises:
            CheckFailed: the default itself does not compile or is wrong: nothing can be compared.
        """
        size = len(self.schedules)
        trials = min(size, budget.trials or size)
        self._progress.total = trials
        if budget.seconds:
            self._until = time.monotonic() + budget.seconds
        self._require_default()
        self._try(self.planned(budget, seed))
        turns = self.turns(seed)
        propose = strategy.by_neighbours(self.schedules, turns)
        if self.strategy == "optuna" and trials < size:
            propose = strategy.by_optuna(self.schedules, turns, seed)
        while len(self.outcomes) < trials and not self._spent():
            tried = {place: outcome.speedup for place, outcome in self.outcomes.items()}
            self._try(propose(tried, min(4, trials - len(self.outcomes))))

    def turns(self, seed: int) -> list[int]:
        """The order of trials: the model's, or the classes in turn, each its default and then at random."""
        return list(range(len(self.schedules))) if self.ranked else order(self.schedules, seed)

    def planned(self, budget: Budget, seed: int) -> list[int]:
        """The trials that do not depend on what others find."""
        size = len(self.schedules)
        trials = min(size, budget.trials or size)
        every = self.ranked or trials == size
        return self.turns(seed)[: trials if every else max(1, trials // 2)]

    def prefetch(self, places: Sequence[int]) -> None:
        """Begin to build the default and what will be tried for certain."""
        for place in [0, *places]:
            if self._emits(place):
                self._build(place)

    def check(self, places: Sequence[int]) -> list[int]:
        """Build candidates and verify them, without timing them; those that are right, the others have failed."""
        emitted = [p for p in dict.fromkeys(places) if self._emits(p)]
        for place in emitted:
            made = self.candidate(place)
            self.builds.start(made, self.journal.verified(made.digest))
        right = []
        for number, place in enumerate(emitted, start=1):
            failure = self._failure(place)
            if failure is None:
                right.append(place)
                self.right.add(place)
            else:
                self._keep(place, failure, fresh=True)
            self._progress.done, self._progress.total = number, len(emitted)
            self.tell(self._progress)
        return right

    def _failure(self, place: int) -> Outcome | None:
        """Why a candidate is not right; None if it is."""
        made = self.candidate(place)
        compiled = self.builds.result(made)
        if not compiled.image:
            return Outcome("compile", compiled.reason)
        wrong = compiled.wrong
        if not (wrong or compiled.verified or self.journal.verified(made.digest)):
            wrong = self.builds.fault(made, self.job(place))
        return Outcome("verify", wrong) if wrong else None

    def place(self, schedule: Schedule) -> int:
        """The place of a schedule, added to the space if it is not there."""
        if schedule not in self.schedules:
            self.schedules = [*self.schedules, schedule]
        return list(self.schedules).index(schedule)

    def known(self) -> set[int]:
        """Places of all that was tried or verified."""
        return self.right | set(self.outcomes)

    def best(self) -> int | None:
        """Place of the fastest candidate; of equal ones the first."""
        right = [p for p, o in self.outcomes.items() if o.ok]
        return max(right, key=lambda p: (self.outcomes[p].speedup, -p), default=None)

    def candidate(self, place: int) -> Candidate:
        """The emitted candidate of a place."""
        if place not in self._candidates:
            self._candidates[place] = self.emit(self.schedules[place], place)
        return self._candidates[place]

    def _emits(self, place: int) -> bool:
        """Whether a candidate can be emitted; one that cannot has failed."""
        try:
            self.candidate(place)
        except TilegenError as error:
            self.outcomes[place] = Outcome("emit", error.message)
            return False
        return True

    def _build(self, place: int) -> Future | None:
        """The build of a candidate; None where its outcome is known already."""
        made = self.candidate(place)
        if place in self.outcomes or self.journal.get(self.key(place)) is not None:
            return None
        return self.builds.start(made, self.journal.verified(made.digest))

    def job(self, place: int) -> Job:
        """A candidate with its library. Raises CheckFailed if it does not compile."""
        made = self.candidate(place)
        compiled = self.builds.result(made)
        if not compiled.image:
            raise CheckFailed(f"{made.schedule} does not compile: {compiled.reason}")
        target = made.kernel.spec.target.name
        operator = made.kernel.spec.problem.operator
        return Job(operator, target, made.options, made.kernel.symbol, compiled.image)

    def key(self, place: int) -> str:
        """Name of a trial in the journal."""
        return Journal.key(self.candidate(place).digest, self.sizes, self.rules.threads)

    def _spent(self) -> bool:
        return time.monotonic() > self._until

    def _require_default(self) -> None:
        self._try([0])
        outcome = self.outcomes.get(0)
        if outcome is None or not outcome.ok:
            why = f"{outcome.stage}: {outcome.reason}" if outcome else "no time for it"
            raise CheckFailed(f"the default schedule cannot be timed: {why}")

    def _try(self, wanted: Sequence[int]) -> None:
        """Compile in parallel, measure as libraries arrive, keep each result at once."""
        building: dict[Future, list[int]] = {}
        measuring: dict[Future, int] = {}
        for place in wanted:
            if place in self.outcomes or not self._emits(place):
                continue
            known = self.journal.get(self.key(place))
            if known is not None:
                self._keep(place, known, fresh=False)
            else:
                building.setdefault(self._build(place), []).append(place)
        try:
            while building or measuring:
                if self._spent():
                    return
                done, _ = wait([*building, *measuring], return_when=FIRST_COMPLETED)
                for future in [f for f in [*building, *measuring] if f in done]:
                    if future in measuring:
                        self._keep(measuring.pop(future), future.result(), fresh=True)
                        continue
                    for place in building.pop(future):
                        if not self._spent():
                            self._measure(place, measuring)
        finally:
            for future in [*building, *measuring] if self._spent() else measuring:
                future.cancel()

    def _measure(self, place: int, measuring: dict[Future, int]) -> None:
        made = self.candidate(place)
        compiled = self.builds.result(made)
        if not compiled.image:
            self._keep(place, Outcome("compile", compiled.reason), fresh=True)
            return
        if compiled.wrong:
            self._keep(place, Outcome("verify", compiled.wrong), fresh=True)
            return
        verified = self.journal.verified(made.digest) or compiled.verified
        arguments = (self.job(place), self.job(0), self.sizes, self.rules, verified)
        future = self.places.timers.submit(measure, *arguments)
        if future.done():
            self._keep(place, future.result(), fresh=True)
        else:
            measuring[future] = place

    def _keep(self, place: int, outcome: Outcome, fresh: bool) -> None:
        self.outcomes[place] = outcome
        if fresh and outcome.stage != "baseline":
            self.journal.add(self.key(place), outcome)
        self._progress.done = len(self.outcomes)
        best = self.best()
        if best is not None:
            self._progress.best = self.outcomes[best].speedup
            self._progress.schedule = self.candidate(best).schedule
        self.tell(self._progress)
