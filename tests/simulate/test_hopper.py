"""Kernels of sm_90a in the simulator: right and silent as written, found when weakened."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilegen.simulate import Memory, SimulationError, TensorMap, compile_ptx, report, simulate_ptx

KERNELS = Path(__file__).parent / "kernels"
BF16 = np.dtype(ml_dtypes.bfloat16)
ORDERS = [{"order": "deterministic"}, {"order": "lazy"}]
ORDERS += [{"order": "random", "seed": s, "adversarial_elect": True} for s in range(6)]


def matrix_map(buffer, rows, columns, box_rows, box_columns=64):
    return TensorMap(
        "tiled",
        "bf16",
        buffer.address,
        (columns, rows),
        (columns * 2,),
        (box_columns, box_rows),
        (1, 1),
        swizzle="128b",
    )


def staged_copy(flags=(), boxes=7, **options):
    memory, rng = Memory(), np.random.default_rng(0)
    x = rng.integers(-8, 9, (boxes * 8 - 3, 64)).astype(BF16)
    source, target = memory.allocate("x", x, writable=False), memory.allocate("y", x.nbytes)
    maps = (matrix_map(source, len(x), 64, 8), matrix_map(target, len(x), 64, 8))
    ptx = compile_ptx(KERNELS / "staged_copy.cu", "90a", flags)
    outcome = simulate_ptx(ptx, (1, 1, 1), (160, 1, 1), (*maps, boxes), memory=memory, **options)
    return outcome, target.view(BF16, x.shape), x + np.ones((), BF16)


def warpgroup_product(flags=(), k=256, **options):
    memory, rng = Memory(), np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, k)).astype(BF16), rng.integers(-4, 5, (64, k)).astype(BF16)
    left, right = memory.allocate("a", a, writable=False), memory.allocate("b", b, writable=False)
    c = memory.allocate("c", 64 * 64 * 4)
    maps = (matrix_map(left, 64, k, 64), matrix_map(right, 64, k, 64))
    ptx = compile_ptx(KERNELS / "warpgroup_product.cu", "90a", flags)
    outcome = simulate_ptx(ptx, (1, 1, 1), (128, 1, 1), (*maps, c, k), memory=memory, **options)
    return outcome, c.view(np.float32, (64, 64)), a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("options", ORDERS, ids=str)
@pytest.mark.parametrize("boxes", [1, 2, 3, 7])
def test_a_pipeline_of_bulk_copies_is_exact_and_silent(boxes, options):
    outcome, result, expected = staged_copy(boxes=boxes, **options)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_a_warpgroup_product_is_exact_and_silent(options):
    outcome, result, expected = warpgroup_product(**options)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "flag, kind",
    [
        ("NO_INIT_FENCE", "mbarrier"),
        ("EARLY_RELEASE", "race"),
        ("NO_WARP_SYNC", "race"),
        ("NO_READ_WAIT", "race"),
        ("NO_PROXY_FENCE", "proxy"),
        ("NO_LAST_WAIT", "pending-at-exit"),
        ("WRONG_PARITY", "deadlock"),
        ("WRONG_BYTES", "deadlock"),
    ],
)
def test_a_weakened_pipeline_is_found_in_the_deterministic_order(flag, kind):
    outcome, result, expected = staged_copy([f"-D{flag}"])
    assert kind in {f.kind for f in outcome.findings}, report(outcome)
    if kind != "deadlock":
        np.testing.assert_array_equal(result, expected)


def test_a_deadlock_says_who_waits_on_what():
    outcome, _, _ = staged_copy(["-DWRONG_BYTES"])
    (finding,) = [f for f in outcome.findings if f.kind == "deadlock"]
    assert "parity 0: phase 0, 0 of 1 arrivals pending, tx-count 16" in finding.message


@pytest.mark.parametrize("flag, kind", [("LATE_WAIT", "race"), ("NO_MATRIX_FENCE", "wgmma")])
def test_a_weakened_product_is_found_though_its_values_are_right(flag, kind):
    outcome, result, expected = warpgroup_product([f"-D{flag}"])
    np.testing.assert_array_equal(result, expected)
    kinds = {f.kind for f in outcome.findings} - {"static"}
    assert kinds == {kind}, report(outcome)


def test_completion_as_late_as_waits_permit_makes_the_late_wait_visible_in_values():
    _, result, expected = warpgroup_product(["-DLATE_WAIT"], order="lazy")
    assert np.any(result != expected)


@pytest.mark.parametrize("strict, kinds", [(False, set()), (True, {"race"})])
def test_whether_a_wait_covers_the_other_warps_of_a_warpgroup_is_a_choice(strict, kinds):
    outcome, _, _ = warpgroup_product(["-DNO_STAGE_BARRIER"], strict_wgmma=strict)
    assert {f.kind for f in outcome.findings} == kinds, report(outcome)


def test_a_launch_beyond_the_shared_memory_of_its_target_is_refused():
    memory = Memory()
    buffer = memory.allocate("x", 1024)
    arguments = (matrix_map(buffer, 8, 64, 8), matrix_map(buffer, 8, 64, 8), 1)
    ptx = compile_ptx(KERNELS / "staged_copy.cu", "90a")
    with pytest.raises(SimulationError, match="sm_90a allows 232448"):
        simulate_ptx(ptx, (1, 1, 1), (160, 1, 1), arguments, memory=memory, shared_bytes=230_000)
