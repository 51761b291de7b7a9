"""Results that lie just behind what is read are staged: the same bits, and nothing else is written."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.emit.render import render
from tilegen.registry import operator_of
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build

# Bytes of a huge page: of the distance between two arrays, what lies below it tells whether results are staged.
PAGE = 2097152
GUARD = np.float32(-77.0)


def laid_out(tensors, sizes, apart: int, rng: np.random.Generator) -> tuple[np.ndarray, dict]:
    """Arrays one after the other, each `apart` bytes further in its page, with guards between them."""
    shapes = {t.name: t.shape(sizes) for t in tensors}
    whole = np.full(len(shapes) * (PAGE + apart) // 4, GUARD)
    arrays = {}
    for number, t in enumerate(tensors):
        start, count = number * (PAGE + apart) // 4, int(np.prod(shapes[t.name]))
        arrays[t.name] = whole[start : start + count].reshape(shapes[t.name])
        if t.is_read:
            arrays[t.name][...] = rng.standard_normal(shapes[t.name])
    return whole, arrays


@pytest.mark.parametrize("name", ["bias_gelu", "add_rmsnorm"])
def test_results_behind_inputs(name):
    operator, options = operator_of(name)
    kernel = render(KernelSpec.make(operator, "portable", {**options, "dtype": "f32"}))
    assert "const int staging = streaming || lies_behind(" in next(iter(kernel.files.values()))
    loaded = cpu.load(kernel.plan, build.library(kernel, ("-O1",)), kernel.symbol)
    problem = kernel.plan.problem
    rows, columns = (s.name for s in problem.sizes())
    for m, n in ((1, 1), (3, 131), (5, 1100)):
        sizes, found = {rows: m, columns: n}, []
        # Distances of a few lines are staged, those of half a page are not.
        for apart in (16, 80, 2048):
            tensors = problem.tensors()
            whole, arrays = laid_out(tensors, sizes, apart, np.random.default_rng(7))
            scalars = problem.draw_scalars(np.random.default_rng(7))
            loaded.bound(arrays, scalars, 2)()
            found.append({t.name: arrays[t.name].copy() for t in tensors if t.is_written})
            for array in arrays.values():
                array[...] = GUARD
            assert np.all(whole == GUARD), (m, n, apart)
        for other in found[1:]:
            for key, value in other.items():
                assert np.array_equal(value, found[0][key]), (m, n, key)
        assert all(np.all(v != GUARD) for v in found[0].values())
