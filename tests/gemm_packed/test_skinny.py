"""SkinnyGemm against float64: dtypes, layouts, levels, strips and rows on every edge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gemm_packed.kernels import check, emitted, loaded
from tilegen.errors import IllegalSchedule

SMALL = {"n": "16x12x32", "t": "12x128x32"}


def skinny(target="x86-64-v4", **options):
    layout = options.get("layout", "tn")
    return loaded(target, **{"schedule": "skinny", "tile": SMALL[layout[1]], **options})


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_dtype_and_layout(dtype, layout):
    check(skinny(dtype=dtype, layout=layout))


@pytest.mark.parametrize("layout", ["tn", "nt"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_avx2(dtype, layout):
    check(skinny("x86-64-v3", dtype=dtype, layout=layout))


@pytest.mark.parametrize("layout", ["nn", "tt"])
@pytest.mark.parametrize("epilogue", ["blas", "bias_gelu", "y[m,n] = relu(acc); s[m,n] = acc * 2"])
def test_epilogue(epilogue, layout):
    check(skinny(epilogue=epilogue, layout=layout))


@pytest.mark.parametrize("layout", ["tn", "tt"])
def test_batches(layout):
    check(skinny(batched="true", layout=layout, epilogue="bias"))


@pytest.mark.parametrize("layout", ["tn", "tt"])
def test_any_number_of_threads_gives_the_same_bits(layout):
    kernel = skinny(layout=layout, flags=("-O2",))
    rng = np.random.default_rng(7)
    a = rng.standard_normal((33, 2000)).astype(np.float32)
    b = rng.standard_normal((1203, 2000) if layout == "tn" else (2000, 1203)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, 16):
        c = np.full((33, 1203), np.nan, np.float32)
        kernel.run({"a": a, "b": b, "c": c}, {}, num_threads=threads)
        results.append(c)
    assert all(np.array_equal(results[0], c) for c in results[1:])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dtype": "i8"}, ["i8"]),
        ({"micro": "8x4"}, ["37", "32"]),
        ({"layout": "tt", "tile": "12x128x32", "micro": "6x60"}, ["60", "16"]),
        ({"tile": "20x12x32"}, ["20", "8"]),
        ({"tile": "16x12x40"}, ["40", "16"]),
    ],
)
def test_an_illegal_schedule_is_refused_with_its_numbers(options, words):
    with pytest.raises(IllegalSchedule) as refused:
        emitted("x86-64-v4", **{"schedule": "skinny", "tile": SMALL["n"], **options})
    text = f"{refused.value.message}\n{refused.value.hint}"
    assert all(word in text for word in words)


def test_portable_has_no_vectors():
    with pytest.raises(IllegalSchedule, match="portable"):
        emitted("portable", schedule="skinny", tile=SMALL["n"])
