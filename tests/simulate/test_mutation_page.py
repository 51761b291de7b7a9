"""The page of mutants: one row a template, every survivor with its reason; and the checked-in page is complete."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tilegen.artifacts.kernel_list import read
from tilegen.emit.render import Rendered, render
from tilegen.simulate.mutants import Mutant
from tilegen.simulate.mutate import Score, Verdict
from tilegen.targets import CudaTarget
from tilegen.verify.mutation import representatives, score_kernel
from tilegen.verify.mutation_page import (
    Reviewed,
    Scored,
    document,
    read_reviewed,
    template_of,
    unreviewed,
)

ROOT = Path(__file__).resolve().parents[2]
KERNELS = read(ROOT / "tilegen.toml")


def kernels() -> list[Rendered]:
    return [render(spec, KERNELS.style) for spec in KERNELS.specs]


def first(template: str) -> Rendered:
    return next(k for k in kernels() if template_of(k) == template)


def verdict(how: str, change: str, source: str) -> Verdict:
    return Verdict(Mutant(3, "bar.sync 0", change, ""), how, 12, source)


def test_representatives_cover_every_template_once_a_choice_of_parts():
    chosen = representatives(kernels())
    keys = [(type(k.plan.schedule), k.plan.template, *k.plan.parts()) for k in chosen]
    assert {schedule for schedule, *_ in keys} == {
        type(k.plan.schedule) for k in kernels() if isinstance(k.spec.target, CudaTarget)
    }
    assert len(set(keys)) == len(keys)
    cuda = {k.plan.template for k in kernels() if isinstance(k.spec.target, CudaTarget)}
    assert {k.plan.template for k in chosen} == cuda


def test_document():
    kernel = first("gemm_mma.cu.j2")
    score = Score(
        kernel.stem,
        [
            verdict("race", "deleted", "__syncthreads();"),
            verdict("survived", "deleted", "copy_commit();  // Close.  <- multiply<2>(a);"),
            verdict("survived", "deleted", "copy_commit();  // Close.  <- multiply<4>(a);"),
            verdict("not executed", "deleted", "never();"),
        ],
    )
    entry = Reviewed("gemm_mma.cu.j2", "*", "copy_commit() ... <2>", "Plain stores need no group.")
    page = document([Scored(kernel, score)], [entry])
    assert "3 mutants executed, 1 found, 2 survived." in page
    assert "| template | kernels | executed | found | survived | race | not executed |" in page
    assert "| `gemm_mma.cu.j2` | 1 | 3 | 1 | 2 | 1 | 1 |" in page
    assert "multiply<2>(a);` deleted. Plain stores need no group." in page
    assert "multiply<4>(a);` deleted. **not reviewed**" in page
    assert [v.source[-14:] for v in unreviewed(kernel, score, [entry])] == ["multiply<4>(a);"[-14:]]
    elsewhere = dataclasses.replace(entry, kernels="other_*")
    assert len(unreviewed(kernel, score, [elsewhere])) == 2


def test_a_small_kernel_has_no_survivor():
    score = score_kernel(first("full.cu.j2"), seeds=1)
    assert score.executed and not score.survivors


def test_the_checked_in_page_has_every_reason():
    reviewed = read_reviewed(ROOT / "tests" / "simulate" / "survivors.txt")
    assert all(len(entry.reason) > 30 for entry in reviewed)
    page = (ROOT / "docs" / "mutants.md").read_text()
    assert "**not reviewed**" not in page
    for entry in reviewed:
        assert entry.reason in page, f"no survivor needs the entry {entry.source}"


@pytest.mark.slow
@pytest.mark.parametrize("kernel", representatives(kernels()), ids=lambda k: k.stem)
def test_every_survivor_is_reviewed(kernel):
    reviewed = read_reviewed(ROOT / "tests" / "simulate" / "survivors.txt")
    left = unreviewed(kernel, score_kernel(kernel, seeds=1), reviewed)
    assert not left, "\n".join(f"{v.mutant.change}: {v.source}" for v in left)
