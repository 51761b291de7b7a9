"""Kernels of the tests of PackedGemm: emitted, built at -O1 (the text is what is tested), loaded."""

from __future__ import annotations

import functools

import pytest

from tilegen.emit.render import Rendered, render
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.toolchain.host import missing_features
from tilegen.verify.oracle import verify

# Blocks so small that few elements cross every edge: of blocks, of micro tiles, of vectors.
SMALL = "24x64x32"

RUNNABLE = ("portable", "x86-64-v3", "x86-64-v4")


@functools.cache
def _kernel(target: str, options: tuple[tuple[str, str], ...]) -> Rendered:
    return render(KernelSpec.make("gemm", target, dict(options)))


def emitted(target: str = "portable", **options: str) -> Rendered:
    """A packed kernel for the target, with SMALL blocks unless a tile is given."""
    given = {"dtype": "f32", "tile": SMALL, "schedule": "packed", **options}
    return _kernel(target, tuple(sorted(given.items())))


def loaded(target: str = "portable", *, flags: tuple[str, ...] = ("-O1",), **options: str):
    """The same, built and loaded; skips the test where this CPU cannot run it."""
    kernel = emitted(target, **options)
    missing = missing_features(kernel.spec.target)
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    return cpu.load(kernel.plan, build.library(kernel, flags), kernel.symbol)


def check(kernel: cpu.CpuKernel) -> None:
    """Hold a kernel to float64 over the case grid of its problem."""
    verdict = verify(kernel.plan, kernel.run)
    assert verdict.ok, "\n".join(verdict.failures[:5])
