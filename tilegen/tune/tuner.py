"""Tunes the cases of a suite: search, confirmed winner, row of the table; then the winners at other sizes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tilegen.bench.peers import peer_names, require_known
from tilegen.bench.process import WorkerFailed
from tilegen.bench.samples import CEILINGS
from tilegen.bench.suites import BenchCase
from tilegen.errors import CheckFailed, UsageError
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import files, lookup, words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune import candidates, cross, device, portfolio, refresh
from tilegen.tune.builds import Builds
from tilegen.tune.candidates import Candidate, Space
from tilegen.tune.cases import Confirmed, Settings, Tuned, possible, sizes_of
from tilegen.tune.confirm import Final, confirm, pick
from tilegen.tune.executors import Places
from tilegen.tune.journal import Journal
from tilegen.tune.row import row_of
from tilegen.tune.search import Search, Tell
from tilegen.tune.trial import forget_default, verify
from tilegen.tune.written import Written

Emit = Callable[[Schedule, Problem, Target, int], Candidate]
ListSpace = Callable[[Problem, Target, str, Mapping[str, int]], Space]

# How many of the best go into the confirming run, and its rounds; those of a GPU are alike within a tenth of a
# per cent.
FINALISTS = 3
CONFIRM_ROUNDS = 15
CONFIRM_ROUNDS_GPU = 11

# So few kernels of a portfolio need no trials: all go into the confirming run.
TOGETHER = 12

# How often kernels are timed at the other sizes once all have a row; the few may be others the second time.
CROSSINGS = 2


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
        self._written = Written(self.settings)

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
        settings = self.settings
        cases, impossible = possible(cases, settings.where)
        self.failed += impossible
        shared = (refresh.spaces if settings.refresh else portfolio.spaces)(cases, settings)
        searches = []
        for number, case in enumerate(cases):
            if settings.refresh and number not in shared:
                self.failed.append((case, "it has no row; leave --refresh out to search for one"))
            else:
                searches.append(self._search(case, tell(case), shared.get(number)))
        fresh: dict[Problem, list[Row]] = {}
        kept = [self._fresh(search, fresh) for search in searches]
        for search, row in zip(searches, kept):
            if row is None:
                planned = search.planned(settings.budget, settings.seed)
                search.prefetch(range(len(search.schedules)) if search.recorded else planned)
        found: list[Tuned | Confirmed] = []
        try:
            for search, row in zip(searches, kept):
                try:
                    one = self._confirmed(search) if row is None else Tuned(row, search, kept=True)
                except CheckFailed as error:
                    self.failed.append((search.case, error.message))
                    continue
                found = self._all_finished([*found, one], wait=False)
            tuned = self._all_finished(found, wait=True)
            self._cross(tuned)
        finally:
            self._written.flush()
        return tuned

    def tune(self, case: BenchCase, tell: Tell) -> Tuned:
        """Tune one case and write its row."""
        search = self._search(case, tell)
        kept = self._fresh(search, {})
        if kept is not None:
            return Tuned(kept, search, kept=True)
        return self._finished(self._confirmed(search))

    def _search(self, case: BenchCase, tell: Tell, space: Space | None = None) -> Search:
        settings = self.settings
        problem = case.spec(settings.where).problem
        sizes = sizes_of(problem, case)
        space = space or self.space(problem, settings.where, settings.schedule, sizes)
        emit = lambda schedule, place: self.emit(  # noqa: E731
            schedule, problem, settings.where, place
        )
        context = {
            "toolchain": self._toolchain,
            "default": emit(space.schedules[0], 0).digest,
            "device": settings.rules.device,
        }
        path = self._written.path(problem.operator)
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
            settings.strategy,
            space.recorded,
        )

    def _fresh(self, search: Search, known: dict[Problem, list[Row]]) -> Row | None:
        """The row of an earlier run that still holds; rows of a problem are told apart once, into `known`.

        A search does not begin anew because a model chooses another default; a refresh times it.
        """
        if self.settings.again:
            return None
        if search.problem not in known:
            table = files.read(self._written.path(search.problem.operator))
            sorted_rows = lookup.sort_rows(table, search.problem, self.settings.where)
            # A speed over a default that is another kernel now says nothing of today's.
            fresh = sorted_rows.fresh
            today = lookup.current(fresh, search.problem, self.settings.where)
            known[search.problem] = [r for r, t in zip(fresh, today) if r.default in t.speedups]
        rows = known[search.problem]
        for row in rows:
            same = dict(row.sizes) == dict(search.sizes)
            same = same and row.threads == self.settings.rules.threads
            same = same and row.toolchain == self._toolchain
            if self.settings.refresh:
                same = same and row.default == search.candidate(0).schedule
            if same and row.schedule.startswith(self.settings.schedule):
                return row
        return None

    def _confirmed(self, search: Search) -> Confirmed:
        """Search, and time the best together; of recorded schedules, and of a few, all that are right."""
        settings = self.settings
        places = range(len(search.schedules))
        if not search.recorded:
            places = search.planned(settings.budget, settings.seed)
        if search.recorded or settings.portfolio and len(places) <= TOGETHER:
            chosen = search.check([0, *places])
            if chosen[:1] != [0]:
                why = search.outcomes[0]
                raise CheckFailed(
                    f"the default schedule cannot be timed: {why.stage}: {why.reason}"
                )
        else:
            search.run(settings.budget, settings.seed)
            right = [p for p, o in search.outcomes.items() if o.ok]
            right.sort(key=lambda p: (-search.outcomes[p].speedup, p))
            chosen = [0, *sorted([p for p in right if p != 0][:FINALISTS])]
        return self._final(search, chosen)

    def _final(self, search: Search, chosen: Sequence[int]) -> Confirmed:
        """Time candidates and the peers together; the first is the one that others are compared with."""
        settings = self.settings
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

    def _all_finished(self, found: Sequence[Tuned | Confirmed], wait: bool) -> list[Any]:
        """Cases as `_finished` leaves them; one of which no finalist is right has failed, alone."""
        done = []
        for one in found:
            try:
                done.append(self._finished(one, wait))
            except CheckFailed as error:
                self.failed.append((one.search.case, error.message))
        return done

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
            self.done = [one for one in self.done if one.search is not found.search] + [found]
            self._written.add(found, now=wait)
        return found

    @functools.cached_property
    def _machine(self) -> dict[str, str]:
        """Facts of the machines that time."""
        return self.places.timers.submit(device.facts, self.settings.where).result()

    def _cross(self, found: list[Tuned]) -> None:
        """Measure kernels of some sizes at the others, then again what is in doubt; winners may be replaced."""
        where = self.settings.where
        for subject in dict.fromkeys(t.search.problem for t in found):
            places = [i for i, t in enumerate(found) if t.search.problem == subject]
            wanted = functools.partial(cross.wanted, everywhere=self.settings.everywhere)
            again = [(cross.doubtful, cross.DOUBT_ROUNDS)]
            for ask, rounds in [(wanted, cross.ROUNDS)] * CROSSINGS + again:
                rows = lookup.current([found[i].row for i in places], subject, where)
                for i, row in zip(places, rows):
                    found[i].row = row
                asked = ask(rows, subject, where)
                compared = {i: self._beside(found[i], s) for i, s in zip(places, asked) if s}
                compared = {i: chosen for i, chosen in compared.items() if chosen}
                for i, chosen in compared.items():
                    found[i].search.prefetch(chosen)
                for i, chosen in compared.items():
                    with contextlib.suppress(CheckFailed):
                        found[i] = self._crossed(found[i], chosen, rounds)
        forget_default()

    def _beside(self, one: Tuned, schedules: Sequence[Schedule]) -> list[int]:
        """Places of a row's winner and of what it is timed beside."""
        operator, where = one.search.problem.operator, self.settings.where
        try:
            winner = words.kernel_spec(operator, where, one.row.problem, one.row.schedule).schedule
        except UsageError:
            return []
        return [one.search.place(s) for s in (winner, *schedules)]

    def _crossed(self, one: Tuned, chosen: Sequence[int], rounds: int) -> Tuned:
        """Time a row's winner beside others and add what that found to its row."""
        search, row = one.search, one.row
        right = search.check(chosen)
        if right[:1] != list(chosen[:1]) or len(right) < 2:
            return one
        jobs = {search.candidate(p).schedule: search.job(p) for p in right}
        rules = dataclasses.replace(self.settings.rules, rounds=rounds)
        final = self.places.timers.submit(confirm, jobs, search.sizes, (), rules).result()
        if not final.ratios.get(row.schedule):
            return one
        more = cross.speedups(row, final)
        by_name = {search.candidate(p).schedule: p for p in right}
        digests = {name: search.candidate(by_name[name]).digest for name in more}
        one.row = dataclasses.replace(
            row, speedups=dict(row.speedups) | more, digests=dict(row.digests) | digests
        )
        faster = cross.better(row, final)[: FINALISTS - 1]
        if faster and search.check([0]):
            again = [0, chosen[0], *(by_name[name] for name in faster)]
            crossed = one.row
            one = self._finished(self._final(search, list(dict.fromkeys(again))))
            kept = crossed if cross.holds(crossed, one.row, faster) else row
            one.row = cross.merged(kept, one.row)
        self._written.add(one)
        return one
