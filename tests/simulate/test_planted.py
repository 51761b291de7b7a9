"""Planted bugs are seen, and the right kernels are silent in every order."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from planted_corpus import CORPUS, Corpus
from tilegen.simulate import Finding, Options, run_ptx
from tilegen.simulate.host import Host, perform
from tilegen.simulate.launch import Memory
from tilegen.simulate.mutate import Case

BUGS = [(corpus, i + 1, bug) for corpus in CORPUS for i, bug in enumerate(corpus.bugs)]
host = functools.lru_cache(maxsize=None)(Corpus.host)
MAX_STEPS = 200_000


def run(machine: Host, case: Case, options: Options) -> tuple[list[Finding], Memory]:
    memory = case.memory()
    outcomes = perform(
        case.steps, memory, lambda launch: run_ptx(machine.build.ptx, launch, memory, options)
    )
    return [finding for outcome in outcomes for finding in outcome.findings], memory


def silent_and_right(corpus: Corpus, options: Options) -> None:
    machine = host(corpus)
    findings, memory = run(machine, corpus.case(machine, 0), options)
    assert not findings, findings[0].message
    for name, want in corpus.expect().items():
        np.testing.assert_array_equal(memory[name].view(want.dtype, want.shape), want)


@pytest.mark.parametrize("corpus", CORPUS, ids=lambda c: c.source)
@pytest.mark.parametrize("order", ["deterministic", "lazy"])
def test_right_kernels_are_silent(corpus, order):
    silent_and_right(corpus, Options(order, max_steps=MAX_STEPS))


@pytest.mark.parametrize("corpus", CORPUS, ids=lambda c: c.source)
def test_right_kernels_are_silent_under_fifty_seeds(corpus):
    for seed in range(50):
        silent_and_right(
            corpus, Options("random", seed, adversarial_elect=True, max_steps=MAX_STEPS)
        )


@pytest.mark.parametrize(
    ("corpus", "number", "bug"), BUGS, ids=[f"{c.source}-{b}" for c, _, b in BUGS]
)
def test_planted_bug_is_seen(corpus, number, bug):
    machine = host(corpus)
    findings, _ = run(machine, corpus.case(machine, number), Options(max_steps=MAX_STEPS))
    kinds = {finding.kind for finding in findings}
    assert kinds & corpus.bugs[bug], f"saw {kinds or 'nothing'}, expected {corpus.bugs[bug]}"
