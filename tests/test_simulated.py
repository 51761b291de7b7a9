"""Every checked-in CUDA kernel in the simulator: right values, no hazards, in several orders."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ROOT
from tilegen.artifacts import kernel_list
from tilegen.artifacts.check import render_list
from tilegen.errors import ToolMissing
from tilegen.simulate import Options
from tilegen.targets import CudaTarget
from tilegen.toolchain.find import find_cxx, find_nvcc
from tilegen.verify.simulated import simulate_case

KERNELS, _ = render_list(kernel_list.read(ROOT / "tilegen.toml"))
CUDA = [k for k in KERNELS if isinstance(k.spec.target, CudaTarget)]


def missing() -> str:
    try:
        find_nvcc(), find_cxx()
    except ToolMissing as error:
        return error.message
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_own_sizes_with_detectors(kernel):
    found = simulate_case(kernel, {}, Options(), multiprocessors=4)
    assert found.ok, found.text()


@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_adversarial_orders(kernel):
    """One size with tails in every dimension, work completed as late or as oddly as it may be."""
    problem, tile = kernel.plan.problem, kernel.plan.schedule.tile_extents()
    sizes = problem.cases(tile)[-1]
    for order, seed in (("lazy", 0), ("random", 0), ("random", 1)):
        options = Options(order=order, seed=seed, adversarial_elect=True)
        found = simulate_case(kernel, sizes, options, multiprocessors=2)
        assert found.ok, found.text()


def test_plan_shows_conflicts_and_sectors(tilegen):
    """Tiles at the edge of a matrix whose rows are not multiples of 32 bytes share sectors; JSON has the same numbers."""
    ran = tilegen("plan", "transpose", "--target", "sm_80", "--costs")
    assert ran.status == 0 and "global sectors where" in ran.out, ran.err
    ran = tilegen("plan", "transpose", "--target", "sm_80", "--costs", "--json")
    lines = json.loads(ran.out)[0]["costs"]["lines"]
    assert all(entry["sectors"] >= entry["ideal_sectors"] for entry in lines)
    assert any(entry["sectors"] > entry["ideal_sectors"] > 0 for entry in lines)
    sizes = [
        word
        for name, n in json.loads(ran.out)[0]["costs"]["sizes"].items()
        for word in (f"--{name}", n)
    ]
    ran = tilegen("simulate", "transpose", "--target", "sm_80", *sizes, "--costs", "--json")
    assert json.loads(ran.out)[0]["lines"] == lines
