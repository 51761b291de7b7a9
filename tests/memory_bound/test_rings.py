"""Rows that registers cannot hold, in the rings of one block, of several, and past the longest ring."""

from __future__ import annotations

import pytest

from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.verify.simulated import simulate_case

# So few columns in registers and in a ring that short rows need several blocks.
SMALL = {"longest": "8", "values": "8", "slots": "4", "cluster": "2"}


def test_rows_in_rings():
    spec = KernelSpec.make("add_rmsnorm", "sm_90a", {"dtype": "bf16", **SMALL})
    kernel = render(spec)
    rings = [(r.blocks, r.columns, r.keeps) for r in kernel.plan.rings]
    assert rings == [(1, 16384, 1), (2, 32768, 1), (2, 49152, 0)]
    # One block of several rows; rows askew; two blocks, the second of which has less; blocks that do not keep
    # the vector; longer than both hold.
    for m, n in ((5, 16000), (3, 9001), (5, 30000), (3, 40000), (2, 49152), (1, 49160)):
        found = simulate_case(kernel, {"m": m, "n": n}, Options(), multiprocessors=2)
        assert found.ok, found.text()


@pytest.mark.parametrize(
    "operator, options, slots",
    [
        ("softmax", {"dtype": "bf16"}, 13),
        ("softmax", {"dtype": "bf16", "slots": "5"}, 5),
        (
            "layernorm",
            {"dtype": "bf16"},
            13,
        ),  # half as many, half as long: two blocks a multiprocessor
        ("add_rmsnorm", {"dtype": "f32"}, 6),
        ("sum", {"dtype": "f32"}, 0),  # one pass reads a row once
        ("y[m,n] = x[m,n] / sum(x[m,n] * r[m,n], n)", {"operands": "r:f32", "dtype": "bf16"}, 0),
    ],
)
def test_who_has_a_ring(operator, options, slots):
    plan = render(KernelSpec.make(operator, "sm_90a", options)).plan
    assert plan.slots == slots and bool(plan.rings) == (slots > 0)
    assert not render(KernelSpec.make(operator, "sm_80", options)).plan.rings


def test_a_ring_fits_shared_memory():
    with pytest.raises(
        IllegalSchedule,
        match="14 slots of 16384 bytes and 8192 more need 237568 bytes of shared memory; sm_90a allows 232448",
    ):
        KernelSpec.make("softmax", "sm_90a", {"dtype": "bf16", "slots": "14"})
