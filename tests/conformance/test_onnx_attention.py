"""The Attention cases of the backend node tests that the onnx package carries, in C.

The first output of every case is computed and compared, and so are the present keys and values; an output
that no call gives is listed with the reason. `pytest -n 0 -m '' -s` computes all and prints the counts.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter

import numpy as np
import pytest

from tilegen.emit.render import render
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build

from . import onnx_attention as adapter

onnx = pytest.importorskip("onnx")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    CASES = [
        case
        for case in collect_testcases(None)
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type == "Attention"
    ]

# One of each kind runs always; all of them take a minute of compiling.
ALWAYS = (
    "test_attention_4d_gqa_attn_mask",
    "test_attention_4d_causal_nonpad_batch_prefill",
    "test_attention_local_window_with_past",
    "test_attention_4d_softcap_neginf_mask_poison",
)


@functools.cache
def kernel(options: tuple[tuple[str, str], ...]):
    """A kernel built for this machine's C compiler, and its problem."""
    rendered = render(KernelSpec.make("attention", "portable", dict(options)))
    loaded = cpu.load(rendered.plan, build.library(rendered), rendered.symbol)
    return loaded, rendered.plan.problem


def adapted(case):
    """The node of a case, its inputs, and the call that computes it."""
    node = case.model.graph.node[0]
    present = iter(case.data_sets[0][0])
    given = [np.asarray(next(present)) if name else None for name in node.input]
    return node, given, adapter.adapt(node, given)


def check(case) -> None:
    node, given, call = adapted(case)
    outputs = case.data_sets[0][1]
    loaded, problem = kernel(tuple(sorted(call.options.items())))
    q = call.arrays["q"]
    o = np.full((*q.shape[:3], problem.value_dim), np.nan).astype(q.dtype)
    loaded.run(call.arrays | {"o": o}, call.scalars)
    got = [call.result(o, given[0].ndim), *call.present]
    wanted = dict(zip([n for n in node.output if n], outputs))
    for name, value in zip(node.output[:3], got):
        if name:
            np.testing.assert_allclose(
                value.astype(np.float64),
                np.asarray(wanted[name]).astype(np.float64),
                rtol=case.rtol,
                atol=max(case.atol, 2 * problem.dtype.epsilon),
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
    """How many cases are computed, and what of some is not."""
    lacks = Counter(adapted(case)[2].lacks for case in CASES)
    whole = lacks.pop("", 0)
    print(f"\nONNX Attention node tests: {len(CASES)} computed, {whole} of them whole")
    for reason, count in sorted(lacks.items()):
        print(f"  {count:3} first output only; outside: {reason}")
    assert whole and set(lacks) == {adapter.SCORES}
