"""Reports about norms, reductions and their numbers, as cases that any backend computes.

A case takes `run(formula, options, arrays, scalars)`, which computes into the arrays that are outputs. Rows that are
not here: F13 and F15 (threads that would be dropped) are refused by the schedule, in `test_numerics.py`; G01 to G07
are about functions, in `tests/formula/test_formula_reports.py`; G11 is about operands of a gemm, in
`tests/test_environment.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

Run = Callable[..., None]


def _layernorm(run: Run, x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    y, one = np.full_like(x, np.nan), np.ones(x.shape[1], x.dtype)
    arrays = {"x": x, "w": one, "b": np.zeros_like(one), "y": y}
    run("layernorm", {"dtype": "f32"}, arrays, {"eps": eps})
    return y


def f01_a_mean_far_from_zero(run: Run) -> None:
    x = (np.random.default_rng(0).standard_normal((5, 4)) + 2000).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    assert np.abs(_layernorm(run, x) - want).max() < 2e-3


def f03_consecutive_large_numbers(run: Run) -> None:
    x = np.stack([np.arange(k, k + 4, dtype=np.float32) for k in (40000, 80000)])
    want = [[-1.34164, -0.44721, 0.44721, 1.34164]] * 2
    np.testing.assert_allclose(_layernorm(run, x), want, atol=1e-4)


def f05_a_small_deviation_over_a_long_row(run: Run) -> None:
    x = (np.random.default_rng(1).standard_normal((2, 32768)) * 0.01 + 100).astype(np.float32)
    deviation = _layernorm(run, x, eps=0.0).std(1)
    assert (deviation > 0.99).all() and (deviation < 1.01).all()


def f07_eps_lies_inside_the_root(run: Run) -> None:
    x = np.full((1, 64), 1e-4, np.float32)
    y = np.full_like(x, np.nan)
    arrays = {"x": x, "w": np.ones(64, np.float32), "y": y}
    run("rmsnorm", {"dtype": "f32"}, arrays, {"eps": 1e-6})
    np.testing.assert_allclose(y, 0.0995037, rtol=1e-5)


def f09_eps_is_not_rounded_to_half(run: Run) -> None:
    x = np.full((1, 64), 1e-3, np.float16)
    y = np.full_like(x, np.nan)
    arrays = {"x": x, "w": np.ones(64, np.float16), "y": y}
    run("rmsnorm", {"dtype": "f16"}, arrays, {"eps": 1e-6})
    np.testing.assert_allclose(y.astype(np.float32), 0.7071, rtol=2e-3)


def f11_rows_of_a_slice(run: Run) -> None:
    whole = np.random.default_rng(5).standard_normal((6, 3600)).astype(ml_dtypes.bfloat16)
    x = whole[:, 1200:2400]
    y = np.zeros(x.shape, x.dtype)
    arrays = {"x": x, "w": np.ones(1200, x.dtype), "y": y}
    run("rmsnorm", {"dtype": "bf16"}, arrays, {"eps": 1e-6})
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=8e-3, atol=1e-6)


def f17_the_largest_of_negative_elements(run: Run) -> None:
    x = np.stack([-np.arange(1, 1025), np.full(1024, -np.inf)]).astype(np.float32)
    y = np.zeros(2, np.float32)
    run("max", {"dtype": "f32"}, {"x": x, "y": y}, {})
    assert y[0] == -1 and y[1] == -np.inf


def f19_a_mean_of_halves(run: Run) -> None:
    y = np.zeros(1, np.float16)
    run("mean", {"dtype": "f16"}, {"x": np.ones((1, 100000), np.float16), "y": y}, {})
    assert y[0] == 1


def g01_g03_clamps_keep_nan_and_the_sign_of_zero(run: Run) -> None:
    x = np.array([[np.nan, -0.0, 7.0, -7.0]], np.float32)
    relu, six = np.zeros_like(x), np.zeros_like(x)
    text = "a[m,n] = relu(x[m,n]); b[m,n] = clamp(x[m,n], 0, 6)"
    run(text, {"dtype": "f32"}, {"x": x, "a": relu, "b": six}, {})
    assert np.isnan(relu[0, 0]) and np.isnan(six[0, 0])
    assert np.signbit(relu[0, 1]) and list(relu[0, 2:]) == [7, 0] and list(six[0, 2:]) == [6, 0]


def g05_subnormals_stay(run: Run) -> None:
    x = np.array([[1e-40, -3e-42, -100.0]], np.float32)
    third, e = np.zeros_like(x), np.zeros_like(x)
    text = "a[m,n] = x[m,n] / 3; b[m,n] = exp(x[m,n])"
    run(text, {"dtype": "f32"}, {"x": x, "a": third, "b": e}, {})
    np.testing.assert_allclose(third, x.astype(np.float64) / 3, rtol=1e-6, atol=1.5e-45)
    np.testing.assert_allclose(e, np.exp(x.astype(np.float64)), rtol=1e-6, atol=3e-45)


def g09_stores_round_to_nearest_even(run: Run) -> None:
    x = np.array([[3.14, 1.00390625, np.nan, 3.4028235e38]], np.float32)
    y = np.zeros(x.shape, ml_dtypes.bfloat16)
    run("y[m,n] = x[m,n]", {"dtype": "f32", "operands": "y:bf16"}, {"x": x, "y": y}, {})
    got = y.astype(np.float32)[0]
    assert got[0] == 3.140625 and got[1] == 1.0 and np.isnan(got[2]) and np.isinf(got[3])


def d11_d13_nothing(run: Run) -> None:
    for shape in ((0, 5), (4, 0), (0, 0)):
        x = np.zeros(shape, np.float32)
        run("softmax", {"dtype": "f32"}, {"x": x, "y": np.zeros_like(x)}, {})
    y = np.full(4, 700, np.float32)
    run("max", {"dtype": "f32"}, {"x": np.zeros((4, 0), np.float32), "y": y}, {})
    assert (y == -np.inf).all()
    y = np.full((), 700, np.float32)
    run("y = sum(x[n], n)", {"dtype": "f32"}, {"x": np.zeros(0, np.float32), "y": y}, {})
    assert y == 0


def h17_h19_transposes_with_ends(run: Run) -> None:
    for shape in ((1, 1), (1, 4097), (33, 31), (462, 1024)):
        x = (np.arange(shape[0] * shape[1]) % 2039).reshape(shape).astype(np.float16)
        y = np.full(shape[::-1], np.nan, np.float16)
        run("transpose", {"dtype": "f16"}, {"x": x, "y": y}, {})
        assert np.array_equal(y, x.T)


def i05_more_threads_than_rows(run: Run) -> None:
    x = np.random.default_rng(2).standard_normal((1, 40000)).astype(np.float32)
    y = np.full_like(x, np.nan)
    run("softmax", {"dtype": "f32"}, {"x": x, "y": y}, {})
    e = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(y, e / e.sum(), rtol=1e-5)


REPORTS = {
    name: case
    for name, case in list(globals().items())
    if name[:1] in "dfghi" and name[1:3].isdigit()
}
