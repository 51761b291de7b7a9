"""Formats and rounding of the NumPy backend against NumPy's and ml_dtypes' own conversions, and against exact rationals."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tilegen.simulate.numpy_backend import rounding as r

TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("kind", ["f16", "bf16", "e4m3", "e5m2"])
def test_every_encoding_comes_back(kind):
    bits = r.FORMATS[kind].bits
    raw = np.arange(2**bits, dtype=r.uint(bits))
    value = r.decode(raw, kind)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(value, raw.view(TYPES[kind]).astype(np.float64))
    kept = ~np.isnan(value) & ~(np.isinf(value) & (kind == "e4m3"))
    np.testing.assert_array_equal(r.encode(value, kind)[kept], raw[kept])
    assert set(r.encode(value, kind)[np.isnan(value)].tolist()) == {r.FORMATS[kind].nan}


@pytest.mark.parametrize("kind", list(TYPES))
def test_nearest_is_the_library_conversion(kind):
    rng = np.random.default_rng(1)
    value = rng.standard_normal(20000) * 2.0 ** rng.integers(-30, 18, 20000)
    value = value.astype(np.float32).astype(np.float64)  # from float32, ml_dtypes rounds once
    if kind == "e4m3":
        value = np.clip(value, -448, 448)
    with np.errstate(over="ignore"):
        want = value.astype(np.float32).astype(TYPES[kind]).astype(np.float64)
    np.testing.assert_array_equal(r.round_to(value, kind), want)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_modes_bracket_the_value(mode):
    rng = np.random.default_rng(2)
    value = rng.standard_normal(5000) * 2.0 ** rng.integers(-150, 120, 5000)
    got = r.round_to(value, "f32", mode)
    np.testing.assert_array_equal(got, got.astype(np.float32).astype(np.float64))
    # No float32 lies between the value and its rounding.
    toward = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}[mode]
    side = {"rz": np.abs(got) <= np.abs(value), "rm": got <= value, "rp": got >= value}[mode]
    assert side.all()
    away = np.where(got < 0, -np.inf, np.inf) if mode == "rz" else np.full(5000, -toward)
    with np.errstate(over="ignore"):
        beyond = np.nextafter(got.astype(np.float32), away.astype(np.float32)).astype(np.float64)
    past = {"rz": np.abs(beyond) > np.abs(value), "rm": beyond > value, "rp": beyond < value}[mode]
    assert past[got != 0].all()


def test_float32_fma_rounds_once():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 3000)).astype(np.float32).astype(np.float64)
    # cancel almost all of the product, so that a second rounding would show
    c = (
        (-(a * b) * (1 + rng.integers(-3, 4, 3000) * 2.0**-24))
        .astype(np.float32)
        .astype(np.float64)
    )
    got = r.round_to(r.fma_odd(a, b, c), "f32")
    for x, y, z, value in zip(a, b, c, got):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        near = [np.nextafter(np.float32(value), np.float32(s)) for s in (-np.inf, np.inf)]
        error = abs(Fraction(value) - exact)
        assert all(error <= abs(Fraction(float(n)) - exact) for n in near)


def test_float64_fma_is_the_c_library_s():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 4000))
    c = -a * b * (1 + rng.integers(-4, 5, 4000) * 2.0**-53)
    c[:1000] = rng.standard_normal(1000) * 2.0 ** rng.integers(-90, 90, 1000)
    a[:50], b[50:90], c[90:120] = 0.0, np.inf, np.nan
    with np.errstate(all="ignore"):
        got = r.fma64(a, b, c)
    want = np.array([r._libm.fma(*map(float, each)) for each in zip(a, b, c)])
    np.testing.assert_array_equal(got, want)


def test_integers_to_float_through_odd():
    value = np.array([2**53 + 1, 2**63 - 1, -(2**53) - 1, 3, 2**40 + 1], np.int64)
    got = r.round_to(r.int_odd(value), "f32")
    np.testing.assert_array_equal(got, [float(np.float32(int(v))) for v in value])


def test_float_to_integer_saturates():
    value = np.array([1e20, -1e20, np.nan, 2.5, -2.5, 2147483648.0, 0.5])
    assert r.to_integer(value, 32, True, "rni", False).tolist() == [
        2**31 - 1,
        -(2**31),
        0,
        2,
        -2,
        2**31 - 1,
        0,
    ]
    assert r.to_integer(value, 32, False, "rzi", False).tolist()[:3] == [2**32 - 1, 0, 0]
