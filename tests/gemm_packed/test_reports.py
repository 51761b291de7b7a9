"""Public reports that a GEMM in C can meet, replayed; each test is named by the report's id."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from tests.gemm_packed.kernels import RUNNABLE, emitted, loaded
from tilegen.errors import ArgumentError
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc, openmp_flags


def normal(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def near(got, a, b, epilogue=lambda acc: acc, bits=2.0**-23):
    """Whether got is a @ b within the rounding of a float32 sum and of the store."""
    exact = epilogue(a.astype(np.float64) @ b.astype(np.float64))
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    bound = (4 * a.shape[-1] ** 0.5 + 4) * 2.0**-24 * size + bits * np.abs(exact) + 1e-30
    return bool((np.abs(got.astype(np.float64) - exact) <= bound).all())


@pytest.mark.parametrize("target", RUNNABLE)
def test_a01_a_length_of_sums_that_no_block_divides(target):
    rng = np.random.default_rng(1)
    a, b = normal(rng, 1000, 1001, dtype=np.float16), normal(rng, 999, 1001, dtype=np.float16)
    results = []
    for tile in ("128x128x32", "64x64x64"):
        c = np.full((1000, 999), np.nan, np.float16)
        loaded(target, flags=("-O2",), dtype="f16", tile=tile).run({"a": a, "b": b, "c": c}, {})
        results.append(c)
        assert near(c, a, b.T, bits=2.0**-11)
    assert np.array_equal(*results)


def test_a07_one_row_and_odd_sizes():
    rng = np.random.default_rng(2)
    a, b = normal(rng, 1, 107, dtype=np.float16), normal(rng, 105, 107, dtype=np.float16)
    c = np.empty((1, 105), np.float16)
    loaded("x86-64-v4", dtype="f16").run({"a": a, "b": b, "c": c}, {})
    assert near(c, a, b.T, bits=2.0**-11)


@pytest.mark.parametrize("k", [16, 48, 80])
def test_a09_odd_multiples_of_a_block_in_a_batch(k):
    rng = np.random.default_rng(3)
    a, b = normal(rng, 6, 32, k), normal(rng, 6, 32, k)
    c = np.full((6, 32, 32), np.nan, np.float32)
    loaded("x86-64-v4", tile="32x64x32", batched="true").run({"a": a, "b": b, "c": c}, {})
    assert near(c, a, b.swapaxes(1, 2))


@pytest.mark.parametrize("target", RUNNABLE)
def test_a11_nothing_is_left_unwritten_where_the_blocks_do_not_divide(target):
    rng = np.random.default_rng(4)
    a, b = normal(rng, 1000, 1000), normal(rng, 1000, 1000)
    c = np.full((1000, 1000), np.nan, np.float32)
    loaded(target, flags=("-O2",), tile="32x64x8").run({"a": a, "b": b, "c": c}, {})
    assert near(c, a, b.T)


def test_b03_padded_rows_stay_as_they_were():
    rng = np.random.default_rng(5)
    a, b = normal(rng, 37, 64, dtype=np.float16), normal(rng, 41, 64, dtype=np.float16)
    c = np.full((37, 64), 777, np.float16)
    arrays = {"a": a[:, :43], "b": b[:, :43], "c": c[:, :41]}
    loaded("x86-64-v4", dtype="f16").run(arrays, {})
    assert near(c[:, :41], a[:, :43], b[:, :43].T, bits=2.0**-11)
    assert (c[:, 41:] == 777).all()


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("before", [np.nan, np.inf])
def test_b05_beta_of_zero_overwrites_what_c_held(before, target):
    rng = np.random.default_rng(6)
    a, b = normal(rng, 13, 40), normal(rng, 70, 40)
    c = np.full((13, 70), before, np.float32)
    kernel = loaded(target, epilogue="blas")
    kernel.run({"a": a, "b": b, "c": c}, {"alpha": 1.0, "beta": 0.0})
    assert near(c, a, b.T)


@pytest.mark.parametrize("target", RUNNABLE)
def test_b07_alpha_of_zero_reads_neither_a_nor_b(target):
    a, b = np.full((9, 33), np.nan, np.float32), np.full((17, 33), np.nan, np.float32)
    kernel = loaded(target, epilogue="blas")
    c = np.full((9, 17), np.nan, np.float32)
    kernel.run({"a": a, "b": b, "c": c}, {"alpha": 0.0, "beta": 0.0})
    assert (c == 0).all()
    before = normal(np.random.default_rng(7), 9, 17)
    c = before.copy()
    kernel.run({"a": a, "b": b, "c": c}, {"alpha": 0.0, "beta": 1.0})
    assert np.array_equal(c, before)


def test_b09_batches_row_major_and_column_major():
    rng = np.random.default_rng(8)
    for layout in ("tt", "nn"):
        a, b = normal(rng, 4, 65, 17), normal(rng, 4, 17, 33)
        stored_a = a if layout == "tt" else np.ascontiguousarray(a.swapaxes(1, 2))
        stored_b = b if layout == "tt" else np.ascontiguousarray(b.swapaxes(1, 2))
        c = np.empty((4, 65, 33), np.float32)
        kernel = loaded("x86-64-v4", layout=layout, batched="true")
        kernel.run({"a": stored_a, "b": stored_b, "c": c}, {})
        assert near(c, a, b)


def test_a_batch_stride_of_zero_broadcasts():
    rng = np.random.default_rng(9)
    a, b = normal(rng, 5, 20, 30), normal(rng, 40, 30)
    c = np.empty((5, 20, 40), np.float32)
    shared = np.broadcast_to(b, (5, 40, 30))
    loaded("x86-64-v4", batched="true").run({"a": a, "b": shared, "c": c}, {})
    assert near(c, a, b.T)


def test_b11_row_and_column_vectors_and_a_wrong_length():
    rng = np.random.default_rng(10)
    a, b = normal(rng, 96, 24), normal(rng, 40, 24)
    for epilogue, length in (("acc + bias[n]", 40), ("acc + bias[m]", 96)):
        bias = normal(rng, length)
        c = np.empty((96, 40), np.float32)
        kernel = loaded("x86-64-v4", epilogue=epilogue)
        kernel.run({"a": a, "b": b, "bias": bias, "c": c}, {})
        along = bias if length == 40 else bias[:, None]
        assert near(c, a, b.T, lambda acc, along=along: acc + along, bits=2.0**-22)
        wrong = normal(rng, length + 1)
        with pytest.raises(ArgumentError, match="bias"):
            kernel.run({"a": a, "b": b, "bias": wrong, "c": c}, {})


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_b13_a_column_major_result_is_the_product_of_the_exchanged_operands(dtype):
    rng = np.random.default_rng(11)
    kind = np.dtype(dtype.replace("f", "float"))
    a, b = normal(rng, 45, 31, dtype=kind), normal(rng, 70, 31, dtype=kind)
    kernel = loaded("x86-64-v4", dtype=dtype)
    columns = np.empty((45, 70), kind, order="F")
    kernel.run({"a": b, "b": a, "c": columns.T}, {})
    assert near(columns, a, b.T)
    # No stride but rows: a result whose columns are strided is refused, not written wrong.
    with pytest.raises(ArgumentError, match="c"):
        kernel.run({"a": a, "b": b, "c": np.empty((45, 140), kind)[:, ::2]}, {})


def test_d_sizes_of_zero_and_refused_calls():
    kernel = loaded("x86-64-v4")
    launch = kernel._launch
    names = [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64] * 3 + [ctypes.c_int]
    x = np.zeros(64, np.float32)
    at = x.ctypes.data

    def call(m, n, k, a, lda, b, ldb, c, ldc):
        values = (m, n, k, a, lda, b, ldb, c, ldc, 1)
        return launch(*(kind(value) for kind, value in zip(names, values)))

    assert call(0, 4, 4, None, 4, at, 4, None, 4) == 0
    assert call(4, 0, 4, at, 4, None, 4, None, 0) == 0
    assert call(-1, 4, 4, at, 4, at, 4, at, 4) != 0
    assert call(4, 4, 4, at, 3, at, 4, at, 4) != 0
    assert call(4, 4, 4, at, 4, None, 4, at, 4) != 0
    x[:] = 5
    assert call(4, 4, 0, None, 0, None, 0, at, 4) == 0
    assert (x[:16] == 0).all() and (x[16:] == 5).all()


def test_i05_more_threads_than_tiles():
    rng = np.random.default_rng(12)
    a, b = normal(rng, 3, 4000), normal(rng, 500, 4000)
    c = np.full((3, 500), np.nan, np.float32)
    loaded("x86-64-v4").run({"a": a, "b": b, "c": c}, {}, num_threads=64)
    assert near(c, a, b.T)


def test_i07_small_products_stay_on_one_thread():
    # Starting threads is what made them slow; the system lists those of a process.
    code = """
