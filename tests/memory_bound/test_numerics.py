"""Rules of numerics, on C kernels: means far from zero, NaN and infinities, thread counts, odd places."""

import functools
import math
import re

import ml_dtypes
import numpy as np
import pytest

from tilegen import formula as fl
from tilegen.emit.accuracy import accuracy
from tilegen.emit.render import render
from tilegen.errors import ArgumentError, IllegalSchedule
from tilegen.problems.formula import FormulaProblem
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.verify.oracle import Case, verify


@functools.cache
def kernel(formula, **options):
    rendered = render(KernelSpec.make(formula, "portable", options))
    return cpu.load(rendered.plan, build.library(rendered), rendered.symbol)


def rows(name, x, scalars=None, threads=0, **arrays):
    kinds = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16"}
    dtype = kinds.get(x.dtype, "bf16")
    out = np.full_like(x, np.nan)
    kernel(name, dtype=dtype).run({"x": x, "y": out, **arrays}, scalars or {}, threads)
    return out


def layernorm(x, eps=1e-5):
    one = np.ones(x.shape[1], x.dtype)
    return rows("layernorm", x, {"eps": eps}, w=one, b=np.zeros_like(one))


@pytest.mark.parametrize("columns", [1, 5, 1024, 9000])
def test_F17_maximum_of_negative_rows_and_of_nothing_but_minus_infinity(columns):
    x = np.stack([-np.arange(1, columns + 1), np.full(columns, -np.inf)]).astype(np.float32)
    out = np.zeros(2, np.float32)
    kernel("max").run({"x": x, "y": out}, {})
    assert out[0] == -1 and out[1] == -np.inf


@pytest.mark.parametrize("at", [0, 3, 1023, 1024, 2046])
def test_nan_reaches_maximum_minimum_and_argmax(at):
    x = np.random.default_rng(2).standard_normal((3, 2047)).astype(np.float32)
    x[1, at] = np.nan
    for name in ("max", "min"):
        out = np.zeros(3, np.float32)
        kernel(name).run({"x": x, "y": out}, {})
        assert np.array_equal(np.isnan(out), [False, True, False])
    place = np.zeros(3, np.int64)
    kernel("argmax").run({"x": x, "y": place}, {})
    assert np.array_equal(place, np.argmax(x, 1))


def test_softmax_of_extreme_rows_is_what_numpy_gives():
    x = np.zeros((6, 37), np.float32)
    x[0] = np.linspace(-104.5, 0, 37)  # down to results that are subnormal, and nothing
    x[1, :30] = -np.inf
    x[2] = -np.inf
    x[3, 7] = np.inf
    x[4, 7] = np.uint32(0xFFC00001).view(np.float32)  # a NaN with its sign set
    x[5, 7] = 3e38
    with np.errstate(all="ignore"):
        e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
        want = (e / e.sum(1, keepdims=True)).astype(np.float32)
    got = rows("softmax", x)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=3e-45)
    text = next(iter(render(KernelSpec.make("softmax", "portable", {})).files.values()))
    other = next(iter(render(KernelSpec.make("logsumexp", "portable", {})).files.values()))
    assert "exp_negative_f32(x_mn - row_max)" in text and "exp_negative" not in other


def test_argmax_takes_the_first_of_equal_elements_and_refuses_nothing():
    x = np.zeros((2, 1500), np.float32)
    x[0, [700, 1400]] = 1
    place = np.zeros(2, np.int64)
    kernel("argmax").run({"x": x, "y": place}, {})
    assert list(place) == [700, 0]
    with pytest.raises(ArgumentError):
        kernel("argmax").run({"x": np.zeros((2, 0), np.float32), "y": place}, {})


@pytest.mark.parametrize(
    "name, shape",
    [
        ("softmax", (67, 1025)),
        ("softmax", (3, 20000)),
        ("layernorm", (67, 1025)),
        ("rmsnorm", (5, 70)),
    ],
)
def test_results_are_the_same_bits_for_any_number_of_threads(name, shape):
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    more = {"layernorm": "wb", "rmsnorm": "w"}.get(name, "")
    arrays = {n: np.ones(shape[1], np.float32) for n in more}
    eps = {} if name == "softmax" else {"eps": 1e-5}
    first = rows(name, x, eps, 1, **arrays)
    for threads in (2, 3, 8):
        assert np.array_equal(first, rows(name, x, eps, threads, **arrays))


LONG = "e = exp(x[m,n] - max(x[m,n], n)); s[m] = sum(e, n); y[m,n] = e / s; z[m] = 2 * t[m]"


