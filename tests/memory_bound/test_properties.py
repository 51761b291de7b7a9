"""Any formula of a family under any legal schedule is right: drawn, built and run against float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilegen import registry
from tilegen.emit.render import render
from tilegen.problems.formula import FormulaProblem
from tilegen.runtime import cpu
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.targets import target
from tilegen.toolchain import build
from tilegen.verify.oracle import Case, compare, prepare
from tilegen.verify.simulated import simulate_case

TERMS = ["x[m,n]", "x[m,n] * w[n]", "x[m,n] + s[m]", "abs(x[m,n]) * alpha", "silu(x[m,n]) - w[n]"]
REDUCTIONS = ["sum", "mean", "max", "min", "logsumexp"]


@st.composite
def formulas(draw):
    """A formula of one of the five families."""
    term = draw(st.sampled_from(TERMS))
    op = draw(st.sampled_from(REDUCTIONS))
    return draw(
        st.sampled_from(
            [
                f"y[m,n] = {term}",
                f"y[m] = {op}({term}, n)",
                f"y[m,n] = x[m,n] - {op}({term}, n)",
                f"k[m] = {op}({term}, n); y[m,n] = tanh({term}) * {op}(x[m,n], n)",
                f"y[n] = {op}({term}, m)",
                f"y[m,n] = x[m,n] - {op}({term}, m)",
                f"y = {op if op != 'logsumexp' else 'sum'}({term}, (m, n))",
                f"y[n,m] = {term} + z[n,m]",
            ]
        )
    )


@st.composite
def kernels(draw, where):
    """A formula, an element type and a legal schedule."""
    text, dtype = draw(formulas()), draw(st.sampled_from(["f32", "bf16", "f16", "f64"]))
    problem = FormulaProblem(formula=text, dtype=dtype)
    chosen = registry.schedule_class(problem, target(where))
    schedule = draw(st.sampled_from(sorted(set(chosen.space(problem, target(where))), key=str)))
    return KernelSpec(problem, schedule, target(where))


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(kernels("portable"), st.integers(0, 90), st.integers(1, 2300), st.integers(0, 2), st.data())
def test_c_kernels(spec, m, n, offset, data):
    rendered = render(spec)
    loaded = cpu.load(rendered.plan, build.library(rendered), rendered.symbol)
    pad = data.draw(st.integers(0, 5))
    case = Case({"m": m, "n": n}, pad, offset, 7)
    arrays, scalars, expected = prepare(rendered.plan, case)
    loaded.run({name: g.array for name, g in arrays.items()}, scalars)
    worst, where = compare(rendered.plan, arrays, expected)
    assert worst <= 1, f"{rendered.command}: {where}"
    for name, place in arrays.items():
        assert not place.strays(), f"{rendered.command}: wrote outside {name}"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sm_75", "sm_80", "sm_90a"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), m=st.integers(0, 40), n=st.integers(1, 1300))
def test_cuda_kernels(where, data, m, n):
    """Simulated: values, races, stray accesses."""
    rendered = render(data.draw(kernels(where)))
    found = simulate_case(rendered, {"m": m, "n": n}, Options(order="random"), multiprocessors=2)
    assert found.ok, f"{rendered.command} {m} {n}: {found.text()}"


@pytest.mark.parametrize("where", ["sm_75", "sm_80", "sm_90a", "portable", "x86-64-v4"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_legal_schedule_renders_clean_text(where, data):
    spec = data.draw(kernels(where))
    assert render(spec).files
    np.testing.assert_equal(spec.schedule.violations(spec.problem, spec.target), [])
