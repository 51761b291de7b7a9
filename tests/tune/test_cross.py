"""Which kernels are timed at sizes where they were not: the few that serve all, chosen by what is expected of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilegen.model import choose
from tilegen.model.estimate import Estimate, Term
from tilegen.spec import KernelSpec
from tilegen.tables import words
from tilegen.tables.rows import Row
from tilegen.tune import cross, expect

SPECS = [
    KernelSpec.make("gemm", "sm_90a", {"dtype": "bf16", "tile": tile})
    for tile in ("128x64x64", "128x128x64", "128x256x64", "64x64x64", "128x192x64")
]
PROBLEM, WHERE = SPECS[0].problem, SPECS[0].target
A, B, C, D, E = (words.schedule_text(spec.schedule) for spec in SPECS)
SMALL, LARGE, ODD = (
    {"m": 256, "n": 256, "k": 256},
    {"m": 4096, "n": 4096, "k": 4096},
    {"m": 255, "n": 255, "k": 255},
)

# Seconds by estimate, of the schedules in order, at each size; by the model a fourth one serves both.
SECONDS = {256: (1.0, 1.2, 2.5, 1.02, 1.04), 4096: (20.0, 11.0, 10.0, 10.2, 12.0)}


def row(sizes, **speedups):
    texts = {globals()[name]: value for name, value in speedups.items()}
    best = max(texts, key=texts.__getitem__)
    problem = words.problem_text(PROBLEM)
    return Row(problem, WHERE.name, sizes, best, texts[best], speedups=texts)


@pytest.fixture
def model(monkeypatch):
    def estimate(schedule, problem, where, sizes):
        place = [spec.schedule for spec in SPECS].index(schedule)
        seconds = SECONDS[sizes["m"]][place]
        return Estimate(schedule, (Term("all", seconds, "as told"),))

    def rank(problem, where, sizes, given=None):
        every = [estimate(spec.schedule, problem, where, sizes) for spec in SPECS]
        return sorted(every, key=lambda one: one.seconds)

    monkeypatch.setattr(choose, "model_of", lambda *_: (SimpleNamespace(estimate=estimate), None))
    monkeypatch.setattr(choose, "rank", rank)


def schedules(*numbers):
    return [SPECS[n].schedule for n in numbers]


def test_a_guess_is_on_the_scale_of_what_was_measured_and_no_better_than_the_best(model):
    rows = [row(SMALL, A=1.0, B=0.8), row(LARGE, B=2.0, A=1.1)]
    pool = expect.recorded(rows, PROBLEM, WHERE) | expect.promising(rows, PROBLEM, WHERE)
    assert set(pool) == {A, B, C, D}
    small, large = expect.filled(rows, pool, PROBLEM, WHERE)
    # Speed times estimate: 1.0 and 0.96 at the small size, 22 and 22 at the large one.
    assert small.speedups == pytest.approx({A: 1.0, B: 0.8, D: 0.98 / 1.02})
    assert large.speedups == pytest.approx({A: 1.1, B: 2.0, C: 2.0, D: 2.0})


def test_few_are_chosen_together_by_what_is_expected_of_them(model, monkeypatch):
    monkeypatch.setattr(cross.cover, "FEW", 1)
    rows = [row(SMALL, A=1.0, D=0.99), row(LARGE, C=1.0, B=0.9)]
    # D was timed at one size alone, and by the model it serves the other too.
    assert cross.wanted(rows, PROBLEM, WHERE) == [[], schedules(3)]
    # Of one kernel that must serve both, the loss is measured however large it is expected to be.
    rows = [row(SMALL, A=1.0), row(LARGE, C=1.0)]
    small, large = cross.wanted(rows, PROBLEM, WHERE)
    assert (small, large) in (([], schedules(0)), (schedules(2), []))
    # Where schedules may be new, the one that nobody timed is.
    assert cross.wanted(rows, PROBLEM, WHERE, new=True) == [schedules(3), schedules(3)]


def test_of_kernels_that_are_asked_for_everywhere_every_one_is_timed_at_every_size(
    model, monkeypatch
):
    monkeypatch.setattr(cross.cover, "FEW", 1)
    monkeypatch.setitem(SECONDS, 4096, (19.0, 11.0, 10.0, 10.2, 12.0))
    rows = [row(SMALL, A=1.0, D=0.99, B=0.5), row(LARGE, C=1.0, B=0.9)]
    assert cross.wanted(rows, PROBLEM, WHERE) == [[], schedules(3)]
    # C alone is left out, at the small size: more than twice the best's time is expected of it there.
    small, large = cross.wanted(rows, PROBLEM, WHERE, everywhere=4)
    assert small == [] and set(large) == {*schedules(0), *schedules(3)}


def test_without_a_model_what_is_asked_for_everywhere_is_timed_everywhere(monkeypatch):
    monkeypatch.setattr(choose, "model_of", lambda *_: None)
    monkeypatch.setattr(cross.cover, "FEW", 1)
    rows = [row(SMALL, A=1.0, B=0.99), row(LARGE, C=1.0, B=0.99)]
    assert cross.wanted(rows, PROBLEM, WHERE) == [[], []]
    assert cross.wanted(rows, PROBLEM, WHERE, everywhere=3) == [schedules(2), schedules(0)]


def test_what_does_not_take_the_arrays_of_a_row_is_not_timed_there(model, monkeypatch):
    monkeypatch.setitem(SECONDS, 255, SECONDS[256])
    rows = [row(ODD, A=1.0), row(LARGE, C=1.0, D=0.99)]
    assert not choose.takes(SPECS[3].schedule, PROBLEM, WHERE, ODD)
    assert cross.wanted(rows, PROBLEM, WHERE, new=True)[0] == []


def test_of_the_few_that_seem_to_lose_a_little_too_much_the_best_is_timed_again(monkeypatch):
    monkeypatch.setattr(cross.cover, "FEW", 1)
    rows = [row(SMALL, A=1.0, B=0.4), row(LARGE, A=1.0, B=0.4, C=0.9), row(ODD, A=0.99, B=1.0)]
    assert cross.doubtful(rows, PROBLEM, WHERE) == [[], [], []]
    rows[2] = row(ODD, A=0.94, B=1.0)
    assert cross.doubtful(rows, PROBLEM, WHERE) == [[], [], schedules(0)]
    # What it loses for certain, or has not been timed at all, is no matter of noise.
    rows[2] = row(ODD, A=0.8, B=1.0)
    assert cross.doubtful(rows, PROBLEM, WHERE) == [[], [], []]
    assert cross.doubtful([row(SMALL, A=1.0), row(LARGE, C=1.0)], PROBLEM, WHERE) == [[], []]
