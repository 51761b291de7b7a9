"""Tunes the cases of a suite: search, confirmed winner, row of the table; then the winners at each other's sizes."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilegen.bench.peers import peer_names, require_known
from tilegen.bench.samples import spread
from tilegen.bench.suites import BenchCase
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import files, lookup, words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune import candidates, device
from tilegen.tune.candidates import Candidate
from tilegen.tune.executors import Places
from tilegen.tune.journal import Journal
from tilegen.tune.search import Budget, Search, Tell
from tilegen.tune.confirm import Final, confirm
from tilegen.tune.trial import Outcome, Rules, forget_default

Emit = Callable[[Schedule, Problem, Target, int], Candidate]
Space = Callable[[Problem, Target, str], list[Schedule]]

# How many of the best go into the confirming run, and its rounds.
FINALISTS = 4
CONFIRM_ROUNDS = 15

# Winners of other sizes that are measured at every size, so that a dispatcher can choose among them.
MOST_CROSSED = 12


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
    """

    where: Target
    tables: Path
    budget: Budget
    rules: Rules
    peers: Sequence[str] | None = None
    seed: int = 0
    schedule: str = ""
    again: bool = False


@dataclass
class Tuned:
    """What came of one case.

    Attributes:
        row: its row.
        search: its candidates and their outcomes.
        kept: whether a fresh row was there already, so that nothing was searched.
        notes: what a user should know.
    """

    row: Row
    search: Search
    kept: bool = False
    notes: list[str] = field(default_factory=list)

    def failures(self) -> list[tuple[str, Outcome]]:
        """Schedules that failed, with their outcomes, by stage and then in the fixed order."""
        failed = [(p, o) for p, o in self.search.outcomes.items() if not o.ok]
        failed.sort(key=lambda item: (item[1].stage, item[0]))
        return [(self.search.candidate(p).schedule, o) for p, o in failed]


