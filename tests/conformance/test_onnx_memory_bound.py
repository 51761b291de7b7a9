"""The backend node tests that the onnx package carries, on the memory-bound families in C.

Every case of an operator in `onnx_memory_bound.OPERATORS` is computed and compared, or is outside with a
reason; `pytest -s` prints both counts.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter

import numpy as np
import pytest

from tilegen.emit.render import render
from tilegen.errors import TilegenError
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build

from . import onnx_memory_bound as adapter

onnx = pytest.importorskip("onnx")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    CASES = [
        case
        for case in collect_testcases(None)
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in adapter.OPERATORS
    ]

pytestmark = pytest.mark.slow

COUNTS: Counter[str] = Counter()
REASONS: Counter[str] = Counter()


@functools.cache
def kernel(formula: str, dtype: str, operands: str):
    """A formula built for this machine's C compiler."""
    words = {"dtype": dtype, "operands": operands}
    rendered = render(KernelSpec.make(formula, "portable", words))
    return cpu.load(rendered.plan, build.library(rendered), rendered.symbol)


def compute(step: adapter.Step, known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run one formula; arrays that it lacks come from the steps before."""
    from tilegen import formula as fl

    parsed = fl.parse(step.formula)
    arrays = {name: step.arrays.get(name, known.get(name)) for name in parsed.operands}
    results = {name: np.empty(shape, kind) for name, (shape, kind) in step.outputs.items()}
    kinds = {name: adapter.TYPES[a.dtype] for name, a in (arrays | results).items()}
    for name, value in step.scalars.items():
        kinds[name] = "i64" if isinstance(value, int) else "f32"
    dtype = next((k for k in kinds.values() if k.startswith(("f", "bf"))), "f32")
    shown = {n: k for n, k in kinds.items() if k != dtype or n in results}
    operands = ",".join(f"{n}:{k}" for n, k in sorted(shown.items()))
    kernel(step.formula, dtype, operands).run(arrays | results, step.scalars)
    return results


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_node(case):
    node = case.model.graph.node[0]
    inputs, outputs = case.data_sets[0]
    present = iter(inputs)
    given = [np.asarray(next(present)) if name else None for name in node.input]
    wanted = [np.asarray(x) for x in outputs]
    try:
        steps = adapter.adapt(node, given, wanted)
    except adapter.Outside as reason:
        COUNTS["outside"] += 1
        REASONS[f"{node.op_type}: {reason}"] += 1
        pytest.skip(f"outside: {reason}")
    found: dict[str, np.ndarray] = {}
    for step in steps:
        found |= compute(step, found)
    results = [v for name, v in found.items() if name not in ("k",)]
    if "y" in found and "loss" in found:
        results = [found["y"], *(v for n, v in found.items() if n == "logp")]
    for got, want in zip(results, wanted, strict=False):
        compared = got.reshape(want.shape)
        if want.dtype.kind == "b":
            assert np.array_equal(compared, want)
        else:
            np.testing.assert_allclose(
                compared.astype(np.float64), want.astype(np.float64), rtol=case.rtol, atol=case.atol
            )
    COUNTS["computed"] += 1


def test_counts():
    """Runs last: how many cases were computed, how many are outside, and why."""
    print(f"\nONNX node tests: {COUNTS['computed']} computed, {COUNTS['outside']} outside")
    for reason, count in sorted(REASONS.items()):
        print(f"  {count:3} {reason}")
    assert COUNTS["computed"] + COUNTS["outside"] <= len(CASES)
