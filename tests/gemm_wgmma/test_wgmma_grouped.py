"""Products of groups of rows: what is refused, and groups of every size down to none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_simulated import missing
from tilegen.emit.render import render
from tilegen.errors import CallRefused, FormulaError, IllegalSchedule
from tilegen.problems.grouped_gemm import GroupedGemm
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.spec import KernelSpec
from tilegen.values import BF16
from tilegen.verify.oracle import Case, compare, prepare


def spec(**options: str) -> KernelSpec:
    return KernelSpec.make("grouped_gemm", "sm_90a", {"dtype": "bf16", **options})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"layout": "nn"}, "rows must be contiguous"),
        ({"tile": "128x256x64", "stages": "5"}, "263168.*232448"),
        ({"dtype": "e4m3", "layout": "tt"}, "16-bit operands only"),
    ],
    ids=str,
)
def test_refusals_have_numbers(options, words):
    with pytest.raises(IllegalSchedule, match=f"(?s){words}"):
        spec(**options)


def test_an_operand_must_not_take_the_name_of_an_argument():
    with pytest.raises(FormulaError, match="'ends' names an argument of the grouped gemm"):
        GroupedGemm(BF16, epilogue="acc + ends[n]")


def test_reference_is_one_product_a_group():
    problem = GroupedGemm(BF16)
    sizes = {"groups": 3, "m": 5, "n": 4, "k": 6}
    arrays = problem.draw(sizes, np.random.default_rng(0))
    arrays["ends"] = np.array([2, 2, 5], np.int32)
    a, b = arrays["a"].astype(float), arrays["b"].astype(float)
    wanted = np.concatenate([a[:2] @ b[0].T, a[2:] @ b[2].T])
    np.testing.assert_allclose(problem.reference(sizes, arrays, {})["c"].value, wanted)


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
@pytest.mark.parametrize(
    "epilogue", ["residual", "c[m,n] = acc + bias[n]; amax[m] = max(abs(c), n)"]
)
def test_groups_of_one_row_of_none_and_of_several_tiles(epilogue):
    kernel = render(spec(tile="64x64x64", epilogue=epilogue))
    runner = SimulatedKernel(kernel, multiprocessors=3)
    case = Case({"groups": 6, "m": 200, "n": 72, "k": 136}, 0, 0, 0)
    for ends in ([0, 1, 1, 66, 200, 200], [200] * 6, [0] * 5 + [200]):
        arrays, scalars, _ = prepare(kernel.plan, case)
        arrays["ends"].array[...] = ends
        inputs = {name: g.array.copy() for name, g in arrays.items() if name not in ("c", "amax")}
        runner.run({name: g.array for name, g in arrays.items()}, scalars)
        expected = kernel.plan.problem.reference(case.sizes, inputs, scalars)
        assert compare(kernel.plan, arrays, expected)[0] <= 1
    assert not runner.findings

    arrays, scalars, _ = prepare(kernel.plan, Case({"groups": 0, "m": 8, "n": 8, "k": 8}, 0, 0, 0))
    with pytest.raises(CallRefused) as refusal:
        runner.run({name: g.array for name, g in arrays.items()}, scalars)
    assert refusal.value.code == 6
