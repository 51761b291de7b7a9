"""Stream-K where tiles are cut on a GPU of 132 processors: right, and the same bits in every run."""

from __future__ import annotations

import pytest

from tests.gpu.test_generated import CUDA, architecture
from tilegen.toolchain import build
from tilegen.verify.oracle import Case, compare, prepare

pytestmark = pytest.mark.gpu

# Tiles of 128 x 256 in equal parts; in shares that end anywhere; these with a whole wave among them; none cut.
SIZES = [(1000, 1000, 8200), (1500, 1504, 8200), (2048, 2200, 4104), (1700, 1800, 4104)]


@pytest.mark.parametrize("m, n, k", SIZES)
def test_cut_tiles_are_right_and_repeat(m, n, k):
    from tilegen.runtime import gpu

    kernel = next(made for made in CUDA if getattr(made.plan.schedule, "stream", False))
    library = build.library(kernel, arch=architecture(kernel))
    loaded = gpu.GpuKernel(kernel.plan, library, kernel.symbol)
    arrays, scalars, expected = prepare(kernel.plan, Case({"m": m, "n": n, "k": k}, 0, 0, 1))
    results = set()
    for _ in range(10):
        loaded.run({name: g.array for name, g in arrays.items()}, scalars)
        results.add(arrays["c"].array.tobytes())
    error, where = compare(kernel.plan, arrays, expected)
    assert error <= 1, where
    assert len(results) == 1
