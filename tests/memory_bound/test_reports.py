"""The cases of `reports.py` in C, and in CUDA C in the simulator; `tests/gpu` runs them on a device."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.memory_bound.reports import REPORTS
from tests.test_simulated import missing
from tilegen.emit.render import render
from tilegen.problems.formula import FormulaProblem
from tilegen.runtime import cpu
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.spec import KernelSpec
from tilegen.toolchain import build


@functools.cache
def in_c(formula, options):
    rendered = render(KernelSpec.make(formula, "portable", dict(options)))
    return cpu.load(rendered.plan, build.library(rendered), rendered.symbol)


@functools.cache
def in_the_simulator(formula, options):
    return SimulatedKernel(render(KernelSpec.make(formula, "sm_80", dict(options))))


@pytest.mark.parametrize("name", REPORTS)
def test_c(name):
    def run(formula, options, arrays, scalars):
        in_c(formula, tuple(options.items())).run(arrays, scalars, num_threads=8)

    REPORTS[name](run)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
@pytest.mark.parametrize("name", REPORTS)
def test_cuda(name):
    def run(formula, options, arrays, scalars):
        kernel = in_the_simulator(formula, tuple(options.items()))
        kernel.run(arrays, scalars)
        assert not kernel.findings

    REPORTS[name](run)


def test_G13_the_reference_of_a_sum_of_halves_is_not_taken_in_halves():
    problem = FormulaProblem(formula="y[m] = sum(x[m,n], n)", dtype="f16")
    x = np.ones((1, 3000), np.float16)
    assert problem.reference({"m": 1, "n": 3000}, {"x": x}, {})["y"].value[0] == 3000
