"""Decoding where a warp's share of the keys goes round its ring: boxes land in every stage, and again in the first."""

from __future__ import annotations

import pytest

from tests.attention.kernels import simulates, spec
from tilegen.emit.render import render
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Options, run_ptx
from tilegen.simulate.mutate import score
from tilegen.verify.mutation import recorded_case
from tilegen.verify.oracle import Case
from tilegen.verify.simulated import simulate_case

SIZES = {"batch": 1, "heads": 2, "kv_heads": 1, "seq_q": 1, "seq_k": 300}


@pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
def test_every_stage_is_waited_for_and_filled_again():
    """The small cases of a grid give a warp one block of keys; these give it more blocks than stages."""
    kernel = render(spec("sm_90a", dtype="bf16", head_dim=64, schedule="decode", blocks=1, warps=2))
    for order in ("deterministic", "lazy", "random"):
        found = simulate_case(kernel, SIZES, Options(order=order, seed=1))
        assert found.ok, found.text()
    simulated = SimulatedKernel(kernel)
    case = recorded_case(kernel, simulated, Case(SIZES, 0, 0, 1))
    mutants = score(kernel.stem, simulated.ptx, [case], run_ptx, kernel.files[kernel.source], 1)
    assert len(mutants.executed) == len(mutants.verdicts) > 20
    # Before the barrier behind the queries only the lane that initialises the others uses them.
    assert {v.source for v in mutants.survivors} <= {
        "__syncwarp();  // No lane waits on a barrier before it is initialised."
    }
