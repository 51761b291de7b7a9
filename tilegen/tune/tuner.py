"""Tunes the cases of a suite: search, confirmed winner, row of the table; then the winners at other sizes."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilegen.bench.peers import peer_names, require_known
from tilegen.bench.process import WorkerFailed
from tilegen.bench.samples import CEILINGS
from tilegen.bench.suites import BenchCase
from tilegen.errors import CheckFailed
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import cover, files, lookup, words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune import candidates, device
from tilegen.tune.builds import Builds
from tilegen.tune.candidates import Candidate, Space
from tilegen.tune.cases import Confirmed, Settings, Tuned
from tilegen.tune.confirm import Final, confirm, pick
from tilegen.tune.executors import Places
from tilegen.tune.journal import Journal
from tilegen.tune.portfolio import spaces
from tilegen.tune.row import row_of
from tilegen.tune.search import Search, Tell
from tilegen.tune.trial import forget_default, verify

Emit = Callable[[Schedule, Problem, Target, int], Candidate]
ListSpace = Callable[[Problem, Target, str, Mapping[str, int]], Space]

# How many of the best go into the confirming run, and its rounds; those of a GPU are alike within a tenth of a
# per cent.
FINALISTS = 3
CONFIRM_ROUNDS = 15
CONFIRM_ROUNDS_GPU = 11

# The few kernels that a dispatcher would choose among are measured at every size.
MOST_CROSSED = 12
CROSSED_WITHIN = 0.03

# Kernels of a portfolio beside one for each size, where the sizes are few.
LEAST_PORTFOLIO = 4

# Tables are written no more often than this while a search goes on.
WRITE_SECONDS = 10.0


@dataclass
class Tuner:
    """Tunes case after case into the tables of one device.

    Attributes:
        settings: what it is told.
        places: where trials run.
        emit: emits a candidate.
        space: lists the schedules to try, the default first.
        done: cases whose row is in the table, as they are finished.
        failed: cases that cannot be tuned, with the reason: the default is wrong, or does not compile.
    """

    settings: Settings
    places: Places
    emit: Emit = candidates.candidate
    space: ListSpace = candidates.space
    done: list[Tuned] = field(default_factory=list)
    failed: list[tuple[BenchCase, str]] = field(default_factory=list)
    _verdicts: dict[str, Future] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._builds = Builds(self.places, self.settings.rules)
        self._unwritten: list[Tuned] = []
        self._written = time.monotonic()

    @functools.cached_property
    def _toolchain(self) -> str:
        """The compiler of the machines that compile."""
        where = self.settings.where
        return self.places.compilers.submit(device.toolchain, where).result()

    def run(self, cases: Sequence[BenchCase], tell: Callable[[BenchCase], Tell]) -> list[Tuned]:
        """Tune cases; rows of verified winners are in their tables within seconds, and when this ends.

        Args:
            cases: problems with sizes.
            tell: gives the function that is told of a case's progress.

        A case that cannot be tuned is kept in `failed`, and the others go on.
        """
        require_known(self.settings.where.backend, self.settings.peers or ())
        shared = self._portfolios(cases)
        searches = [self._search(case, tell(case), shared.get(n)) for n, case in enumerate(cases)]
        kept = [self._fresh(search) for search in searches]
        for search, row in zip(searches, kept):
            if row is None:
                search.prefetch(self.settings.budget, self.settings.seed)
        found: list[Tuned | Confirmed] = []
        try:
            for search, row in zip(searches, kept):
                try:
                    one = self._confirmed(search) if row is None else Tuned(row, search, kept=True)
                except CheckFailed as error:
                    self.failed.append((search.case, error.message))
                    continue
                found = [self._finished(f, wait=False) for f in [*found, one]]
            tuned = [self._finished(f) for f in found]
            self._cross(tuned)
        finally:
            self._write()
        return tuned

    def tune(self, case: BenchCase, tell: Tell) -> Tuned:
        """Tune one case and write its row."""
        search = self._search(case, tell)
        kept = self._fresh(search)
        if kept is not None:
            return Tuned(kept, search, kept=True)
        return self._finished(self._confirmed(search))

    def _portfolios(self, cases: Sequence[BenchCase]) -> dict[int, Space]:
        """Spaces of cases by their place, where the sizes of a problem share their kernels."""
        settings = self.settings
        groups: dict[Problem, list[int]] = {}
        for number, case in enumerate(cases):
            groups.setdefault(case.spec(settings.where).problem, []).append(number)
        found: dict[int, Space] = {}
        for problem, numbers in groups.items():
            if settings.portfolio and len(numbers) > 1:
                sizes = [_sizes(problem, cases[n]) for n in numbers]
                count = min(settings.portfolio, LEAST_PORTFOLIO + len(numbers))
                made = spaces(problem, settings.where, settings.schedule, sizes, count)
                found |= dict(zip(numbers, made or []))
        return found

    def _search(self, case: BenchCase, tell: Tell, space: Space | None = None) -> Search:
        settings = self.settings
        problem = case.spec(settings.where).problem
        sizes = _sizes(problem, case)
        space = space or self.space(problem, settings.where, settings.schedule, sizes)
        emit = lambda place: self.emit(
            space.schedules[place], problem, settings.where, place
        )  # noqa: E731
        context = {
            "toolchain": self._toolchain,
            "default": emit(0).digest,
            "device": settings.rules.device,
        }
        path = files.table_path(settings.tables, settings.rules.device, problem.operator)
        journal = Journal(path.parent / ".journal" / f"{path.stem}.jsonl", context)
        return Search(
            case,
            problem,
            sizes,
            settings.rules,
            self.places,
            self._builds,
            journal,
            emit,
            space.schedules,
            space.ranked,
            tell,
        )

    def _table(self, search: Search) -> Path:
        operator = search.problem.operator
        return files.table_path(self.settings.tables, self.settings.rules.device, operator)

    def _fresh(self, search: Search) -> Row | None:
        """The row of an earlier run that still holds."""
        if self.settings.again:
            return None
        table = files.read(self._table(search))
        rows = lookup.sort_rows(table, search.problem, self.settings.where).fresh
        for row in rows:
            same = dict(row.sizes) == dict(search.sizes)
            same = same and row.threads == self.settings.rules.threads
            same = same and row.toolchain == self._toolchain
            if same and row.schedule.startswith(self.settings.schedule):
                return row
        return None

    def _confirmed(self, search: Search) -> Confirmed:
        """Search, and time the best together."""
        settings = self.settings
        search.run(settings.budget, settings.seed)
        right = [p for p, o in search.outcomes.items() if o.ok]
        right.sort(key=lambda p: (-search.outcomes[p].speedup, p))
        chosen = [0, *sorted([p for p in right if p != 0][:FINALISTS])]
        names = {search.candidate(p).schedule: p for p in chosen}
        jobs = {name: search.job(p) for name, p in names.items()}
        wanted = settings.peers
        known = peer_names(settings.where.backend, search.problem)
        wanted = known if wanted is None else wanted
        peers = [name for name in known if name in wanted and name not in CEILINGS]
        rounds = CONFIRM_ROUNDS_GPU if settings.rules.on_gpu else CONFIRM_ROUNDS
        rules = dataclasses.replace(settings.rules, rounds=rounds)
        forget_default()
        final = self.places.timers.submit(confirm, jobs, search.sizes, peers, rules).result()
        return self._verifying(search, final, names, dict(final.failures))

    def _verifying(
        self, search: Search, final: Final, names: dict[str, int], failures: dict[str, str]
    ) -> Confirmed:
        """Choose the fastest that has not failed, and begin to verify it over the whole grid."""
        right = {n: final.ratios[n] for n in names if final.ratios.get(n) and n not in failures}
        if not right:
            raise CheckFailed(f"no finalist was timed and verified: {failures}")
        winner = pick(right)
        place = names[winner]
        digest = search.candidate(place).digest
        if digest not in self._verdicts:
            checkers = self.places.checkers or self.places.timers
            job, rules = search.job(place), self.settings.rules
            self._verdicts[digest] = checkers.submit(verify, job, rules, "full")
        return Confirmed(search, final, names, winner, self._verdicts[digest], failures)

    def _finished(self, found: Tuned | Confirmed, wait: bool = True) -> Any:
        """Write the row of a case whose winner is verified; one that is not is replaced by the next best.

        Args:
            found: the case.
            wait: whether to wait for verification; otherwise a case that is not done stays as it is.
        """
        while isinstance(found, Confirmed) and (wait or found.verdict.done()):
            try:
                verified = found.verdict.result()
            except WorkerFailed as error:
                failures = {**found.failures, found.winner: error.message}
                found = self._verifying(found.search, found.final, found.names, failures)
                continue
            row = row_of(found, verified, self.settings, self._toolchain, self._machine)
            notes = [f"{name}: {why}" for name, why in found.failures.items()]
            found = Tuned(row, found.search, final=found.final, notes=notes)
            self.done.append(found)
            self._unwritten.append(found)
            if wait or time.monotonic() > self._written + WRITE_SECONDS:
                self._write()
        return found

    def _write(self) -> None:
        """Put finished rows into their tables."""
        paths = {self._table(one.search): [] for one in self._unwritten}
        for one in self._unwritten:
            paths[self._table(one.search)].append(one)
        for path, tuned in paths.items():
            table = files.update(path, [one.row for one in tuned])
            tuned[-1].notes += table.faults
        self._unwritten, self._written = [], time.monotonic()

    @functools.cached_property
    def _machine(self) -> dict[str, str]:
        """Facts of the machines that time."""
        return self.places.timers.submit(device.facts, self.settings.where).result()

    def _measured(self, one: Tuned, schedules: Sequence[str]) -> dict[str, float]:
        """Speedups over the default of a case's row of schedules that its arrays suit."""
        search, where = one.search, self.settings.where
        operator, problem = search.problem.operator, one.row.problem
        places = {}
        for text in [one.row.default, *schedules]:
            schedule = words.kernel_spec(operator, where, problem, text).schedule
            if choose.takes(schedule, search.problem, where, search.sizes):
                places[text] = search.place(schedule)
        if len(places) < 2 or one.row.default not in places:
            return {}
        search.also([0, *places.values()])
        outcomes = {text: search.outcomes[place] for text, place in places.items()}
        # The space's own default may be another one by now than the row's.
        scale = outcomes[one.row.default].speedup
        return {s: o.speedup / scale for s, o in outcomes.items() if o.ok and scale > 0}

    def _cross(self, found: Sequence[Tuned]) -> None:
        """Measure the few kernels that cover a problem's sizes at each of them, and add them to the rows."""
        for problem in dict.fromkeys(t.row.problem for t in found):
            tuned = [t for t in found if t.row.problem == problem]
            few = cover.smallest([t.row for t in tuned], MOST_CROSSED, CROSSED_WITHIN).schedules
            for one in tuned:
                missing = [s for s in few if s not in one.row.speedups]
                more = self._measured(one, missing)
                if not more:
                    continue
                one.row = dataclasses.replace(one.row, speedups=more | dict(one.row.speedups))
                self._unwritten.append(one)
                if time.monotonic() > self._written + WRITE_SECONDS:
                    self._write()
        forget_default()


def _sizes(problem: Problem, case: BenchCase) -> dict[str, int]:
    return {s.name: case.sizes[s.name] for s in problem.sizes()}
