"""Any problem and schedule that the legality rules admit compiles and is right, drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.assembled import assembled
from tests.attention.kernels import simulates, spec
from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule
from tilegen.runtime import cpu
from tilegen.simulate import Options
from tilegen.targets import TARGETS, CpuTarget
from tilegen.toolchain import build
from tilegen.toolchain.host import missing_features
from tilegen.verify.oracle import Case, compare, prepare
from tilegen.verify.simulated import simulate_case

CPUS = [
    t.name
    for t in TARGETS.values()
    if isinstance(t, CpuTarget) and t.machine in ("any", "x86_64") and not missing_features(t)
]
MASKS = ["", "j <= i", "i - j < window", "j <= i and i - j < window", "j % 3 > 0 or j == i"]
MASKS += [
    "j >= lo[b,i] and j <= i",
    "j < length[b]",
    "j <= i and j >= begin[b]",
    "j <= i and group[b,i] == group_k[b,j]",
]
SCORES = ["", "s + slope[h] * (j - i)", "softcap(s, 20)", "s + bias[h,i,j]", "s * gain"]


def slow(examples):
    """Settings for examples that compile a kernel each."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    phases = [Phase.explicit, Phase.reuse, Phase.generate]  # shrinking would compile for minutes
    return settings(
        deadline=None, suppress_health_check=checks, max_examples=examples, phases=phases
    )


@st.composite
def problems(draw, dims, dtypes):
    options = {"dtype": draw(st.sampled_from(dtypes)), "head_dim": draw(st.sampled_from(dims))}
    options["mask"] = draw(st.sampled_from(MASKS))
    options["score"] = draw(st.sampled_from(SCORES))
    options["align"] = draw(st.sampled_from(["bottom_right", "top_left"]))
    options["lse"] = draw(st.booleans())
    options["sinks"] = draw(st.booleans())
    if not any(word in options["mask"] + options["score"] for word in ("k[", "bias")):
        options["page"] = draw(st.sampled_from([0, 0, 16, 64]))
    if "group" in options["mask"]:
        options["operands"] = "group:i32,group_k:i32"
    elif "lo[" in options["mask"]:
        options |= {"operands": "lo:i32", "rising": "lo"}
    elif "[b]" in options["mask"]:
        options["operands"] = "length:i32" if "length" in options["mask"] else "begin:i32"
    return {n: v for n, v in options.items() if v not in ("", False, 0)}


@st.composite
def sizes(draw, tile, page=0):
    kv_heads = draw(st.integers(1, 2))
    found = {
        "batch": draw(st.integers(1, 2)),
        "heads": kv_heads * draw(st.integers(1, 3)),
        "kv_heads": kv_heads,
        "seq_q": draw(st.integers(1, 2 * tile[0] + 3)),
    }
    keys = draw(st.integers(1, 3 * tile[1] + 3))
    if page:
        return found | {"pages": draw(st.integers(1, 9)), "seq_pages": -(-keys // page)}
    return found | {"seq_k": keys}


def legal(target, options, schedule):
    try:
        return spec(target, **options, **schedule)
    except IllegalSchedule:
        return spec(target, **options)


@slow(5)
@given(st.data())
def test_c_kernels(data):
    target = data.draw(st.sampled_from(CPUS))
    options = data.draw(problems([8, 24, 40, 64, 128], ["f32", "f16", "bf16"]))
    micro = f"{data.draw(st.sampled_from([1, 2, 4, 8]))}x{data.draw(st.integers(1, 4))}"
    schedule = {"micro": micro, "block": data.draw(st.sampled_from([8, 16, 64, 128]))}
    kernel = render(legal(target, options, schedule))
    loaded = cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
    for seed in range(3):
        page = kernel.plan.problem.page
        case = Case(data.draw(sizes((48, 64), page)), seed, seed % 2, seed)
        arrays, scalars, expected = prepare(kernel.plan, case)
        loaded.run({n: g.array for n, g in arrays.items()}, scalars)
        worst, where = compare(kernel.plan, arrays, expected)
        assert worst <= 1, f"{kernel.command}\n{case}: {where}"
        assert not any(g.strays() for g in arrays.values()), kernel.command


@pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
@slow(3)
@given(st.data())
def test_cuda_kernels_in_the_simulator(data):
    target = data.draw(st.sampled_from(["sm_80", "sm_90a"]))
    options = data.draw(problems([16, 64, 80, 128, 192], ["f16", "bf16"]))
    tile = f"{data.draw(st.sampled_from([64, 128]))}x{data.draw(st.sampled_from([16, 48, 64, 96, 128]))}"
    decode = {
        "block": data.draw(st.sampled_from([16, 32])),
        "rows": data.draw(st.sampled_from([16, 32])),
        "blocks": data.draw(st.sampled_from([1, 264])),
    }
    schedules = [{"tile": tile}, {"schedule": "decode", **decode}]
    if target == "sm_90a" and "page" not in options:
        schedules.append({"tile": tile, "query_stages": data.draw(st.sampled_from([1, 2]))})
    kernel = render(legal(target, options, data.draw(st.sampled_from(schedules))))
    assembled(kernel)
    extents = kernel.plan.schedule.tile_extents()
    chosen = data.draw(sizes(extents, kernel.plan.problem.page))
    order = data.draw(st.sampled_from(["deterministic", "lazy", "random"]))
    seed = data.draw(st.integers(0, 9))
    found = simulate_case(kernel, chosen, Options(order=order, seed=seed), multiprocessors=2)
    assert found.ok, f"{kernel.command}\n{chosen} {order} {seed}\n{found.text()}"


def test_results_do_not_depend_on_the_number_of_threads():
    kernel = render(spec(CPUS[-1], dtype="f32", causal=True, lse=True))
    loaded = cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
    case = Case({"batch": 2, "heads": 4, "kv_heads": 2, "seq_q": 150, "seq_k": 170}, 0, 0, 5)
    results = []
    for threads in (1, 2, 3, 7):
        arrays, scalars, _ = prepare(kernel.plan, case)
        loaded.run({n: g.array for n, g in arrays.items()}, scalars, num_threads=threads)
        results.append({n: arrays[n].array.copy() for n in ("o", "lse")})
    for other in results[1:]:
        for name, array in other.items():
            np.testing.assert_array_equal(array, results[0][name])
