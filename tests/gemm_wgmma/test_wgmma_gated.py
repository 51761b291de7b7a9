"""Gated products: what is refused, and both sums of a result in one formula."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_simulated import missing
from tilegen.emit.render import render
from tilegen.errors import FormulaError, IllegalSchedule
from tilegen.problems.gated_gemm import GatedGemm
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.values import BF16
from tilegen.verify.simulated import simulate_case


def spec(**options: str) -> KernelSpec:
    return KernelSpec.make("gated_gemm", "sm_90a", {"dtype": "bf16", **options})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"tile": "128x256x64"}, "512 must be a multiple of 16, from 16 to 256"),
        ({"tile": "128x24x64"}, "24 must be a multiple of 16"),
        ({"out_dtype": "f32"}, "one result of f16 or bf16"),
        ({"tile": "128x128x64", "stages": "5"}, "263168.*232448"),
        ({"tile": "128x64x64", "cluster": "2", "layout": "tt"}, "2 blocks cannot share 64 .* 64"),
    ],
    ids=str,
)
def test_refusals_have_numbers(options, words):
    with pytest.raises(IllegalSchedule, match=f"(?s){words}"):
        spec(**options)


def test_a_formula_names_both_sums():
    with pytest.raises(FormulaError, match="does not mention gate"):
        GatedGemm(BF16, epilogue="acc")
    with pytest.raises(FormulaError, match="does not mention acc"):
        GatedGemm(BF16, epilogue="silu(gate)")


def test_reference_is_two_products():
    problem = GatedGemm(BF16)
    sizes = {"m": 5, "n": 4, "k": 6}
    arrays = problem.draw(sizes, np.random.default_rng(0))
    a, b, gate = (arrays[name].astype(float) for name in ("a", "b", "b_gate"))
    wanted = (a @ gate.T) / (1 + np.exp(-(a @ gate.T))) * (a @ b.T)
    np.testing.assert_allclose(problem.reference(sizes, arrays, {})["c"].value, wanted)


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
@pytest.mark.parametrize(
    "options, sizes",
    [
        ({"layout": "tt"}, [{"m": 70, "n": 136, "k": 200}]),
        (
            {"tile": "64x48x64", "cluster": "2", "pingpong": "true"},
            [{"m": 190, "n": 72, "k": 136}, {"m": 65, "n": 8, "k": 0}],
        ),
    ],
    ids=str,
)
def test_operands_of_every_kind_beside_both_sums(options, sizes):
    formula = "gelu(gate + bias[n]) * acc * scale[m] + alpha * residual[m,n]"
    kernel = render(spec(**{"tile": "64x64x64", "cluster": "1", "epilogue": formula, **options}))
    for case in sizes:
        found = simulate_case(kernel, case, Options(order="random"), multiprocessors=4)
        assert found.ok, found.text()