@pytest.mark.parametrize("rows_, columns", [(1, 4097), (2, 130), (3, 70001), (9, 6143)])
def test_parts_of_long_rows_are_the_same_bits_for_any_number_of_threads(rows_, columns):
    """Fewer rows than threads and more, parts of nothing, and parts of whole blocks and what is left."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows_, columns)).astype(np.float32)
    x[0, -1] = 9.0
    t = rng.standard_normal(rows_).astype(np.float32)
    found = []
    for threads in (1, 2, 4, 7):
        y, s, z = np.full_like(x, np.nan), np.full_like(t, np.nan), np.full_like(t, np.nan)
        arrays = {"x": x, "t": t, "y": y, "s": s, "z": z}
        kernel(LONG, row_buffer=100).run(arrays, {}, threads)
        found.append(y.tobytes() + s.tobytes())
    assert len(set(found)) == 1
    e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(s, e.sum(1), rtol=1e-5)
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
    assert np.array_equal(z, 2 * t)


def test_a_long_row_has_the_nan_and_the_place_of_its_largest_element():
    x = np.zeros((2, 200_003), np.float32)
    x[0, 150_001] = x[0, 190_000] = 3.0
    x[1, 199_999] = np.nan
    top, place = np.zeros(2, np.float32), np.zeros(2, np.int64)
    kernel("max").run({"x": x, "y": top}, {}, 5)
    kernel("argmax").run({"x": x, "y": place}, {}, 5)
    assert top[0] == 3 and np.isnan(top[1]) and list(place) == [150_001, 199_999]


@pytest.mark.parametrize("name", ["total", "sum_squares"])
def test_a_full_reduction_is_the_same_bits_for_any_number_of_threads(name):
    x = np.random.default_rng(4).standard_normal((300, 1001)).astype(np.float32)
    found = []
    for threads in (1, 2, 3, 8):
        out = np.zeros((), np.float32)
        kernel(name).run({"x": x, "y": out}, {}, threads)
        found.append(out.tobytes())
    assert len(set(found)) == 1


def test_results_that_go_past_the_caches_are_right_at_any_alignment():
    memory = np.zeros(3 * 2500 + 64, np.float32)
    streaming = {"stream_bytes": 0, "serial": 0}
    for shift, rows, threads in ((0, 3, 1), (1, 3, 2), (7, 1497, 3), (13, 499, 2)):
        x = np.random.default_rng(6).standard_normal((rows, 7485 // rows)).astype(np.float32)
        e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
        memory[:] = 700
        y = memory[shift : shift + x.size].reshape(x.shape)
        kernel("relu", **streaming).run({"x": x, "y": y}, {}, threads)
        assert np.array_equal(y, np.maximum(x, 0))
        y[:] = 700
        kernel("softmax", **streaming).run({"x": x, "y": y}, {}, threads)
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
        assert (memory[:shift] == 700).all() and (memory[shift + x.size :] == 700).all()


def test_D07_more_rows_than_a_short_counts():
    x = np.random.default_rng(5).standard_normal((70001, 64)).astype(np.float32)
    wide = x[-3:].astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    assert np.abs(layernorm(x)[-3:] - want).max() < 1e-5


@pytest.mark.parametrize("shape", [(70003, 3), (3, 70003)])
def test_D09_long_thin_transposes(shape):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    y = np.full(shape[::-1], np.nan, np.float32)
    kernel("transpose", dtype="f32").run({"x": x, "y": y}, {}, 0)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("options", [{"threads": "48"}, {"longest": "96"}, {"longest": "160"}])
def test_F13_F15_threads_that_a_reduction_would_drop_are_refused(options):
    with pytest.raises(IllegalSchedule, match=next(iter(options.values()))):
        KernelSpec.make("layernorm", "sm_80", {"dtype": "f32", **options})


def test_the_maximum_of_nothing_is_nan_where_a_type_has_no_infinity():
    rendered = render(KernelSpec.make("max", "portable", {"dtype": "e4m3"}))
    loaded = cpu.load(rendered.plan, build.library(rendered), rendered.symbol)
    verdict = verify(rendered.plan, loaded.run, cases=[Case({"m": 3, "n": 0}, 0, 0, 1)])
    assert verdict.ok and verdict.cases == 1, verdict.failures


def test_a_row_whose_elements_are_all_masked():
    """NaN of a softmax, as of NumPy's; zeros of a masked softmax. The rows beside it are as ever."""
    x = np.random.default_rng(4).standard_normal((3, 70)).astype(np.float32)
    mask = np.ones(x.shape, np.uint8)
    mask[1], mask[2, 9:] = 0, 0
    y = rows("masked_softmax", x, k=mask)
    assert np.all(y[1] == 0) and np.all(y[2, 9:] == 0)
    np.testing.assert_allclose(y[2, :9], rows("softmax", x[2:, :9].copy())[0], rtol=1e-6)
    y = rows("softmax", np.where(mask, x, -np.inf).astype(np.float32))
    assert np.isnan(y[1]).all() and y[0].sum() == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 7, 30, 5000])
def test_the_header_states_the_bounds_of_verification(count):
    def bound(text, **arrays):
        typed = FormulaProblem(formula=text).typed
        return fl.error_bound(typed, arrays, {})["y"].max() / 2.0**-23, accuracy(typed)

    ulps, words = bound("y[m] = sum(x[m,n], n)", x=np.ones((1, count)))
    stated = re.search(r"sum over n within (min\(.*\)\)) ulp of the sum of magnitudes", words)[1]
    stated = stated.replace(" sqrt", " * sqrt")
    assert ulps == pytest.approx(count * eval(stated, {"n": count, "sqrt": math.sqrt, "min": min}))
    ulps, words = bound("y[n] = exp(x[n])", x=np.zeros(count))
    assert f"exp within {ulps:g} ulp" in words
    ulps, words = bound("y[n] = x[n] * x[n]", x=np.ones(count))
    assert f"* within {ulps:g} ulp" in words


