"""Products of scaled blocks: what is refused, what they mean, and partial blocks at every edge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_simulated import missing
from tilegen.emit.render import render
from tilegen.errors import ArgumentError, FormulaError, IllegalSchedule, UsageError
from tilegen.plans import make_plan
from tilegen.problems.base import blocks, extent
from tilegen.problems.scaled_gemm import ScaledGemm
from tilegen.runtime.arguments import View, infer_sizes
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.values import BF16, E5M2
from tilegen.verify.simulated import simulate_case


def spec(**options: str) -> KernelSpec:
    return KernelSpec.make("scaled_gemm", "sm_90a", options)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"tile": "128x256x128"}, "256 must divide B's blocks, one scale for 128 columns"),
        ({"tile": "128x96x128"}, "96 must divide"),
        ({"tile": "128x128x64"}, "128 bytes deep, 128 elements of e4m3, not 64"),
        ({"tile": "128x128x128", "stages": "8"}, "279552 bytes.*232448"),
    ],
    ids=str,
)
def test_refusals_have_numbers(options, words):
    with pytest.raises(IllegalSchedule, match=f"(?s){words}"):
        spec(**options)


def test_a_problem_refuses_other_types_and_taken_names():
    with pytest.raises(UsageError, match="blocks of bf16 have no scales"):
        ScaledGemm(BF16)
    with pytest.raises(FormulaError, match="'a_scale' names an argument"):
        ScaledGemm(E5M2, epilogue="acc * a_scale[m]")


def test_a_dimension_of_blocks_counts_the_last_one():
    assert [extent(blocks("k", 128), {"k": k}) for k in (0, 1, 128, 129)] == [0, 1, 1, 2]


def test_scales_of_another_shape_are_refused():
    plan = make_plan(spec())
    arrays = plan.problem.draw({"m": 3, "n": 130, "k": 300}, np.random.default_rng(0))
    arrays |= {"c": np.zeros((3, 130), BF16.numpy), "b_scale": np.zeros((1, 3), np.float32)}
    with pytest.raises(ArgumentError, match=r"b_scale has shape \(1, 3\).*here \(2, 3\)"):
        infer_sizes(plan, {name: View.of(array, name) for name, array in arrays.items()})


def test_reference_scales_every_block():
    problem = ScaledGemm()
    sizes = {"m": 3, "n": 130, "k": 300}
    arrays = problem.draw(sizes, np.random.default_rng(0))
    assert arrays["a_scale"].shape == (3, 3) and arrays["b_scale"].shape == (2, 3)
    a, b, of_a, of_b = (arrays[x].astype(float) for x in ("a", "b", "a_scale", "b_scale"))
    wanted = np.zeros((3, 130))
    for j in range(130):
        for step in range(3):
            part = slice(step * 128, step * 128 + 128)
            scale = of_a[:, step] * of_b[j // 128, step]
            wanted[:, j] += a[:, part] @ b[j, part] * scale
    np.testing.assert_allclose(problem.reference(sizes, arrays, {})["c"].value, wanted)


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_partial_blocks_at_every_edge():
    formula = "relu(acc + bias[n])"
    kernel = render(spec(tile="128x64x128", stages="2", epilogue=formula, operands="bias:f32"))
    for sizes in ({"m": 70, "n": 136, "k": 400}, {"m": 129, "n": 8, "k": 0}):
        found = simulate_case(kernel, sizes, Options(order="random"), multiprocessors=4)
        assert found.ok, found.text()
