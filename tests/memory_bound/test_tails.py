"""I21: a tail that masks its loads must not store a whole vector, past the row or past the array."""

from __future__ import annotations

import pytest

from tilegen.emit.render import render
from tilegen.registry import operator_of
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.targets import TARGETS
from tilegen.toolchain import build
from tilegen.toolchain.host import missing_features
from tilegen.verify.oracle import Case, verify


@pytest.mark.parametrize(
    "target, name",
    [("x86-64-v3", "softmax"), ("x86-64-v4", "layernorm"), ("x86-64-v4", "column_mean")],
)
def test_i21_a_tail_of_two_columns(target, name):
    missing = missing_features(TARGETS[target])
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    operator, options = operator_of(name)
    kernel = render(KernelSpec.make(operator, target, {**options, "dtype": "f32"}))
    loaded = cpu.load(kernel.plan, build.library(kernel, ("-O2",)), kernel.symbol)
    rows, cols = (s.name for s in kernel.plan.problem.sizes())
    cases = [Case({rows: 8, cols: 66}, pad, offset, 1) for pad in (0, 3) for offset in (0, 1)]
    verdict = verify(kernel.plan, loaded.run, cases=cases)
    assert verdict.ok and verdict.cases == len(cases), verdict.failures
