"""Kernels of the tests of MmaGemm: emitted, compiled, run in the simulator."""

from __future__ import annotations

import functools

import pytest

from tilegen.emit.render import Rendered, render
from tilegen.errors import ToolMissing
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.toolchain.find import find_cxx, find_nvcc
from tilegen.verify.oracle import verify

# A tile so small that few elements cross every edge, by one warp each way.
SMALL = "32x64x32"


def missing() -> str:
    """Why nothing can be simulated here, or an empty string."""
    try:
        find_nvcc(), find_cxx()
    except ToolMissing as error:
        return error.message
    return ""


needs_simulator = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


@functools.cache
def _kernel(target: str, options: tuple[tuple[str, str], ...]) -> Rendered:
    return render(KernelSpec.make("gemm", target, dict(options)))


def emitted(target: str = "sm_80", **options: str) -> Rendered:
    """An mma kernel for the target, with SMALL tiles unless a tile is given."""
    given = {"tile": SMALL, "schedule": "mma", **options}
    return _kernel(target, tuple(sorted(given.items())))


@functools.cache
def simulated(target: str = "sm_80", **options: str) -> SimulatedKernel:
    """The same, compiled for the simulator with all detectors."""
    return SimulatedKernel(emitted(target, **options), Options(order="lazy"))


def run(kernel: SimulatedKernel, arrays, scalars=None) -> None:
    """Run in place; any finding of the detectors fails the test."""
    kernel.findings.clear()
    kernel.run(arrays, scalars or {})
    assert not kernel.findings, "\n".join(f"{f.kind}: {f.message}" for f in kernel.findings)


def check(kernel: SimulatedKernel) -> None:
    """Hold a kernel to float64 over the case grid of its problem: dense, padded, displaced arrays."""
    verdict = verify(kernel.kernel.plan, lambda a, s: run(kernel, a, s))
    assert verdict.ok, "\n".join(verdict.failures[:5])
