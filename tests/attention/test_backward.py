"""Gradients of attention: what they mean, what is refused, and any problem in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assembled import assembled
from tests.attention.kernels import simulates
from tests.attention.test_property import CPUS, MASKS, sizes, slow
from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule, UsageError
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.runtime import cpu
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.values import F32
from tilegen.verify.oracle import Case, compare, prepare
from tilegen.verify.simulated import simulate_case


@st.composite
def problems(draw, dtypes, dims, value_dims):
    options = {"dtype": draw(st.sampled_from(dtypes)), "mask": draw(st.sampled_from(MASKS))}
    options["head_dim"] = str(draw(st.sampled_from(dims)))
    options["value_dim"] = str(draw(st.sampled_from(value_dims)))
    options["align"] = draw(st.sampled_from(["bottom_right", "top_left"]))
    if "group" in options["mask"]:
        options["operands"] = "group:i32,group_k:i32"
    elif "lo[" in options["mask"]:
        options |= {"operands": "lo:i32", "rising": "lo"}
    elif "[b]" in options["mask"]:
        options["operands"] = "length:i32" if "length" in options["mask"] else "begin:i32"
    return options


@pytest.mark.parametrize("mask, align", [("", "bottom_right"), ("j <= i", "top_left")])
def test_reference_agrees_with_automatic_differentiation(mask, align):
    torch = pytest.importorskip("torch")
    shape = {"batch": 2, "heads": 4, "kv_heads": 2, "seq_q": 5, "seq_k": 7}
    problem = AttentionBackward(dtype=F32, head_dim=16, value_dim=8, mask=mask, align=align)
    arrays = problem.draw(shape, np.random.default_rng(1))
    found = problem.reference(shape, arrays, problem.draw_scalars(np.random.default_rng(2)))
    scale = problem.draw_scalars(np.random.default_rng(3))["scale"]

    q, k, v, d_o = (torch.tensor(arrays[n].astype(np.float64)) for n in ("q", "k", "v", "d_o"))
    for x in (q, k, v):
        x.requires_grad_()
    wide_k, wide_v = (x.repeat_interleave(2, dim=2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, wide_k) * scale
    if mask:
        s = s.masked_fill(~torch.ones(5, 7).tril().bool(), float("-inf"))
    torch.einsum("bhij,bjhd->bihd", s.softmax(-1), wide_v).backward(d_o)
    for name, x in (("dq", q), ("dk", k), ("dv", v)):
        # o and lse are rounded to float32 on the way in.
        np.testing.assert_allclose(found[name].value, x.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"score": "softcap(s, 30)"}, UsageError, ["--score", "scale * q . k"]),
        ({"lse": "true"}, UsageError, ["--lse", "input"]),
        ({"head_dim": "256"}, IllegalSchedule, ["336 registers", "255"]),
        ({"dtype": "f32"}, IllegalSchedule, ["f16 and bf16"]),
        ({"tile": "64x128"}, IllegalSchedule, ["128 columns", "Legal:"]),
        ({"tile": "256x32"}, IllegalSchedule, ["256 rows", "Legal:"]),
        ({"tile": "64x64", "head_dim": "160"}, IllegalSchedule, ["288 registers", "Legal:"]),
    ],
)
def test_wrong_options_are_refused_in_words(options, error, words):
    with pytest.raises(error) as raised:
        KernelSpec.make("attention_backward", "sm_80", {"dtype": "bf16", **options})
    text = f"{raised.value.message}\n{raised.value.hint}"
    assert all(word in text for word in words), text


BY_KEY = {"mask": "j <= i and group[b,i] == group_k[b,j]", "operands": "group:i32,group_k:i32"}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"head_dim": "96"}, ["head_dim 96", "64 and 128", "mma takes others"]),
        ({"tile": "64x64"}, ["64 keys", "Legal: --tile 128x64"]),
        ({"tile": "128x128"}, ["128 queries", "Legal: --tile 128x64"]),
        ({"stages": "4"}, ["4 stages", "bytes of shared memory", "Legal: --stages 3"]),
        (BY_KEY, ["about 284", "240", "mma takes any mask"]),
        ({"mask": "j <= i and i - j < window"}, ["about 244", "240", "mma takes any mask"]),
    ],
)
def test_wgmma_says_in_numbers_what_does_not_fit(options, words):
    with pytest.raises(IllegalSchedule) as raised:
        KernelSpec.make("attention_backward", "sm_90a", {"schedule": "wgmma", **options})
    text = f"{raised.value.message}\n{raised.value.hint}"
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "target, options, schedule",
    [
        ("sm_90a", {}, "wgmma"),
        ("sm_90a", {"head_dim": "64", **BY_KEY}, "wgmma"),
        ("sm_90a", BY_KEY, "mma"),
        ("sm_90a", {"head_dim": "96"}, "mma"),
        ("sm_80", {}, "mma"),
    ],
)
def test_the_default_is_the_fastest_schedule_that_takes_the_problem(target, options, schedule):
    assert KernelSpec.make("attention_backward", target, options).schedule.name == schedule


def test_sums_in_any_order_need_no_turns_but_zeros():
    kernels = [
        render(KernelSpec.make("attention_backward", "sm_90a", {"ordered": word}))
        for word in ("true", "false")
    ]
    ordered, free = (kernel.files[kernel.source] for kernel in kernels)
    assert "turns[" in ordered and "bulk_store(sums" in ordered
    assert "turns" not in free and "workspace.dq[static_cast" in free
    assert kernels[0].stem != kernels[1].stem


@slow(2)
@given(st.data())
def test_c_kernels(data):
    target = data.draw(st.sampled_from(CPUS))
    options = data.draw(problems(["f32", "f16", "bf16"], [8, 40, 64], [8, 24, 64]))
    kernel = render(KernelSpec.make("attention_backward", target, options))
    loaded = cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
    for seed in range(3):
        case = Case(data.draw(sizes((48, 32))), seed, seed % 2, seed)
        arrays, scalars, expected = prepare(kernel.plan, case)
        loaded.run({n: g.array for n, g in arrays.items()}, scalars)
        worst, where = compare(kernel.plan, arrays, expected)
        assert worst <= 1, f"{kernel.command}\n{case}: {where}"
        assert not any(g.strays() for g in arrays.values()), kernel.command


@pytest.mark.slow
@pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
@slow(4)
@given(st.data())
def test_cuda_kernels_in_the_simulator(data):
    draw = data.draw
    options = draw(problems(["f16", "bf16"], [16, 64, 80, 128], [16, 64, 128]))
    options["tile"] = f"{draw(st.sampled_from([32, 64]))}x{draw(st.sampled_from([16, 32]))}"
    target = draw(st.sampled_from(["sm_80", "sm_90a"]))
    simulates_right(draw, target, {"schedule": "mma", **options}, sizes((64, 43)))


@pytest.mark.slow
@pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
@slow(4)
@given(st.data())
def test_wgmma_kernels_in_the_simulator(data):
    draw = data.draw
    options = draw(problems(["f16", "bf16"], [64, 128], [64, 128]))
    options["ordered"] = draw(st.sampled_from(["true", "false"]))
    if "group" in options["mask"]:
        options |= {
            "head_dim": "64",
            "value_dim": "64",
        }  # others have no registers for operands by key
    simulates_right(draw, "sm_90a", {"schedule": "wgmma", **options}, sizes((128, 64)))


def simulates_right(draw, target, options, shapes):
    """Compile a kernel without spills and simulate a call of it, in some order of events."""
    kernel = render(KernelSpec.make("attention_backward", target, options))
    assembled(kernel)
    chosen = draw(shapes)
    order = draw(st.sampled_from(["deterministic", "lazy", "random"]))
    found = simulate_case(kernel, chosen, Options(order=order, seed=1), multiprocessors=2)
    assert found.ok, f"{kernel.command}\n{chosen} {order}\n{found.text()}"
