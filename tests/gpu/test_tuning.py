"""Searches on a GPU: faults cost their candidates alone, and repeated searches agree.

What hangs a GPU or times it wants it alone: `pytest -m slow -n 0 tests/gpu/test_tuning.py`.
"""

from __future__ import annotations

import dataclasses
import re

import pytest

from tilegen.bench.suites import BenchCase
from tilegen.errors import ArgumentError
from tilegen.schedules.gemm_mma import MmaGemm
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.targets import target
from tilegen.toolchain import build
from tilegen.tune import candidates
from tilegen.tune.executors import local
from tilegen.tune.search import Budget
from tilegen.tune.trial import Rules, measure
from tilegen.tune.cases import Settings
from tilegen.tune.tuner import Tuner
from tilegen.values import Tile
from tilegen.verify.oracle import verify

pytestmark = pytest.mark.gpu

CASE = BenchCase("gemm", {"dtype": "f32"}, {"m": 1024, "n": 1024, "k": 1024})
WHERE = target("sm_90a")
HALF = BenchCase("gemm", {"dtype": "f16"}, {}).spec(WHERE).problem
TILES = [("64x32x8", "8x4"), ("64x32x8", "4x8"), ("64x32x8", "8x8"), ("64x32x16", "4x4")]
TILES += [("64x32x16", "8x4"), ("64x32x16", "4x8"), ("64x32x32", "4x4"), ("64x64x8", "8x4")]
SMALL = [SimtGemm(Tile.parse(tile), Tile.parse(own)) for tile, own in TILES]

# What each planted candidate does before it computes; by its place in the space.
HANG = "while (clock64() >= 0) {\n  }\n"
CRASH = "*reinterpret_cast<volatile int *>(static_cast<uintptr_t>(16)) = 1;\n"
PLANTED = {
    1: HANG,
    2: CRASH,
    3: "shape.k = shape.k > 1 ? shape.k - 1 : shape.k;\n",
    4: "this is no C;\n",
    5: f"if (shape.m > 900) {{ {HANG} }}\n",
    6: f"if (shape.m > 900) {{ {CRASH} }}\n",
}


def planted(schedule, problem, where, rank):
    """Emit a candidate, with a fault written into both kernels of some."""
    made = candidates.candidate(schedule, problem, where, rank)
    kernel = made.kernel
    text = kernel.files[kernel.source]
    for call in ("  compute_tiles<kVector>(", "  compute_tiles<1>("):
        assert call in text
        text = text.replace(call, f"  {PLANTED.get(rank, '')}{call}")
    kernel = dataclasses.replace(kernel, files={**kernel.files, kernel.source: text})
    return dataclasses.replace(made, kernel=kernel)


def tuner(folder, emit, schedules, timeout=12.0):
    from tilegen.runtime import gpu

    if gpu.compute_capability() != 90:
        pytest.skip("kernels for sm_90a run on compute capability 9.0 alone")
    rules = Rules("test-gpu", threads=0, rounds=3, seconds=0.004, timeout=timeout)
    settings = Settings(WHERE, folder, Budget(), rules, peers=("torch",))
    return Tuner(settings, local(4, gpu=True), emit, lambda *_: candidates.Space(schedules))


@pytest.mark.slow
def test_candidates_that_hang_crash_err_or_do_not_compile_cost_only_themselves(tmp_path):
    one = tuner(tmp_path, planted, SMALL).tune(CASE, lambda state: None)
    outcomes = one.search.outcomes
    stages = {
        0: "",
        1: "verify",
        2: "verify",
        3: "verify",
        4: "compile",
        5: "time",
        6: "time",
        7: "",
    }
    assert {p: outcomes[p].stage for p in outcomes} == stages, outcomes
    assert "no answer within 12 s, killed" in outcomes[1].reason
    assert "no answer within 12 s, killed" in outcomes[5].reason
    assert "illegal" in outcomes[2].reason and "illegal" in outcomes[6].reason
    assert one.row.schedule in {one.search.candidate(p).schedule for p in (0, 7)}
    assert one.row.peers["torch"] > 0 and one.row.verified


def test_K13_a_launch_that_fails_leaves_nothing_behind():
    from tilegen.runtime import gpu

    kernel = candidates.candidate(MmaGemm.default(HALF, WHERE), HALF, WHERE, 0).kernel
    text = kernel.files[kernel.source]
    # Twenty stages of 16 KB are 320 KB of shared memory.
    more = re.sub(r"constexpr int kStages = \d+;", "constexpr int kStages = 20;", text)
    assert more != text
    bad = dataclasses.replace(kernel, files={**kernel.files, kernel.source: more})
    loaded = [gpu.GpuKernel(k.plan, build.library(k), k.symbol) for k in (bad, kernel)]
    for _ in range(2):
        with pytest.raises(ArgumentError, match="the launcher returned"):
            verify(bad.plan, loaded[0].run, limit=10**6)
        assert verify(kernel.plan, loaded[1].run, limit=10**6).ok


@pytest.mark.slow
def test_K23_the_same_schedule_takes_the_same_time_first_and_last(tmp_path):
    search = tuner(tmp_path, candidates.candidate, SMALL[:5]).tune(CASE, lambda s: None).search
    rules = dataclasses.replace(search.rules, rounds=5)
    again = [measure(search.job(p), search.job(0), search.sizes, rules) for p in [1, *range(5), 1]]
    assert all(outcome.ok for outcome in again)
    assert again[0].speedup == pytest.approx(again[-1].speedup, rel=0.02)


@pytest.mark.slow
def test_K19_K21_repeated_searches_agree(tmp_path):
    """Inputs are rotated past L2, so the ranking does not depend on what the cache still holds."""
    found = []
    for number in range(5):
        search = tuner(tmp_path / str(number), candidates.candidate, SMALL[:5])
        found.append(search.tune(CASE, lambda state: None).row)
    speeds = {name: [row.speedups.get(name, 0.0) for row in found] for name in found[0].speedups}
    best = max(speeds, key=lambda name: sum(speeds[name]))
    for row in found:
        assert row.speedups[row.schedule] >= 0.97 * row.speedups[best]
        assert row.noise < 0.05
