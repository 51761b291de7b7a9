"""The backend node tests that the onnx package carries, on the memory-bound families and GEMM in C.

Every case of an operator in `onnx_nodes.OPERATORS` is computed and compared, or is outside with a reason;
`pytest -n 0 -m '' -s` computes all and prints both counts. Cases of several nodes, which onnx names `expanded`, have
the data of a case of one node.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest

from . import onnx_nodes as adapter
from .onnx_steps import Outside, Work, array, compute

onnx = pytest.importorskip("onnx")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    ALL = collect_testcases(None)
    CASES = [
        case
        for case in ALL
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in adapter.OPERATORS
    ]

# Element types that tilegen has none of; nothing else is outside.
FOREIGN = {"int2", "int4", "int16", "uint2", "uint4", "uint16", "uint32", "uint64"}
FOREIGN |= {"float4_e2m1fn", "string"}

# Some of several steps run always; all of them take a minute of compiling.
ALWAYS = (
    "test_gemm_all_attributes",
    "test_mvn",
    "test_qlinearmatmul_3D_int8_float32",
    "test_rotary_embedding_with_interleaved_rotary_dim",
)


def work(case) -> tuple[Work, list[np.ndarray]]:
    """The kernels of a case and what the node gives. Raises Outside."""
    node = case.model.graph.node[0]
    inputs, outputs = case.data_sets[0]
    present = iter(inputs)
    given = [array(next(present)) if name else None for name in node.input]
    wanted = [array(x) for x in outputs]
    return adapter.adapt(node, given, wanted), wanted


def check(case) -> None:
    """Compute a case and compare every output of the node."""
    try:
        made, wanted = work(case)
    except Outside as reason:
        pytest.skip(f"outside: {reason}")
    found: dict[str, np.ndarray] = {}
    for step in made.steps:
        found |= compute(step, found)
    for name, want in zip(made.results, wanted, strict=True):
        got = found[name].reshape(want.shape)
        if want.dtype.kind == "b":
            assert np.array_equal(got, want)
        else:
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), rtol=case.rtol, atol=case.atol
            )


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ALWAYS], ids=lambda c: c.name)
def test_some_nodes(case):
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c.name not in ALWAYS], ids=lambda c: c.name)
def test_node(case):
    check(case)


@pytest.mark.slow
def test_counts():
    """How many cases are computed, how many are outside, and why."""
    reasons: Counter[str] = Counter()
    for case in CASES:
        try:
            work(case)
        except Outside as reason:
            reasons[str(reason)] += 1
    outside = sum(reasons.values())
    operators = {case.model.graph.node[0].op_type for case in CASES}
    print(
        f"\nONNX node tests of {len(operators)} operators: {len(CASES) - outside} computed, {outside} outside"
    )
    for reason, count in sorted(reasons.items()):
        print(f"  {count:3} {reason}")
    assert set(reasons) == {f"element type {name}" for name in FOREIGN}
    assert all("_expanded" in case.name for case in ALL if len(case.model.graph.node) > 1)