@dataclass
class Tuner:
    """Tunes case after case into the tables of one device.

    Attributes:
        settings: what it is told.
        places: where trials run.
        emit: emits a candidate.
        space: lists the schedules to try, the default first.
    """

    settings: Settings
    places: Places
    emit: Emit = candidates.candidate
    space: Space = candidates.space

    def _toolchain(self) -> str:
        """The compiler of the machines that compile."""
        where = self.settings.where
        return self.places.compilers.submit(device.toolchain, where).result()

    def run(self, cases: Sequence[BenchCase], tell: Callable[[BenchCase], Tell]) -> list[Tuned]:
        """Tune cases; each one's row is in its table before the next begins.

        Args:
            cases: problems with sizes.
            tell: gives the function that is told of a case's progress.

        Raises:
            CheckFailed: a default schedule is wrong or does not compile.
        """
        require_known(self.settings.where.backend, self.settings.peers or ())
        found = [self.tune(case, tell(case)) for case in cases]
        self._cross(found)
        return found

    def tune(self, case: BenchCase, tell: Tell) -> Tuned:
        """Tune one case and write its row."""
        settings = self.settings
        problem = case.spec(settings.where).problem
        sizes = {s.name: case.sizes[s.name] for s in problem.sizes()}
        path = files.table_path(settings.tables, settings.rules.device, problem.operator)
        search = self._search(path, problem, sizes, tell)
        kept = self._fresh(path, problem, sizes)
        if kept is not None:
            return Tuned(kept, search, kept=True)
        search.run(settings.budget, settings.seed)
        final, names = self._confirm(search, problem)
        row = self._row(search, problem, final, names)
        table = files.update(path, [row])
        notes = [*table.faults, *[f"{n}: {w}" for n, w in final.failures.items()]]
        return Tuned(row, search, notes=notes)

    def _fresh(self, path: Path, problem: Problem, sizes: Mapping[str, int]) -> Row | None:
        if self.settings.again:
            return None
        table = files.read(path)
        rows = lookup.sort_rows(table, problem, self.settings.where).fresh
        tools = self._toolchain()
        for row in rows:
            same = dict(row.sizes) == dict(sizes) and row.threads == self.settings.rules.threads
            if same and row.toolchain == tools and row.schedule.startswith(self.settings.schedule):
                return row
        return None

    def _search(self, path: Path, problem: Problem, sizes: Mapping[str, int], tell: Tell) -> Search:
        settings = self.settings
        schedules = self.space(problem, settings.where, settings.schedule)
        emit = lambda place: self.emit(
            schedules[place], problem, settings.where, place
        )  # noqa: E731
        context = {
            "toolchain": self._toolchain(),
            "default": emit(0).digest,
            "device": settings.rules.device,
        }
        journal = Journal(path.parent / ".journal" / f"{path.stem}.jsonl", context)
        return Search(sizes, settings.rules, self.places, journal, emit, schedules, tell)

    def _confirm(self, search: Search, problem: Problem) -> tuple[Final, dict[str, int]]:
        """Time the best together; the names that competitors have in the result, and their places."""
        right = [p for p, o in search.outcomes.items() if o.ok]
        right.sort(key=lambda p: (-search.outcomes[p].speedup, p))
        chosen = [0, *sorted([p for p in right if p != 0][:FINALISTS])]
        names = {search.candidate(p).schedule: p for p in chosen}
        jobs = {name: search.job(p) for name, p in names.items()}
        wanted = self.settings.peers
        known = peer_names(self.settings.where.backend, problem)
        peers = [name for name in known if wanted is None or name in wanted]
        rules = dataclasses.replace(self.settings.rules, rounds=CONFIRM_ROUNDS)
        arguments = (jobs, search.sizes, tuple(peers), rules)
        forget_default()
        return self.places.timers.submit(confirm, *arguments).result(), names

    def _row(self, search: Search, problem: Problem, final: Final, names: Mapping[str, int]) -> Row:
        winner = final.winner
        candidate = search.candidate(names[winner])
        default = search.candidate(0).schedule
        mine = final.seconds[winner]
        peers = {
            name: statistics.median(t / m for t, m in zip(times, mine))
            for name, times in final.seconds.items()
            if name not in names
        }
        failed = sum(not o.ok for o in search.outcomes.values())
        ratios = final.ratios[winner]
        settings = self.settings
        return Row(
            problem=words.problem_text(problem),
            target=settings.where.name,
            threads=settings.rules.threads if settings.where.backend == "c_openmp" else 0,
            sizes=dict(search.sizes),
            schedule=winner,
            speedup=statistics.median(ratios),
            default=default,
            peers=peers,
            speedups={n: statistics.median(final.ratios[n]) for n in names if n in final.ratios},
            seconds=mine,
            ratios=ratios,
            noise=spread(list(ratios)),
            verified=final.verified,
            trials=f"{len(search.outcomes)} of {len(search.schedules)} tried, {failed} failed",
            digest=candidate.digest,
            toolchain=self._toolchain(),
            machine=self.places.timers.submit(device.facts, settings.where).result(),
        )

    def _cross(self, found: Sequence[Tuned]) -> None:
        """Measure the winners of a problem's sizes at its other sizes, and add them to the rows."""
        for problem in dict.fromkeys(t.row.problem for t in found):
            tuned = [t for t in found if t.row.problem == problem]
            winners = list(dict.fromkeys(t.row.schedule for t in tuned))[:MOST_CROSSED]
            for one in tuned:
                if set(winners) <= set(one.row.speedups):
                    continue
                search = one.search
                place = {words.schedule_text(s): p for p, s in enumerate(search.schedules)}
                wanted = [place[w] for w in winners if w in place]
                search.also([0, *wanted])
                more = {
                    search.candidate(p).schedule: search.outcomes[p].speedup
                    for p in wanted
                    if search.outcomes[p].ok
                }
                one.row = dataclasses.replace(one.row, speedups=more | dict(one.row.speedups))
                operator = search.candidate(0).kernel.spec.problem.operator
                path = files.table_path(self.settings.tables, self.settings.rules.device, operator)
                files.update(path, [one.row])
        forget_default()
