"""Both simulators against what an H200 computed, form by form.

Bitwise for integers, IEEE arithmetic, conversions, layouts and copies; within a bound for approximations and for sums
of tensor cores. `record_vectors.py` records anew after a change of a vector.
"""

from __future__ import annotations

import functools
import zlib
from pathlib import Path

import numpy as np
import pytest

from tilegen.simulate import Options, run_ptx
from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend import run_numpy
from tilegen.simulate.parse import parse
from vectors.model import Group, expected_difference
from vectors.replay import groups, replay

RECORDED = np.load(Path(__file__).parent / "vectors" / "recorded.npz")
GROUPS = groups()
parsed = functools.lru_cache(maxsize=None)(parse)


def pools(name: str) -> np.ndarray:
    return RECORDED[f"in/{name}"]


def test_every_vector_is_recorded_as_it_is():
    recorded = dict(zip(RECORDED["names"].tolist(), RECORDED["ptx"].tolist()))
    present = {v.name: zlib.crc32(v.ptx.encode()) for g in GROUPS for v in g.vectors}
    assert recorded == present


def differences(group: Group, backend) -> list[str]:
    found = []
    for vector in group.vectors:
        try:
            got = replay(vector, backend, pools)
        except SimulationError as error:
            found.append(f"{vector.name}: {error.message}")
            continue
        found.append(expected_difference(vector, got, RECORDED[f"out/{vector.name}"]))
    return [line for line in found if line]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_numpy_backend(group):
    module = parsed(group.ptx)
    found = differences(group, lambda launch, memory: run_numpy(module, launch, memory))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_core(group):
    ptx = group.ptx

    def core(launch, memory):
        outcome = run_ptx(ptx, launch, memory, Options(max_steps=1_000_000))
        if outcome.findings:
            raise SimulationError(outcome.findings[0].message)

    found = differences(group, core)
    assert not found, "\n".join(found)


def test_the_comparison_sees_one_wrong_bit():
    vector = GROUPS[0].vectors[0]
    want = RECORDED[f"out/{vector.name}"]
    wrong = want.copy()
    wrong[5] ^= 1
    assert "first at byte 5" in expected_difference(vector, wrong, want)
    bounded = next(v for g in GROUPS for v in g.vectors if v.compare == "f4")
    want = RECORDED[f"out/{bounded.name}"]
    far = want.copy()
    far.view(np.float32)[np.flatnonzero(np.isfinite(want.view(np.float32)))[3]] += 1
    assert "outside" in expected_difference(bounded, far, want)
