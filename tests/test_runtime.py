"""Calling a built kernel on arrays: results, and one clear message for arrays that do not fit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilegen as tg
from tilegen.errors import ArgumentError
from tilegen.runtime import gpu
from tilegen.runtime.arguments import View
from tilegen.targets import target
from tilegen.values import BF16, F32


@pytest.fixture(scope="module")
def biased():
    return tg.emit(tg.Gemm(dtype=F32, epilogue="bias"), target="portable")


def draw(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_result_is_returned(biased):
    a, b, bias = draw(5, 7), draw(9, 7), draw(9)
    np.testing.assert_allclose(biased(a, b, bias), a @ b.T + bias, rtol=1e-5, atol=1e-5)


def test_result_goes_into_out(biased):
    a, b, bias = draw(5, 7), draw(9, 7), draw(9)
    out = np.empty((5, 9), np.float32)
    assert biased(a, b, bias, out=out) is out
    np.testing.assert_allclose(out, a @ b.T + bias, rtol=1e-5, atol=1e-5)


def test_strided_views_are_taken_as_they_are(biased):
    a, b, bias = draw(5, 40)[:, 3:10], draw(9, 33)[:, 1:8], draw(20)[2:11]
    out = np.full((5, 30), 7, np.float32)
    biased(a, b, bias, out=out[:, 4:13])
    np.testing.assert_allclose(out[:, 4:13], a @ b.T + bias, rtol=1e-5, atol=1e-5)
    assert (out[:, :4] == 7).all() and (out[:, 13:] == 7).all()


def test_bf16_arrays():
    kernel = tg.emit(tg.Gemm(dtype=BF16), target="portable")
    a, b = draw(6, 16).astype(ml_dtypes.bfloat16), draw(8, 16).astype(ml_dtypes.bfloat16)
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    got = kernel(a, b).astype(np.float32)
    np.testing.assert_allclose(got, exact, rtol=2**-7, atol=2**-7)


def test_several_outputs_and_scalars():
    problem = tg.Gemm(dtype=F32, epilogue="h = alpha * acc; pre[m,n] = h; c[m,n] = relu(h)")
    kernel = tg.emit(problem, target="portable")
    a, b = draw(5, 7), draw(9, 7)
    pre, c = kernel(a, b, alpha=2.0)
    np.testing.assert_allclose(pre, 2 * (a @ b.T), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(c, np.maximum(pre, 0))


def test_B05_B07_beta_zero_overwrites_nan_and_alpha_zero_reads_neither():
    kernel = tg.emit(tg.Gemm(dtype=F32, epilogue="blas"), target="portable")
    nan_a, nan_b = np.full((5, 7), np.nan, np.float32), np.full((9, 7), np.nan, np.float32)
    a, b = draw(5, 7), draw(9, 7)
    for poison in (np.nan, np.inf):
        c = np.full((5, 9), poison, np.float32)
        kernel(a, b, c=c, alpha=1.0, beta=0.0)
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-5, atol=1e-5)
    c = np.full((5, 9), np.nan, np.float32)
    kernel(nan_a, nan_b, c=c, alpha=0.0, beta=0.0)
    assert (c == 0).all()
    before = draw(5, 9)
    c = before.copy()
    kernel(nan_a, nan_b, c=c, alpha=0.0, beta=1.0)
    np.testing.assert_array_equal(c, before)


def test_broadcast_batch():
    kernel = tg.emit(tg.Gemm(dtype=F32, batched=True), target="portable")
    a, b = draw(3, 5, 7), draw(9, 7)
    out = kernel(a, np.broadcast_to(b, (3, 9, 7)))
    np.testing.assert_allclose(out, a @ b.T, rtol=1e-5, atol=1e-5)


BAD = [
    (lambda a, b, v: (a, b, v[:4]), {}, "n is 9 in b and 4 in bias"),
    (lambda a, b, v: (a, b[:, :3], v), {}, "k is 7 in a and 3 in b"),
    (lambda a, b, v: (a.astype(np.float64), b, v), {}, "a has dtype float64, the kernel takes f32"),
    (lambda a, b, v: (a[0], b, v), {}, "a has 1 dimensions (7,), the kernel takes [m,k]"),
    (lambda a, b, v: (a[::-1], b, v), {}, "a has a stride of -28 bytes along m"),
    (lambda a, b, v: (np.asfortranarray(a), b, v), {}, "a is not contiguous along k"),
    (lambda a, b, v: (a.tolist(), b, v), {}, "a is a list"),
    (lambda a, b, v: (a, b), {}, "bias is missing"),
    (lambda a, b, v: (a, b, v, v), {}, "4 arrays given, the kernel takes 3"),
    (lambda a, b, v: (a, b, v), {"alpha": 1.0}, "alpha"),
    (lambda a, b, v: (a, b, v), {"out": np.empty((4, 9), np.float32)}, "m is 5 in a and 4 in c"),
]


@pytest.mark.parametrize("arrays, named, message", BAD, ids=[m for _, _, m in BAD])
def test_arrays_that_do_not_fit(biased, arrays, named, message):
    with pytest.raises(ArgumentError) as error:
        biased(*arrays(draw(5, 7), draw(9, 7), draw(9)), **named)
    assert message in str(error.value)


def test_J17_output_that_overlaps_an_input_is_refused(biased):
    space = draw(400)
    a, b, bias = space[:35].reshape(5, 7), draw(9, 7), draw(9)
    for start in (0, 10, 34):
        with pytest.raises(ArgumentError, match="c overlaps a in memory"):
            biased(a, b, bias, out=space[start : start + 45].reshape(5, 9))
    biased(a, b, bias, out=space[35:80].reshape(5, 9))


def test_parts_of_an_array_that_lie_between_each_other_share_nothing():
    rows = np.empty((6, 5, 8), np.float32)
    left, right = (View.of(x, "x") for x in (rows[..., :4], rows[..., 4:]))
    assert not left.shares(right)
    assert View.of(rows[..., :5], "x").shares(right)
    assert not View.of(rows[0::2], "x").shares(View.of(rows[1::2], "x"))
    assert View.of(rows[0::2], "x").shares(View.of(rows[2:3], "x"))
    assert not View.of(rows[:, :0], "x").shares(left)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1)])
def test_D11_empty_arrays(biased, shape):
    m, n, k = shape
    a, b, bias = draw(m, k), draw(n, k), draw(n)
    np.testing.assert_allclose(biased(a, b, bias), a @ b.T + bias, rtol=1e-5, atol=1e-5)


def test_formula_as_a_python_function():
    @tg.formula
    def swish(acc, bias):
        h = acc + bias[n]  # noqa: F821
        return h * sigmoid(h)  # noqa: F821

    kernel = tg.emit(tg.Gemm(dtype=F32, epilogue=swish.text), target="portable")
    a, b, bias = draw(5, 7), draw(9, 7), draw(9)
    h = a @ b.T + bias
    np.testing.assert_allclose(kernel(a, b, bias), h / (1 + np.exp(-h)), rtol=1e-4, atol=1e-5)


def test_m09_a_missing_image_names_both_architectures(monkeypatch):
    monkeypatch.setattr(gpu, "compute_capability", lambda: 90)
    error = gpu.launch_failure(209, target("sm_80"), {"m": 1})
    assert "built for sm_80" in error.message and "this GPU is sm_90" in error.message
    assert "--target" in error.hint


def test_d19_out_of_resources_names_registers():
    error = gpu.launch_failure(701, target("sm_90a"), {"m": 7})
    assert "registers" in error.message and "'m': 7" in error.message
    assert "shared memory" not in error.message.lower()
