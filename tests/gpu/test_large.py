"""D01, D03, D05: arrays of more than 2^31 elements, and more pieces than a grid's second dimension has blocks.

The arrays are filled on the device with one value; a few rows, around the places where a 32-bit index would wrap
and at the ends, get values of their own, and are compared with float64, as are rows in between.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.test_generated import architecture
from tilegen.emit.render import render
from tilegen.registry import operator_of
from tilegen.runtime.arguments import View
from tilegen.spec import KernelSpec
from tilegen.toolchain import build

pytestmark = pytest.mark.gpu

CASES = {
    "D01-softmax": ("softmax", "f16", 2100000, 1024),
    "D03-rmsnorm": ("rmsnorm", "f16", 1048641, 4096),
    "D05-elementwise": ("y[m,n] = 2 * x[m,n] + b[n]", "f32", 8192, 16384),
    "D05-folded": ("y[m,n] = 2 * x[m,n] + 1", "f16", 1048641, 4096),
}


def chosen_rows(m: int, n: int) -> np.ndarray:
    """Rows at both ends, on both sides of every multiple of 2^31 elements, and some in between."""
    wraps = np.arange(1, m * n // 2**31 + 1) * 2**31 // n
    rows = np.concatenate([[0, m - 1], wraps - 1, wraps, np.linspace(0, m - 1, 20).astype(int)])
    return np.unique(rows[rows < m])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_offsets_have_64_bits(name, target):
    from tilegen.runtime import gpu

    operator, dtype, m, n = CASES[name]
    operator, options = operator_of(operator)
    kernel = render(KernelSpec.make(operator, target, {**options, "dtype": dtype}))
    loaded = gpu.GpuKernel(
        kernel.plan, build.library(kernel, arch=architecture(kernel)), kernel.symbol
    )
    cuda, problem = gpu.driver(), kernel.plan.problem
    rows = chosen_rows(m, n)
    rng = np.random.default_rng(1)
    drawn = problem.draw({"m": len(rows), "n": n}, rng)
    scalars = problem.draw_scalars(rng)
    needed = sum(int(np.prod(t.shape({"m": m, "n": n}))) * t.dtype.bytes for t in problem.tensors())
    if cuda.mem_get_info()[0] < needed + (1 << 30):
        pytest.skip(f"needs {needed >> 30} GiB of device memory")
    memory, views = {}, {}
    try:
        for t in problem.tensors():
            shape = t.shape({"m": m, "n": n})
            size, kind = int(np.prod(shape)) * t.dtype.bytes, t.dtype.numpy
            memory[t.name] = place = cuda.mem_alloc(size)
            # NaN where nothing is written, and a positive number where nothing else is read.
            cuda.memset_d8(place, 0xFF if t.is_written else 0x3C, size)
            if t.is_read and len(shape) == 2:
                for row, values in zip(rows, drawn[t.name]):
                    cuda.memcpy_htod(
                        int(place) + int(row) * n * kind.itemsize, np.ascontiguousarray(values)
                    )
            elif t.is_read:
                cuda.memcpy_htod(place, np.ascontiguousarray(drawn[t.name]))
            strides = tuple(kind.itemsize * s for s in ((n, 1) if len(shape) == 2 else (1,)))
            views[t.name] = View(int(place), shape, strides, kind)
        loaded.launch(views, scalars)
        cuda.Context.synchronize()
        want = problem.reference({"m": len(rows), "n": n}, drawn, scalars)
        for out, expected in want.items():
            got = np.empty((len(rows), n), views[out].dtype)
            for row, values in zip(rows, got):
                cuda.memcpy_dtoh(values, int(memory[out]) + int(row) * n * got.itemsize)
            error = np.abs(got.astype(np.float64) - expected.value)
            assert (
                error <= expected.bound
            ).all(), f"{out}: row {rows[np.argmax(error.max(axis=1))]}"
            # A row that has one value throughout: written, whichever it is.
            filled = np.empty(n, got.dtype)
            other = int(np.setdiff1d(np.arange(m - 40, m), rows)[-1])
            cuda.memcpy_dtoh(filled, int(memory[out]) + other * n * got.itemsize)
            assert np.isfinite(filled.astype(np.float64)).all(), f"{out}: row {other}"
    finally:
        for place in memory.values():
            place.free()
