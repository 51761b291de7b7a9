"""Any problem and schedule that the legality rules admit compiles and is right: netlib's ideas, drawn at random."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.gemm_packed.kernels import RUNNABLE
from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.targets import TARGETS
from tilegen.toolchain import build
from tilegen.toolchain.host import missing_features
from tilegen.verify.oracle import Case, compare, prepare

HERE = [t for t in RUNNABLE if not missing_features(TARGETS[t])]
SCALARS = st.sampled_from([0.0, 1.0, -1.0, 0.7, -2.5])


@st.composite
def epilogues(draw):
    """A formula over acc: BLAS, or terms of operands with every index, through an activation."""
    if draw(st.booleans()):
        return "blas"
    operands = ["bias[n]", "scale[m]", "residual[m,n]", "alpha", "2.5", "acc"]
    text = "acc"
    for _ in range(draw(st.integers(0, 3))):
        operator = draw(st.sampled_from(["+", "-", "*"]))
        text = f"({text} {operator} {draw(st.sampled_from(operands))})"
    function = draw(st.sampled_from(["", "relu", "sigmoid", "tanh", "abs"]))
    return f"{function}({text})" if function else text


@st.composite
def kernels(draw):
    target = draw(st.sampled_from(HERE))
    dtype = draw(st.sampled_from(["f32", "f64", "f16", "bf16", "i8"]))
    epilogue = draw(epilogues())
    if dtype == "i8" and epilogue != "blas":
        epilogue = draw(st.sampled_from(["acc", "acc + bias[n]", "relu(acc)"]))
    micro = (draw(st.integers(1, 16)), draw(st.integers(1, 64)))
    vector = TARGETS[target].vector_bytes // (8 if dtype == "f64" else 4)
    if target != "portable":
        micro = (micro[0], max(1, micro[1] // vector) * vector)
    blocks = (
        draw(st.integers(1, 40)),
        micro[1] * draw(st.integers(1, 3)),
        draw(st.integers(1, 40)),
    )
    options = {
        "dtype": dtype,
        "layout": draw(st.sampled_from(["tn", "tt", "nn", "nt"])),
        "epilogue": epilogue,
        "batched": draw(st.sampled_from(["false", "true"])),
        "tile": "x".join(map(str, blocks)),
        "micro": "x".join(map(str, micro)),
        "unroll": str(draw(st.sampled_from([1, 2, 4, 5]))),
        "schedule": "packed",
    }
    if options["batched"] == "true":
        options["epilogue"] = epilogue.replace("[m,n]", "[batch,m,n]")
    return target, options


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(kernels(), st.data())
def test_whatever_is_legal_is_right(drawn, data):
    target, options = drawn
    try:
        spec = KernelSpec.make("gemm", target, options)
    except IllegalSchedule:
        assume(False)
    kernel = render(spec)
    loaded = cpu.load(kernel.plan, build.library(kernel, ("-O1",)), kernel.symbol)
    for seed in range(3):
        sizes = {name: data.draw(st.integers(0, 90)) for name in ("m", "n", "k")}
        if options["batched"] == "true":
            sizes["batch"] = data.draw(st.integers(0, 4))
        case = Case(sizes, data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3)), seed)
        arrays, scalars, _ = prepare(kernel.plan, case)
        scalars = {name: data.draw(SCALARS) for name in scalars}
        before = {name: np.array(g.array) for name, g in arrays.items()}
        expected = kernel.plan.problem.reference(case.sizes, before, scalars)
        run = {name: g.array for name, g in arrays.items()}
        loaded.run(run, scalars, num_threads=data.draw(st.integers(0, 5)))
        worst, where = compare(kernel.plan, arrays, expected)
        assert worst <= 1, f"{kernel.command}\n{case} {scalars}: {where}"
        assert not any(g.strays() for g in arrays.values())
