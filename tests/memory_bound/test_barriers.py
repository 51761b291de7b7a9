"""Reductions in shared memory: passes that share a buffer keep apart, whatever order the warps run in."""

from __future__ import annotations

import pytest

from tests.test_simulated import CUDA, missing
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Options
from tilegen.verify.oracle import Case, compare, prepare

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")

# Two passes over a row, and the two kinds of reduction, sum and maximum; over the whole array as well.
CASES = {
    "layernorm_bf16": {"rows": 3, "n": 1023},
    "softmax_f32": {"rows": 3, "n": 1023},
    "total_f32": {"rows": 3, "n": 1023},
}


@pytest.mark.parametrize("name", CASES)
def test_C07_C09_passes_that_share_memory_keep_apart(name):
    kernel = next(k for k in CUDA if k.stem.startswith(name))
    problem = kernel.plan.problem
    values = iter(CASES[name].values())
    sizes = {size.name: next(values) for size in problem.sizes()}
    runs = set()
    for seed, order in enumerate(("deterministic", "lazy", "random", "random")):
        runner = SimulatedKernel(kernel, Options(order=order, seed=seed), multiprocessors=2)
        arrays, scalars, expected = prepare(kernel.plan, Case(sizes, 0, 0, 0))
        runner.run({n: g.array for n, g in arrays.items()}, scalars)
        assert not runner.findings
        assert compare(kernel.plan, arrays, expected)[0] <= 1
        written = [t.name for t in problem.tensors() if t.is_written]
        runs.add(b"".join(arrays[n].array.tobytes() for n in written))
    assert len(runs) == 1, "the order of the warps shows in the results"
