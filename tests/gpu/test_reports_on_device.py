"""The reports about norms, reductions and their numbers, on a device."""

from __future__ import annotations

import pytest

from tests.gpu.test_generated import architecture
from tests.memory_bound.reports import REPORTS
from tilegen.emit.render import render
from tilegen.spec import KernelSpec
from tilegen.toolchain import build

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_report(name, target):
    from tilegen.runtime import gpu

    def run(formula, options, arrays, scalars):
        kernel = render(KernelSpec.make(formula, target, options))
        library = build.library(kernel, arch=architecture(kernel))
        gpu.GpuKernel(kernel.plan, library, kernel.symbol).run(arrays, scalars)

    REPORTS[name](run)
