"""Every dtype, layout and level of PackedGemm against float64, over sizes on every edge of its blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gemm_packed.kernels import RUNNABLE, check, emitted, loaded
from tilegen.verify.oracle import Case, verify

DTYPES = ("f32", "f64", "f16", "bf16", "i8")
LAYOUTS = ("tn", "tt", "nn", "nt")


@pytest.mark.parametrize("target", ["portable", "x86-64-v4"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_and_layout(dtype, layout, target):
    check(loaded(target, dtype=dtype, layout=layout))


@pytest.mark.parametrize("target, layout", [("x86-64-v3", "nt"), ("x86-64-v4", "tt")])
def test_many_rows_or_far_ones_have_b_packed(target, layout):
    # Few rows read B in place where it lies within a MiB; the first case has more, the second lies wider.
    kernel = loaded(target, layout=layout)
    many = Case({"m": 101, "n": 70, "k": 70}, 1, 1, 0)
    wide = Case({"m": 20, "n": 70, "k": 70}, 4000, 1, 0)
    verdict = verify(kernel.plan, kernel.run, cases=[many, wide])
    assert verdict.ok, "\n".join(verdict.failures)


@pytest.mark.parametrize("dtype", DTYPES)
def test_avx2(dtype):
    check(loaded("x86-64-v3", dtype=dtype, layout="nn"))


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(
    "epilogue",
    [
        "bias_gelu",
        "blas",
        "residual",
        "where(acc > 0, acc, slope * acc) * scale[m]",
        "y[m,n] = relu(acc); mask[m,n] = acc > 0",
    ],
)
def test_epilogue(epilogue, target):
    check(loaded(target, epilogue=epilogue, layout="tt"))


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_batches(dtype, target):
    check(loaded(target, dtype=dtype, layout="nn", batched="true", epilogue="bias"))


@pytest.mark.parametrize("out", ["f16", "bf16", "f64"])
def test_other_result_types(out):
    check(loaded("x86-64-v4", dtype="f32", out_dtype=out))


@pytest.mark.parametrize("micro", ["1x16", "4x32", "8x48", "12x32", "14x32"])
def test_micro_tiles(micro):
    width = int(micro.split("x")[1])
    check(loaded("x86-64-v4", tile=f"28x{2 * width}x24", micro=micro))


@pytest.mark.parametrize("micro", ["1x1", "3x5", "4x4", "16x16"])
def test_portable_micro_tiles(micro):
    width = int(micro.split("x")[1])
    check(loaded("portable", tile=f"32x{2 * width}x24", micro=micro))


def test_unrolled_once_and_deep():
    for unroll in ("1", "7"):
        check(loaded("x86-64-v4", unroll=unroll))


@pytest.mark.parametrize("target", ["portable", "x86-64-v4"])
def test_any_number_of_threads_gives_the_same_bits(target):
    kernel = loaded(target, flags=("-O2",), tile="48x64x64")
    rng = np.random.default_rng(7)
    a = rng.standard_normal((301, 500)).astype(np.float32)
    b = rng.standard_normal((270, 500)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, 5, 16):
        c = np.full((301, 270), np.nan, np.float32)
        kernel.run({"a": a, "b": b, "c": c}, {}, num_threads=threads)
        results.append(c)
    assert all(np.array_equal(results[0], c) for c in results[1:])


@pytest.mark.parametrize(
    "target, options",
    [
        ("x86-64-v4", {"layout": "nt", "epilogue": "blas"}),
        ("portable", {"dtype": "i8"}),
    ],
)
def test_few_tiles_and_a_deep_k_are_summed_in_parts(target, options):
    kernel = loaded(target, **options)
    sizes = [(1, 1, 20011), (7, 65, 9001), (6, 8, 4096), (6, 8, 4095)]
    cases = [Case({"m": m, "n": n, "k": k}, 1, 1, 0) for m, n, k in sizes]
    verdict = verify(kernel.plan, kernel.run, cases=cases)
    assert verdict.ok, "\n".join(verdict.failures)


def test_parts_of_k_give_the_same_bits_for_any_number_of_threads():
    kernel = loaded("x86-64-v4", layout="tt")
    rng = np.random.default_rng(9)
    a = rng.standard_normal((13, 12000)).astype(np.float32)
    b = rng.standard_normal((12000, 130)).astype(np.float32)
    results = []
    for threads in (1, 2, 5, 16):
        c = np.full((13, 130), np.nan, np.float32)
        kernel.run({"a": a, "b": b, "c": c}, {}, num_threads=threads)
        results.append(c)
    assert all(np.array_equal(results[0], c) for c in results[1:])
    # Five parts, each summed on its own: not the bits of one sum over all of K.
    parts = [12000 * i // 5 for i in range(6)]
    joined = np.zeros_like(results[0])
    for begin, end in zip(parts, parts[1:]):
        c = np.empty_like(joined)
        kernel.run({"a": a[:, begin:end].copy(), "b": b[begin:end], "c": c}, {}, num_threads=1)
        joined += c
    assert np.array_equal(results[0], joined)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"micro": "6x60"}, ["60", "16", "f32"]),
        ({"micro": "16x64"}, ["69", "32"]),
        ({"tile": "96x100x32", "micro": "6x64"}, ["100", "64"]),
        ({"tile": "4x64x32", "micro": "6x64"}, ["4", "6"]),
        ({"dtype": "i8", "tile": "24x64x2048"}, ["2048", "1024"]),
        ({"tile": "8192x8192x4096"}, ["67108864"]),
        ({"unroll": "0"}, ["0", "16"]),
    ],
)
def test_an_illegal_schedule_is_refused_with_its_numbers(options, words):
    from tilegen.errors import IllegalSchedule

    with pytest.raises(IllegalSchedule) as refused:
        emitted("x86-64-v4", **options)
    text = f"{refused.value.message}\n{refused.value.hint}"
    for word in words:
        assert word in text
    assert "Legal: --" in text
