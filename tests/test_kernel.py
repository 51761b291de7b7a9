"""The Python API: kernels from words and from dataclasses, simulated calls, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen as tg
from tests.test_simulated import missing
from tilegen.errors import ArgumentError, UsageError

needs_simulator = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


def draw(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_words_and_dataclasses_make_the_same_kernel():
    words = tg.emit("gemm", target="sm_80", dtype="f32", epilogue="bias", tile="64x64x16")
    objects = tg.emit(
        tg.Gemm(dtype="f32", epilogue="bias"), tg.SimtGemm(tile=(64, 64, 16)), "sm_80"
    )
    assert words.source == objects.source


def test_a_formula_in_words_computes():
    kernel = tg.emit("y[m] = sum(x[m,n] * w[n], n)", target="portable")
    x, w = draw(5, 33), draw(33)
    np.testing.assert_allclose(kernel(x, w), x @ w, rtol=1e-5, atol=1e-5)


@needs_simulator
def test_a_simulated_call_gives_the_result_and_what_was_found():
    kernel = tg.emit("gemm", target="sm_80", dtype="f32", tile="64x64x16")
    a, b = draw(70, 19), draw(66, 19)
    run = tg.simulate(kernel, a, b)
    assert run.ok and len(run.outcomes) == 1
    np.testing.assert_allclose(run.result, a @ b.T, rtol=1e-5, atol=1e-5)
    assert "no findings" in str(run)


def test_options_beside_a_problem_are_refused():
    with pytest.raises(UsageError, match="tile given beside a Gemm"):
        tg.emit(tg.Gemm(), tile="64x64x32")


def test_a_c_kernel_is_not_simulated():
    kernel = tg.emit("softmax", target="portable")
    with pytest.raises(UsageError, match="no CUDA kernel"):
        tg.simulate(kernel, draw(2, 3))


def test_device_arrays_are_not_simulated():
    class OnDevice:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (0, False)}

    with pytest.raises(ArgumentError, match="device array"):
        tg.simulate(tg.emit("softmax", target="sm_80"), OnDevice())


def test_public_names_exist():
    for name in tg.__all__:
        assert getattr(tg, name) is not None
