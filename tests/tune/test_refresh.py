"""Rows timed again, kernels of one size at others, and the sample of a space that no model ranks."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from test_tune import CASE, SMALL, WHERE, planted, settings  # noqa: F401

from tilegen.bench.process import WorkerFailed
from tilegen.errors import UsageError
from tilegen.tables import cover, files, words
from tilegen.tables.lookup import sort_rows
from tilegen.tables.rows import Row
from tilegen.targets import target
from tilegen.tune import candidates, cross, portfolio, refresh
from tilegen.tune.confirm import Final
from tilegen.tune.cases import Tuned
from tilegen.tune.executors import local
from tilegen.tune.search import Search
from tilegen.tune.trial import Outcome
from tilegen.tune.tuner import Tuner

QUIET = lambda case: lambda state: None  # noqa: E731


TEXTS = [words.schedule_text(s) for s in SMALL]


@pytest.fixture
def stale(settings):  # noqa: F811
    """A table whose only row is of kernels that have changed since."""
    recorded = {TEXTS[0]: 1.25, TEXTS[1]: 1.0, TEXTS[2]: 0.9}
    problem = words.problem_text(CASE.spec(WHERE).problem)
    row = Row(problem, WHERE.name, dict(CASE.sizes), TEXTS[0], 1.25, threads=1)
    row = dataclasses.replace(row, default=TEXTS[1], speedups=recorded, digest="0123456789ab")
    path = files.table_path(settings.tables, "test-cpu", "gemm")
    files.update(path, [row])
    return path


def test_a_stale_row_is_timed_again_without_a_search_and_without_what_is_wrong_now(
    settings, stale, monkeypatch  # noqa: F811
):
    monkeypatch.setattr(Search, "run", lambda *_: pytest.fail("it searched"))
    monkeypatch.setattr("tilegen.tune.tuner.verify", lambda *_: "some cases")
    monkeypatch.setattr("tilegen.model.choose.choice", lambda *_: SMALL[1])
    settings = dataclasses.replace(settings, refresh=True)
    cases = refresh.cases(settings.tables, "test-cpu", WHERE, 1)
    assert [case.sizes for case in cases] == [CASE.sizes]
    emit = lambda s, p, w, n: planted(s, p, w, 3 if s == SMALL[2] else 0)  # noqa: E731
    (found,) = Tuner(settings, local(2), emit).run(cases, QUIET)
    ((wrong, outcome),) = found.failures()
    assert wrong == TEXTS[2] and outcome.stage == "verify" and "expected" in outcome.reason
    table = files.read(stale)
    (row,) = table.rows
    assert sort_rows(table, found.search.problem, WHERE).fresh == [row]
    assert set(row.speedups) == set(TEXTS[:2]) and row.default == TEXTS[1]
    assert row.trials == "3 of 3 recorded timed again, 1 failed" and len(row.seconds) >= 10
    # What is fresh already is left alone.
    assert Tuner(settings, local(2)).run(cases, QUIET)[0].kept


def test_a_row_whose_default_is_another_kernel_now_is_measured_again(settings):  # noqa: F811
    """Its kernel still holds, and is used; the ratio to the default does not."""
    one = Tuner(settings, local(1))
    search = one._search(CASE, lambda state: None, candidates.Space(SMALL[:2]))
    held, other = (search.candidate(place).digest for place in (0, 1))
    problem = words.problem_text(search.problem)
    row = Row(problem, WHERE.name, dict(CASE.sizes), TEXTS[0], 1.25, threads=1, default=TEXTS[1])
    row = dataclasses.replace(row, speedups={TEXTS[0]: 1.25, TEXTS[1]: 1.0}, digest=held)
    path = files.table_path(settings.tables, "test-cpu", "gemm")
    for digest, kept in ((other, True), ("0123456789ab", False)):
        told = dict(digests={TEXTS[1]: digest}, toolchain=one._toolchain)
        files.update(path, [dataclasses.replace(row, **told)])
        assert len(sort_rows(files.read(path), search.problem, WHERE).fresh) == 1
        assert (one._fresh(search, {}) is not None) == kept


def test_a_refresh_times_a_default_that_is_another_now(settings):  # noqa: F811
    settings = dataclasses.replace(settings, refresh=True)
    one = Tuner(settings, local(1))
    path = files.table_path(settings.tables, "test-cpu", "gemm")
    for default, kept in ((0, True), (1, False)):
        search = one._search(CASE, lambda state: None, candidates.Space(SMALL[:2]))
        row = Row(words.problem_text(search.problem), WHERE.name, dict(CASE.sizes), TEXTS[0], 1.0)
        held = dict(digest=search.candidate(0).digest, toolchain=one._toolchain, threads=1)
        held |= dict(default=TEXTS[default], speedups={TEXTS[0]: 1.0, TEXTS[1]: 0.9})
        held |= dict(digests={TEXTS[1]: search.candidate(1).digest})
        files.update(path, [dataclasses.replace(row, **held)])
        assert (one._fresh(search, {}) is not None) == kept


def test_rows_of_two_operators_in_the_same_words_are_crossed_apart(
    settings, monkeypatch  # noqa: F811
):
    asked = []

    def wanted(rows, problem, where, **_):
        asked.append((problem, [row.problem for row in rows]))
        return [[] for _ in rows]

    monkeypatch.setattr(cross, "wanted", wanted)
    monkeypatch.setattr(cross, "doubtful", wanted)
    where = target("sm_90a")
    problems = [words.problem_of(name, "dtype=bf16") for name in ("gemm", "gated_gemm")]
    row = Row("dtype=bf16", where.name, {"m": 8, "n": 8, "k": 8}, "", 1.0)
    found = [Tuned(row, SimpleNamespace(problem=p)) for p in [*problems, problems[0]]]
    Tuner(dataclasses.replace(settings, where=where), local(1))._cross(found)
    assert {(p, len(rows)) for p, rows in asked} == {(problems[0], 2), (problems[1], 1)}


def test_what_has_no_row_cannot_be_timed_again(settings, stale):  # noqa: F811
    settings = dataclasses.replace(settings, refresh=True)
    other = dataclasses.replace(CASE, sizes={"m": 5, "n": 24, "k": 24})
    for case in (
        other,
        dataclasses.replace(CASE, operator="softmax", options={}, sizes={"m": 5, "n": 5}),
    ):
        one = Tuner(settings, local(1))
        assert one.run([case], QUIET) == []
        assert one.failed == [(case, "it has no row; leave --refresh out to search for one")]
    with pytest.raises(UsageError, match="has no row for x86-64-v3 with 2 threads"):
        refresh.cases(settings.tables, "test-cpu", target("x86-64-v3"), 2)
    with pytest.raises(UsageError, match="no tables for 'tset-cpu' .did you mean 'test-cpu'"):
        refresh.cases(settings.tables, "tset-cpu", WHERE, 1)


@pytest.fixture
def speed(monkeypatch):
    """Speeds by the words of schedules; nothing is built, and every kernel is as fast as they say."""
    speed = {TEXTS[0]: 1.0, TEXTS[1]: 1.2, TEXTS[2]: 1.5}

    def timed(jobs, sizes, peers, rules):
        base, *_ = jobs
        of = lambda name: speed.get(name, 1.0)  # noqa: E731
        ratios = {name: (of(name) / of(base),) * 11 for name in jobs}
        return Final({name: (1 / of(name),) * 11 for name in jobs}, ratios, {})

    def tried(search, budget, seed):
        for place in range(len(search.schedules)):
            search.outcomes[place] = Outcome(ratios=(speed[search.candidate(place).schedule],))

    monkeypatch.setattr("tilegen.tune.tuner.confirm", timed)
    monkeypatch.setattr("tilegen.tune.tuner.verify", lambda *_: "some cases")
    monkeypatch.setattr(Search, "run", tried)
    monkeypatch.setattr(Search, "check", lambda search, places: list(places))
    monkeypatch.setattr(Search, "prefetch", lambda *_: None)
    monkeypatch.setattr(Search, "job", lambda *_: None)
    return speed


SPACES = {96: SMALL[:2], 192: [SMALL[0], SMALL[2]]}
CASES = [dataclasses.replace(CASE, sizes={"m": m, "n": 24, "k": 24}) for m in SPACES]


def of_size(problem, where, name, sizes):
    return candidates.Space(SPACES[sizes["m"]])


def test_a_winner_of_another_size_that_is_faster_takes_the_place(settings, speed):  # noqa: F811
    found = Tuner(settings, local(1), space=of_size).run(CASES, QUIET)
    assert [one.row.schedule for one in found] == [TEXTS[2]] * 2
    rows = files.read(files.table_path(settings.tables, "test-cpu", "gemm")).rows
    assert [row.schedule for row in rows] == [TEXTS[2]] * 2
    assert all(row.speedups == pytest.approx(speed) for row in rows)
    assert cover.smallest(rows, 12, 0.03).schedules == (TEXTS[2],)


def test_a_case_of_which_no_finalist_is_right_costs_itself_alone(
    settings, speed, monkeypatch  # noqa: F811
):
    """Quick verification passed them, and the whole grid does not."""

    def refused(job, rules, cases):
        if job == TEXTS[2]:
            return "some cases"
        raise WorkerFailed("refused", "the launcher returned 912")

    monkeypatch.setattr("tilegen.tune.tuner.verify", refused)
    monkeypatch.setattr(Search, "job", lambda search, place: search.candidate(place).schedule)
    spaces = {96: SMALL[:2], 192: SMALL[2:3]}
    space = lambda problem, where, name, sizes: candidates.Space(spaces[sizes["m"]])  # noqa: E731
    one = Tuner(settings, local(1), space=space)
    (found,) = one.run(CASES, QUIET)
    assert found.row.schedule == TEXTS[2]
    ((case, why),) = one.failed
    assert case == CASES[0] and "the launcher returned 912" in why


def test_a_run_that_was_stopped_before_crossing_crosses_when_it_goes_on(
    settings, speed  # noqa: F811
):
    speed[TEXTS[2]] = 1.2
    path = files.table_path(settings.tables, "test-cpu", "gemm")
    for case in CASES:
        Tuner(settings, local(1), space=of_size).tune(case, lambda state: None)
    winners = [row.schedule for row in files.read(path).rows]
    assert winners == [TEXTS[1], TEXTS[2]]
    found = Tuner(settings, local(1), space=of_size).run(CASES, QUIET)
    assert all(one.kept for one in found)
    for row, winner in zip(files.read(path).rows, winners):
        assert row.schedule == winner and set(winners) <= set(row.speedups)


def test_a_winner_that_was_lucky_is_timed_again_beside_the_few(
    settings, speed, monkeypatch  # noqa: F811
):
    """At one size a kernel that is as fast as the others seems 5 % faster, in every run but a long one."""
    monkeypatch.setattr(cover, "FEW", 1)
    speed |= {TEXTS[1]: 1.2, TEXTS[2]: 1.2}
    asked = []

    def timed(jobs, sizes, peers, rules):
        lucky = TEXTS[1] if sizes["m"] == 96 and rules.rounds < cross.DOUBT_ROUNDS else ""
        of = {name: speed[name] * (1.05 if name == lucky else 1.0) for name in jobs}
        if TEXTS[1] in of and sizes["m"] == 192:
            of[TEXTS[1]] = 0.5
        asked.append((sizes["m"], rules.rounds, list(jobs)))
        base, *_ = jobs
        ratios = {name: (of[name] / of[base],) * rules.rounds for name in jobs}
        return Final({name: (1 / of[name],) * rules.rounds for name in jobs}, ratios, {})

    monkeypatch.setattr("tilegen.tune.tuner.confirm", timed)
    every = lambda *_: candidates.Space(SMALL[:3])  # noqa: E731
    Tuner(settings, local(1), space=every).run(CASES, QUIET)
    assert [x for x in asked if x[1] == cross.DOUBT_ROUNDS] == [
        (96, cross.DOUBT_ROUNDS, [TEXTS[1], TEXTS[2]])
    ]
    rows = files.read(files.table_path(settings.tables, "test-cpu", "gemm")).rows
    covered = cover.smallest(rows, 1, 0.03)
    assert covered.schedules == (TEXTS[2],) and covered.worst == 0


def test_a_crossing_whose_winner_was_slow_by_itself_is_dropped(
    settings, speed, monkeypatch  # noqa: F811
):
    """All that is timed beside it there seems twice as fast; the confirming run says otherwise."""
    others = [words.schedule_text(s) for s in SMALL[2:5]]
    speed |= {TEXTS[1]: 1.2, **dict.fromkeys(others, 1.1)}
    spaces = {96: SMALL[:2], 192: [SMALL[0], *SMALL[2:5]]}
    space = lambda problem, where, name, sizes: candidates.Space(spaces[sizes["m"]])  # noqa: E731

    def timed(jobs, sizes, peers, rules):
        base, *_ = jobs
        of = dict(speed)
        if sizes["m"] == 96 and rules.rounds == cross.ROUNDS:
            of[base] /= 2
        ratios = {name: (of[name] / of[base],) * rules.rounds for name in jobs}
        return Final({name: (1 / of[name],) * rules.rounds for name in jobs}, ratios, {})

    monkeypatch.setattr("tilegen.tune.tuner.confirm", timed)
    settings = dataclasses.replace(settings, everywhere=12)
    Tuner(settings, local(1), space=space).run(CASES, QUIET)
    rows = files.read(files.table_path(settings.tables, "test-cpu", "gemm")).rows
    for row in rows:
        assert max(row.speedups.values()) <= row.speedup
    assert rows[0].schedule == TEXTS[1]


def test_speedups_of_an_earlier_row_are_told_in_terms_of_the_new_default():
    from test_tables import row

    new = dataclasses.replace(row(8), speedups={"a": 2.0, "b": 3.0}, digests={"b": "2"})
    old = dataclasses.replace(row(8), schedule="a", speedups={"a": 1.0, "b": 1.4, "c": 0.5})
    both = cross.merged(dataclasses.replace(old, digests={"b": "1", "c": "1"}), new)
    assert both.speedups == {"a": 2.0, "b": 3.0, "c": 1.0} and both.digests == {"b": "2", "c": "1"}
    final = Final({}, {"w": (1.0,) * 5, "x": (1.1,) * 5, "y": (1.005,) * 5, "z": ()}, {})
    old = dataclasses.replace(row(8), schedule="w", speedup=2.0)
    assert cross.speedups(old, final) == {"x": pytest.approx(2.2), "y": pytest.approx(2.01)}
    assert cross.better(old, final) == ["x"]


def test_a_sample_begins_with_the_defaults_and_what_differs_in_one_field():
    problem = dataclasses.replace(CASE, operator="softmax", options={}).spec(WHERE).problem
    where = target("sm_90a")
    every = candidates.space(problem, where).schedules
    some = portfolio.sample(every, 6, seed=0)
    assert some[0] == every[0] and len(set(some)) == 6
    differing = []
    for one in some[1:]:
        names = [
            f.name
            for f in dataclasses.fields(one)
            if getattr(one, f.name) != getattr(some[0], f.name)
        ]
        assert len(names) == 1
        differing += names
    # Each field has its turn before one has a second.
    assert set(differing[:3]) == {"threads", "values", "waves"}
    assert portfolio.sample(every, 10**6, seed=0)[:6] == some
    assert set(portfolio.sample(every, 10**6, seed=0)) == set(every)


def test_a_refresh_of_a_device_is_a_command(tilegen, settings, stale, monkeypatch):  # noqa: F811
    monkeypatch.setattr("tilegen.tune.device.device_key", lambda where: "test-cpu")
    told = []
    monkeypatch.setattr(Tuner, "run", lambda self, cases, tell: told.append((self, cases)) or [])
    words_ = ("--refresh", "-t", "portable", "--tables", settings.tables)
    assert tilegen("tune", *words_).status == 0
    ((one, cases),) = told
    assert one.settings.refresh and [case.sizes for case in cases] == [CASE.sizes]
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    ran = tilegen("tune", *words_, "--threads", "3")
    assert ran.status == 2 and "with 3 threads" in ran.err


def test_with_a_portfolio_sizes_without_a_row_are_searched(settings, stale, speed):  # noqa: F811
    settings = dataclasses.replace(settings, refresh=True, portfolio=3)
    others = [dataclasses.replace(CASE, sizes={"m": m, "n": 24, "k": 24}) for m in (5, 6)]
    found = Tuner(settings, local(1)).run([CASE, *others], QUIET)
    assert [one.search.recorded for one in found] == [True, False, False]
    told = [one.row.trials.partition(",")[0].partition(" of ")[2] for one in found]
    assert [" ".join(text.split()[1:]) for text in told] == [
        "recorded timed again",
        "tried",
        "tried",
    ]
