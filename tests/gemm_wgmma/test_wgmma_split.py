"""Splitting K through a workspace: dirty workspaces, scalars applied once, sums of many parts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_simulated import missing
from tilegen.emit.render import Rendered, render
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Options, run_ptx
from tilegen.simulate.host import perform
from tilegen.spec import KernelSpec
from tilegen.verify.oracle import Case, compare, prepare
from tilegen.verify.simulated import simulate_case

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


def kernel(**options: str) -> Rendered:
    options = {"dtype": "bf16", "schedule": "wgmma", "workspace": "true", **options}
    return render(KernelSpec.make("gemm", "sm_90a", options))


def launches(made: Rendered, sizes: dict[str, int], count: int) -> float:
    """Launch `count` times in one workspace, first full of NaN; the worst error of any launch, in bounds."""
    runner = SimulatedKernel(made, multiprocessors=4)
    arrays, scalars, expected = prepare(made.plan, Case(sizes, 0, 0, 0))
    call = runner.record({name: g.array for name, g in arrays.items()}, scalars)
    assert not call.recording.status and not call.recording.findings
    space = call.memory["workspace"].data
    space[...] = 0xFF
    result = call.memory["c"].data
    before, worst = result.copy(), 0.0
    for _ in range(count):
        result[...] = before
        outcomes = perform(
            call.recording.steps,
            call.memory,
            lambda launch: run_ptx(runner.ptx, launch, call.memory, runner.options),
        )
        assert not [f for o in outcomes for f in o.findings]
        rows = arrays["c"].array
        rows.view(np.uint8)[...] = result.reshape(rows.view(np.uint8).shape)
        worst = max(worst, compare(made.plan, arrays, expected)[0])
    return worst


@pytest.fixture(scope="module")
def split() -> Rendered:
    return kernel(tile="64x64x64", split="16", epilogue="blas", cluster="1", resident="2")


def test_C01_a_workspace_is_used_again_whatever_it_holds(split):
    assert launches(split, {"m": 96, "n": 104, "k": 1032}, 2) <= 1


def test_C03_scalars_apply_once_to_the_whole_sum(split):
    body = split.files[split.source]
    assert body.count("e.alpha *") == 1
    assert launches(split, {"m": 40, "n": 72, "k": 264}, 1) <= 1


def test_C05_long_sums_in_many_parts_and_parts_without_a_step(split):
    assert launches(split, {"m": 64, "n": 64, "k": 8192}, 1) <= 1
    assert launches(split, {"m": 7, "n": 8, "k": 136}, 1) <= 1
    text = split.files[split.source]
    assert "workspace[(at.part * shape.m + m) * shape.n + n]" in text, "m and n are 64-bit there"


def test_blocks_that_share_a_and_load_b_early_find_the_same_sums():
    """Pairs of which the last has no columns left, rows that end inside a slice, K longer than the ring."""
    options = {"tile": "64x64x64", "swap": "true", "cluster_n": "2", "stages": "3"}
    made = kernel(**options, workspace="false", constant_b="true")
    for sizes in ({"m": 70, "n": 136, "k": 520}, {"m": 9, "n": 64, "k": 72}):
        found = simulate_case(made, sizes, Options(), multiprocessors=4)
        assert found.ok, found.text()
