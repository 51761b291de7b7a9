"""Few rows: as many threads as possible share each, and read vectors with the row."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilegen.emit.render import render
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.verify.simulated import simulate_case


@pytest.fixture(scope="module")
def kernel():
    """One of the project's own, which other tests compile too."""
    made = render(KernelSpec.make("layernorm", "sm_80", {"dtype": "bf16"}))
    assert (made.plan.longest, made.plan.few_values) == (512, 8)
    return made


def test_which_kernel_takes_few_rows(kernel):
    simulated = SimulatedKernel(kernel)
    for m, n, used in (
        (3, 2056, "few"),
        (256, 4096, "few"),
        (257, 4096, "128_vector"),  # enough rows to fill a processor
        (3, 2048, "128_vector"),  # too short for so many threads
        (3, 4104, "256_vector"),  # longer than they hold
        (3, 4095, "128_cut"),  # rows with ends
    ):
        x, w = np.zeros((m, n), ml_dtypes.bfloat16), np.zeros(n, ml_dtypes.bfloat16)
        call = simulated.record({"x": x, "w": w, "b": w, "y": x}, {"eps": 1e-5})
        (step,) = call.recording.steps
        assert step.kernel == f"{kernel.symbol}_{used}"


def test_values_of_few_rows(kernel):
    found = simulate_case(kernel, {"m": 3, "n": 2056}, Options())
    assert found.ok, found.text()
