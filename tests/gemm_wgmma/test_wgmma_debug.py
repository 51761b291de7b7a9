"""The debug build: a wait that does not end names its barrier and traps."""

from __future__ import annotations

import dataclasses

import pytest

from tests.test_simulated import missing
from tilegen.emit.render import render
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.spec import KernelSpec
from tilegen.verify.oracle import Case, compare, prepare

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")

# Patience that a simulation has too, and a fault: beyond 72 columns a step awaits more bytes than come.
CHANGES = {
    "kPatience = 1LL << 32": "kPatience = 100000",
    "mbarrier_arrive_expect_tx(full, kStageBytes);": (
        "mbarrier_arrive_expect_tx(full, kStageBytes + (shape.n > 72 ? 16 : 0));"
    ),
}


def test_a_wait_for_bytes_that_never_come_traps_and_others_do_not():
    options = {"dtype": "bf16", "schedule": "wgmma", "tile": "64x64x64", "cluster": "1"}
    kernel = render(KernelSpec.make("gemm", "sm_90a", options))
    text = kernel.files[kernel.source]
    for old, new in CHANGES.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    text = f"#define TILEGEN_DEBUG\n{text}"
    kernel = dataclasses.replace(kernel, files={**kernel.files, kernel.source: text})
    runner = SimulatedKernel(kernel, multiprocessors=2)

    for n, kinds in ((72, set()), (80, {"trap"})):
        arrays, scalars, expected = prepare(kernel.plan, Case({"m": 70, "n": n, "k": 136}, 0, 0, 0))
        runner.run({name: g.array for name, g in arrays.items()}, scalars)
        assert {f.kind for f in runner.findings} == kinds
        assert (compare(kernel.plan, arrays, expected)[0] <= 1) == (not kinds)
    message = runner.findings[0].message
    caller = int(message.split("called from line ")[1].split(")")[0])
    assert "mbarrier_wait(&shared.full" in text.splitlines()[caller - 1]
