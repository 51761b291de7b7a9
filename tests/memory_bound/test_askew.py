"""Packs at any address: rows whose length is no multiple of a pack, and arrays displaced by every residue."""

from __future__ import annotations

import pytest

from tilegen.emit.render import render
from tilegen.registry import operator_of
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.verify.oracle import Case, verify

BIAS = "y[m,n] = gelu(x[m,n] + bias[n])"
WEIGHED = "y[b,n] = sum(x[b,m,n] * w[n] * u[m], m)"


@pytest.mark.parametrize(
    "name, dtype, shapes",
    [
        ("layernorm", "bf16", ((3, 77), (2, 519), (2, 7))),
        pytest.param(BIAS, "bf16", ((3, 77), (1, 9), (2, 1)), marks=pytest.mark.slow),
        ("column_sum", "bf16", ((9, 77), (2, 261), (1, 7), (300, 3))),
        ("column_mean", "bf16", ((9, 77),)),
        pytest.param(WEIGHED, "f16", ((2, 9, 39),), marks=pytest.mark.slow),
        ("transpose", "bf16", ((129, 77), (9, 139), (1, 7))),
        pytest.param("transpose", "i8", ((67, 39),), marks=pytest.mark.slow),
    ],
)
def test_every_residue(name, dtype, shapes):
    """The reads stay in the arrays: the simulator finds any other."""
    operator, options = operator_of(name)
    few = {"longest": "8", "values": "8"} if name == "layernorm" else {}
    if name == "column_mean":
        few = {"threads": "128"}  # rows of threads too few for a thread's packs to lie alike
    kernel = render(KernelSpec.make(operator, "sm_80", {**options, "dtype": dtype, **few}))
    sizes = [s.name for s in kernel.plan.problem.sizes()]
    cases = [
        Case(dict(zip(sizes, shape)), pad, offset, 1)
        for shape in shapes
        for pad, offset in ((0, 0), (0, 1), (1, 3), (2, 5), (3, 7))
    ]
    if name == "column_mean":
        build.library(kernel)  # holds the text of such rows to every warning
    simulated = SimulatedKernel(kernel)
    verdict = verify(kernel.plan, simulated.run, cases=cases)
    assert verdict.ok and verdict.cases == len(cases), verdict.failures
    assert not simulated.findings, simulated.findings


@pytest.mark.parametrize("across, threads", [(32, 128), (16, 128), (32, 64), (8, 64)])
def test_arrays_have_ends_where_packs_may_leave_them(across, threads):
    """A thread whose steps lie fewer rows apart than a pack has elements reads no pack that is askew."""
    fields = {"across": str(across), "threads": str(threads)}
    kernel = render(KernelSpec.make("column_sum", "sm_90a", {"dtype": "bf16", **fields}))
    text = "".join(kernel.files.values())
    assert text.count("x_stop") != 1, "a variable that nothing uses is an error to nvcc"
    assert ("x_stop" in text) == (threads // across % kernel.plan.vector == 0)
