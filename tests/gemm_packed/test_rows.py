"""Epilogues that reduce the rows of the result: parts of a sliver, which become the row's value."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gemm_packed.kernels import check, loaded
from tests.gemm_packed.test_amx import amx, emulated
from tilegen.errors import IllegalSchedule
from tilegen.verify.oracle import Case, verify

ROWS = "d[m,n] = gelu(acc + bias[n]); amax[m] = max(abs(d), n); s[m] = sum(d, n)"


@pytest.mark.parametrize(
    "target, options",
    [
        ("x86-64-v4", {"layout": "tt"}),
        ("portable", {"schedule": "prepacked", "operands": "amax:f16,s:bf16"}),
    ],
)
def test_rows(target, options):
    check(loaded(target, epilogue=ROWS, **options))


def test_tile_registers_reduce_rows():
    epilogue = "c[m,n] = acc; low[m] = min(acc, n); s[m] = sum(acc, n); t[m] = sum(acc * acc, n)"
    kernel = emulated(amx(epilogue=epilogue))
    sizes = [(37, 133, 70), (5, 0, 9), (33, 65, 0)]
    cases = [Case({"m": m, "n": n, "k": k}, 1, 1, 0) for m, n, k in sizes]
    verdict = verify(kernel.plan, kernel.run, cases=cases)
    assert verdict.ok, "\n".join(verdict.failures[:5])


def test_the_sum_of_a_row_has_the_same_bits_for_any_number_of_threads():
    kernel = loaded("x86-64-v4", epilogue=ROWS, layout="tt")
    rng = np.random.default_rng(8)
    a = rng.standard_normal((301, 500)).astype(np.float32)
    b = rng.standard_normal((500, 470)).astype(np.float32)
    bias = np.zeros(470, np.float32)
    sums = []
    for threads in (1, 2, 3, 5, 16):
        d, s = np.empty((301, 470), np.float32), np.full(301, np.nan, np.float32)
        arrays = {"a": a, "b": b, "bias": bias, "d": d, "s": s, "amax": np.empty_like(s)}
        kernel.run(arrays, {}, num_threads=threads)
        sums.append(s)
    assert np.isfinite(sums[0]).all()
    assert all(np.array_equal(sums[0], s) for s in sums[1:])


def test_schedules_that_stream_weights_say_what_to_do_instead():
    with pytest.raises(IllegalSchedule, match="amx_skinny schedule does not reduce rows"):
        amx("amx_skinny", dtype="bf16", epilogue="c[m,n] = acc; s[m] = sum(acc, n)")
