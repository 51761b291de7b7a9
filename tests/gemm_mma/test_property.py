"""Any schedule that the legality rules admit compiles without spills and is right: drawn, built, simulated."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.assembled import assembled
from tests.gemm_mma.kernels import needs_simulator
from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.verify.oracle import Case, compare, prepare

EPILOGUES = ["none", "blas", "bias_relu", "acc * scale[m] + residual[m,n]"]


@st.composite
def kernels(draw):
    dtype = draw(st.sampled_from(["f16", "bf16", "tf32", "i8"]))
    sixteen = dtype in ("f16", "bf16")
    pair = {"f16": 32, "bf16": 32, "tf32": 16, "i8": 64}[dtype]
    warps = (draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4])))
    tile = (
        16 * warps[0] * draw(st.integers(1, 4)),
        16 * warps[1] * draw(st.integers(1, 4)),
        pair * draw(st.integers(1, 2)),
    )
    return draw(st.sampled_from(["sm_80", "sm_86", "sm_90a"])), {
        "schedule": "mma",
        "dtype": dtype,
        "layout": draw(st.sampled_from(["tn", "tt", "nn", "nt"])) if sixteen else "tn",
        "epilogue": draw(st.sampled_from(EPILOGUES)) if dtype != "i8" else "none",
        "tile": "x".join(map(str, tile)),
        "warps": "x".join(map(str, warps)),
        "stages": str(draw(st.integers(2, 5))),
        "group": str(draw(st.sampled_from([1, 3, 8]))),
    }


@needs_simulator
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(kernels(), st.data())
def test_whatever_is_legal_is_right(drawn, data):
    where, options = drawn
    try:
        spec = KernelSpec.make("gemm", where, options)
    except IllegalSchedule:
        assume(False)
    kernel = render(spec)
    assert assembled(kernel)
    simulated = SimulatedKernel(kernel, Options(order="random", seed=1))
    for seed in range(3):
        sizes = {
            name: data.draw(st.integers(0, 2 * extent + 5))
            for name, extent in zip("mnk", spec.schedule.tile)
        }
        case = Case(sizes, data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3)), seed)
        arrays, scalars, expected = prepare(kernel.plan, case)
        simulated.run({name: g.array for name, g in arrays.items()}, scalars)
        worst, at = compare(kernel.plan, arrays, expected)
        assert worst <= 1, f"{kernel.command}\n{case}: {at}"
        assert not any(g.strays() for g in arrays.values())
        assert not simulated.findings, simulated.findings[:3]
