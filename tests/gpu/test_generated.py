"""Every checked-in CUDA kernel on a GPU, through both routes, against float64."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tilegen.artifacts import kernel_list
from tilegen.artifacts.check import render_list
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.verify.oracle import case_grid, prepare, verify

KERNELS, _ = render_list(kernel_list.read(ROOT / "tilegen.toml"))
CUDA = [k for k in KERNELS if isinstance(k.spec.target, CudaTarget)]

pytestmark = pytest.mark.gpu


def architecture(kernel) -> CudaTarget | None:
    """What to build for on this GPU; None for the kernel's own target. Skips what cannot run here."""
    from tilegen.runtime import gpu

    here, own = gpu.compute_capability(), kernel.spec.target
    if here < own.cc or (own.name.endswith("a") and here != own.cc):
        pytest.skip(f"needs {own}, this GPU is sm_{here}")
    return None if here == own.cc else CudaTarget(f"sm_{here}", here, own.shared_block)


@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_launcher_is_right(kernel):
    from tilegen.runtime import gpu

    library = build.library(kernel, arch=architecture(kernel))
    loaded = gpu.GpuKernel(kernel.plan, library, kernel.symbol)
    verdict = verify(kernel.plan, loaded.run)
    assert verdict.ok, verdict.failures[:5]


@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_device_only_is_right(kernel):
    from tilegen.runtime import device_only

    loaded = device_only.DeviceOnlyKernel(kernel, architecture(kernel))
    verdict = verify(kernel.plan, loaded.run)
    assert verdict.ok, verdict.failures[:5]


@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_repeats_are_bitwise_equal(kernel):
    from tilegen.runtime import gpu

    loaded = gpu.GpuKernel(
        kernel.plan, build.library(kernel, arch=architecture(kernel)), kernel.symbol
    )
    case = list(case_grid(kernel.plan.problem, kernel.plan.schedule.tile_extents(), 1))[-1]
    first = None
    for _ in range(20):
        arrays, scalars, _ = prepare(kernel.plan, case)
        loaded.run({n: g.array for n, g in arrays.items()}, scalars)
        now = {
            t.name: arrays[t.name].array.tobytes()
            for t in kernel.plan.problem.tensors()
            if t.is_written
        }
        if first is None:
            first = now
        for name, elements in now.items():
            assert elements == first[name], name