import os, numpy as np
from tests.gemm_packed.kernels import loaded
kernel = loaded("portable", flags=("-O2",), dtype="f64")
def started(size):
    a, c = np.ones((size, size)), np.empty((size, size))
    before = len(os.listdir("/proc/self/task"))
    kernel.run({"a": a, "b": a, "c": c}, {}, num_threads=4)
    return len(os.listdir("/proc/self/task")) - before
print(started(25), started(60), started(300))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["0", "0", "3"], ran.stderr[-500:]


def test_i11_a_base_pointer_aligned_to_one_element():
    rng = np.random.default_rng(14)
    for target in ("x86-64-v3", "x86-64-v4"):
        memory = normal(rng, 4096)
        a = memory[1 : 1 + 40 * 14].reshape(40, 14)
        b = memory[2001 : 2001 + 14 * 14].reshape(14, 14)
        c = np.full(1 + 40 * 14, np.nan, np.float32)[1:].reshape(40, 14)
        loaded(target).run({"a": a, "b": b, "c": c}, {})
        assert near(c, a, b.T)


def test_i17_a_forked_child_computes():
    code = """
import multiprocessing as mp, numpy as np
from tests.gemm_packed.kernels import loaded
kernel = loaded("portable", flags=("-O2",))
a = np.ones((300, 300), np.float32)
def product(_):
    c = np.empty((300, 300), np.float32)
    kernel.run({"a": a, "b": a, "c": c}, {}, num_threads=THREADS)
    return float(c.sum())
product(0)
with mp.get_context("fork").Pool(1) as pool:
    print(pool.apply_async(product, (0,)).get(timeout=20))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code.replace("THREADS", "2")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.strip() == "27000000.0", ran.stderr[-500:]


def test_i19_without_openmp_the_text_compiles_and_computes():
    rng = np.random.default_rng(15)
    kernel = loaded("x86-64-v4", flags=("-O1", "-fno-openmp"))
    a, b = normal(rng, 50, 60), normal(rng, 70, 60)
    c = np.full((50, 70), np.nan, np.float32)
    kernel.run({"a": a, "b": b, "c": c}, {}, num_threads=4)
    assert near(c, a, b.T)


def test_j17_a_residual_that_is_the_result_is_refused_for_arrays_and_right_in_c():
    rng = np.random.default_rng(16)
    a, b = normal(rng, 90, 70), normal(rng, 130, 70)
    residual = normal(rng, 90, 130)
    c = residual.copy()
    kernel = loaded("x86-64-v4", epilogue="residual")
    with pytest.raises(ArgumentError, match="overlaps"):
        kernel.run({"a": a, "b": b, "residual": c, "c": c}, {})
    # The text itself reads each element before it writes it, and promises nothing to the compiler.
    sizes = [ctypes.c_int64(v) for v in (90, 130, 70)]
    arrays = [(a, 70), (b, 70), (c, 130), (c, 130)]
    places = [x for v, ld in arrays for x in (ctypes.c_void_p(v.ctypes.data), ctypes.c_int64(ld))]
    assert kernel._launch(*sizes, *places, ctypes.c_int(2)) == 0
    assert near(c, a, b.T, lambda acc: acc + residual, bits=2.0**-21)


def test_l05_a_cpp_program_links_a_c_kernel(tmp_path):
    kernel = emitted("portable")
    source = build.lay_out(kernel, tmp_path)
    main = tmp_path / "main.cpp"
    main.write_text(
        f'#include "{kernel.stem}.h"\n#include "{kernel.stem}.h"\n'
        "int main() {\n  float a = 3, b = 4, c = 0;\n"
        f"  return {kernel.symbol}(1, 1, 1, &a, 1, &b, 1, &c, 1, 1) == 0 && c == 12 ? 0 : 1;\n}}\n"
    )
    cc = find_cc()
    flags = [*openmp_flags(cc), "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    steps = [
        [cc.path, "-c", "-std=c11", *flags, str(source), "-o", "kernel.o"],
        ["c++", "-std=c++11", *flags, "main.cpp", "kernel.o", "-o", "main"],
        ["./main"],
    ]
    for step in steps:
        ran = subprocess.run(step, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("standard", ["c11", "gnu17"])
def test_l07_no_warning_under_any_flag(target, standard, tmp_path):
    options = {"dtype": "bf16", "layout": "nn", "epilogue": "bias_gelu"}
    source = build.lay_out(emitted(target, **options), tmp_path)
    cc = find_cc()
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-compare"]
    for openmp in ([], list(openmp_flags(cc))):
        command = [cc.path, f"-std={standard}", *flags, "-Werror", *openmp, "-c", str(source)]
        ran = subprocess.run([*command, "-o", "k.o"], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