def test_headers_say_what_stores_round_and_what_nothing_does():
    made = render(KernelSpec.make("add_rmsnorm", "sm_80", {"dtype": "bf16"}))
    header = next(" ".join(t.split()) for name, t in made.files.items() if name.endswith(".h"))
    assert "then h and y are rounded to bf16, to nearest even" in header.replace(" * ", " ")
    for text, dtype, words in (
        ("transpose", "bf16", "exact."),
        ("y[m,n] = x[m,n] // 3", "i32", "exact."),
        ("y[m,n] = f64(x[m,n])", "f32", "exact."),
    ):
        assert accuracy(FormulaProblem(formula=text, dtype=dtype).typed) == f"Accuracy: {words}"
    kept = FormulaProblem(formula="y[n,m] = x[m,n]", operands="x:f32,y:f16").typed
    assert accuracy(kept) == "Accuracy: exact, but that y is rounded to f16, to nearest even."


def test_float64_is_bounded_around_a_meaning_that_is_rounded_itself():
    """One rounding of a * b + c, by a fused multiply-add, and two of the float64 meaning."""
    x = np.random.default_rng(3).standard_normal((3, 20000))
    typed = FormulaProblem(formula="y[n] = a[n] * b[n] + c[n]", dtype="f64").typed
    arrays = dict(zip("abc", x))
    ((value, bound),) = fl.evaluate_with_bound(typed, arrays=arrays, scalars={}).values()
    a, b, c = x.astype(np.longdouble)
    fused = (a * b + c).astype(np.float64)
    assert np.all(np.abs(fused - value) <= bound) and np.any(fused != value)


@pytest.mark.parametrize("part", [0.1, 0.5])
def test_dropout_drops_neighbours_rows_and_seeds_independently(part):
    typed = FormulaProblem(formula="dropout").typed

    def dropped(seed):
        scalars = {"seed": seed, "cut": int(part * 2147483647), "scale": 1.0}
        env = {"x": np.ones((96, 2048)), **scalars}
        return (fl.evaluate(typed, env)["y"] == 0) - part

    first, second = dropped(0), dropped(1)
    pairs = [
        (first[:, 1:], first[:, :-1]),
        (first[:, 2:], first[:, :-2]),
        (first[1:], first[:-1]),
        (first, second),
        (first[:, 1:], second[:, :-1]),
        (first[:, 2:] * first[:, 1:-1] / (part * (1 - part)) ** 0.5, first[:, :-2]),
    ]
    spread = part * (1 - part)
    assert abs(first.mean()) < 5 * (spread / first.size) ** 0.5
    for a, b in pairs:
        assert abs((a * b).mean()) < 5 * spread / a.size**0.5


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    "text",
    [
        "masked_softmax",
        "s = where(k[m,n] != 0, 0.3 * x[m,n], -inf) * 1.44; e = exp2(s - max(s, n)); "
        "y[m,n] = gelu(e / sum(e, n))",
        "s = where(k[m,n] != 0, x[m,n] * alpha, -inf); y[m,n] = exp(s - logsumexp(s, n))",
    ],
)
def test_minus_infinity_leaves_the_bounds_of_the_others_finite(text, dtype):
    """Else every value would be within its bound."""
    problem = FormulaProblem(formula=text, dtype=dtype, operands="k:u8")
    x = np.random.default_rng(5).standard_normal((4, 60))
    mask = (np.arange(240).reshape(x.shape) % 3 > 0).astype(np.uint8)
    found = fl.evaluate_with_bound(problem.typed, arrays={"x": x, "k": mask}, scalars={"alpha": 2})
    value, bound = found["y"]
    assert np.isfinite(value).all() and (bound < 0.02 * value.max()).all()


def test_positions_and_products_are_bounded_where_they_are_sure():
    def bound(text, **arrays):
        typed = FormulaProblem(formula=text, dtype="f32").typed
        return fl.evaluate_with_bound(typed, arrays=arrays, scalars={})["y"][1].tolist()

    x = np.array([[1.0, 3.0, 2.0], [2.0, 2.0, 1.0], [1.0, np.nan, 5.0]])
    assert bound("y[m] = argmax(exp(x[m,n]), n)", x=x) == [0, 3, 3]
    assert bound("y[m] = argmin(exp(-x[m,n]), n)", x=x) == [0, 3, 3]
    assert bound("y[m] = argmax(x[m,n], n)", x=x) == [0, 0, 3]
    zero = np.array([[2.0, 0.0, 3.0], [2.0, 1.0, 3.0]])
    none, some = bound("y[m] = prod(x[m,n] + 0.1 * x[m,n], n)", x=zero)
    assert none < 1e-30 and 0 < some < 1e-4
