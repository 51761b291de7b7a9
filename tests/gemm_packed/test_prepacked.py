"""PrepackedGemm: weights packed once, in every layout and level, and calls that are refused."""

from __future__ import annotations

import ctypes
import errno

import numpy as np
import pytest

from tests.gemm_packed.kernels import SMALL, check, emitted, loaded
from tilegen.emit.dispatch import Branch, render_dispatch
from tilegen.errors import IllegalSchedule, UsageError
from tilegen.toolchain import build


def prepacked(target="x86-64-v4", **options):
    return loaded(target, schedule="prepacked", **options)


@pytest.mark.parametrize(
    "target, dtype, layout",
    [
        ("x86-64-v3", "bf16", "tn"),
        ("x86-64-vnni", "i8", "nt"),
        ("portable", "f32", "tt"),
    ],
)
def test_right(target, dtype, layout):
    check(prepacked(target, dtype=dtype, layout=layout))


def test_an_epilogue_that_skips_the_sum():
    check(prepacked(epilogue="blas"))


def test_the_same_bits_as_packing_in_every_call_with_any_number_of_threads():
    rng = np.random.default_rng(5)
    a = rng.standard_normal((301, 500)).astype(np.float32)
    b = rng.standard_normal((270, 500)).astype(np.float32)
    results = []
    for threads, schedule in ((1, "packed"), (1, "prepacked"), (2, "prepacked"), (5, "prepacked")):
        c = np.full((301, 270), np.nan, np.float32)
        kernel = loaded("x86-64-v4", schedule=schedule)
        kernel.run({"a": a, "b": b, "c": c}, {}, num_threads=threads)
        results.append(c)
    assert all(np.array_equal(results[0], c) for c in results[1:])


def test_weights_are_packed_once_for_many_calls():
    kernel = prepacked()
    a, b, c = np.ones((3, 5), np.float32), np.ones((4, 5), np.float32), np.zeros((3, 4), np.float32)
    call = kernel.bound({"a": a, "b": b, "c": c}, {})
    b[:], a[:] = 7, 2
    call()
    assert np.all(c == 10)


def test_calls_that_are_refused():
    kernel = emitted("x86-64-v4", schedule="prepacked")
    loaded("x86-64-v4", schedule="prepacked")  # skips where it cannot run
    dll = ctypes.CDLL(str(build.library(kernel, ("-O1",))))
    size = getattr(dll, f"{kernel.symbol}_packed_bytes")
    size.restype, size.argtypes = ctypes.c_size_t, [ctypes.c_int64] * 2
    pack = getattr(dll, f"{kernel.symbol}_pack")
    sizes, array = [ctypes.c_int64] * 2, ctypes.c_void_p
    pack.argtypes = [*sizes, array, ctypes.c_int64, array, ctypes.c_int]
    assert [size(0, 5), size(5, 0), size(-1, 5), size(1, 3)] == [0, 0, 0, 64 * 3 * 4]
    memory, b = np.zeros(4096, np.uint8), np.zeros((2, 3), np.float32)
    line = memory.ctypes.data + -memory.ctypes.data % 64
    assert pack(2, 3, b.ctypes.data, 3, line, 1) == 0
    assert pack(0, 3, None, 3, None, 1) == 0
    for call in (
        (-1, 3, b.ctypes.data, 3, line),
        (2, 3, b.ctypes.data, 2, line),
        (2, 3, None, 3, line),
        (2, 3, b.ctypes.data, 3, None),
        (2, 3, b.ctypes.data, 3, line + 4),
    ):
        assert pack(*call, 1) == errno.EINVAL
    supports = getattr(dll, f"{kernel.symbol}_supports")
    one = ctypes.c_int64(1)
    at = [ctypes.c_void_p(b.ctypes.data), one]
    assert supports(one, one, one, *at, ctypes.c_void_p(line), *at) == 0
    assert supports(one, one, one, *at, ctypes.c_void_p(line + 4), *at) == 6


def test_what_it_is_not_for():
    with pytest.raises(IllegalSchedule, match="one matrix of weights|packs one"):
        emitted("x86-64-v4", schedule="prepacked", batched="true")
    kernels = [emitted(t, schedule="prepacked", tile=SMALL) for t in ("x86-64-v4", "portable")]
    with pytest.raises(UsageError, match="packed weights"):
        render_dispatch([Branch(k.stem, k.symbol, k.plan, k.files) for k in kernels])
