"""Kernels of every type, layout and epilogue, simulated with all detectors, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gemm_mma.kernels import check, needs_simulator, run, simulated

pytestmark = needs_simulator


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_layouts(layout):
    check(simulated(layout=layout))


@pytest.mark.parametrize(
    "dtype, tile", [("bf16", "32x64x32"), ("tf32", "32x64x16"), ("i8", "32x64x64")]
)
def test_types(dtype, tile):
    check(simulated(dtype=dtype, tile=tile))


@pytest.mark.parametrize(
    "options",
    [
        {"epilogue": "blas"},
        {"epilogue": "bias_gelu", "operands": "bias:f32"},
        {"epilogue": "z[m,n] = acc + bias[n]; c[m,n] = relu(z)", "operands": "z:f32"},
        {"epilogue": "acc * scale[m] + residual[n,m]"},
        {"epilogue": "c[n,m] = acc + n"},
        {"epilogue": "residual", "batched": "true", "layout": "nt"},
        {"out_dtype": "f64"},
    ],
    ids=lambda o: " ".join(o.values()),
)
def test_epilogues(options):
    check(simulated(**options))


@pytest.mark.parametrize("tile, stages", [("32x64x64", "2"), ("64x32x32", "5")])
def test_depth_of_the_ring(tile, stages):
    check(simulated(tile=tile, stages=stages))


@pytest.mark.parametrize("options", [{"warps": "1x1"}, {"warps": "2x1", "group": "1"}], ids=str)
def test_warps(options):
    check(simulated(**options))


@pytest.mark.parametrize("shift, pad, width", [(0, 0, 16), (0, 4, 8), (2, 0, 4), (1, 0, 2)])
def test_the_width_of_a_copy_follows_pointers_and_strides(shift, pad, width):
    """64 x 64 x 64 throughout: only where rows start decides, never how long they are."""
    kernel = simulated()
    rng = np.random.default_rng(5)
    ld = 64 + pad
    flat = rng.standard_normal(shift + 64 * ld).astype(np.float16)
    a = flat[shift:].reshape(64, ld)[:, :64]
    b = rng.standard_normal((64, 64)).astype(np.float16)
    c = np.full((64, 64), np.nan, np.float16)
    launches = kernel.record({"a": a, "b": b, "c": c}, {}).recording.launches
    assert [int.from_bytes(launch.params[-1], "little") for launch in launches] == [width]
    run(kernel, {"a": a, "b": b, "c": c})
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c - exact).max() < 0.05
