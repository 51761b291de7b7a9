"""Faults of one kind each, and the orderings through global memory that make no fault."""

from pathlib import Path

import numpy as np
import pytest

from tilegen.simulate import Memory, as_json, compile_ptx, report, simulate_ptx

KERNELS = Path(__file__).parent / "kernels"
ORDERS = [{"order": "deterministic"}] + [{"order": "random", "seed": s} for s in range(4)]


def split_sum(flags=(), blocks=5, **options):
    memory = Memory()
    x = np.arange(blocks * 64, dtype=np.float32)
    source = memory.allocate("x", x, writable=False)
    partial, y = memory.allocate("partial", blocks * 4), memory.allocate("y", 4)
    arrivals = memory.allocate("arrivals", np.zeros(1, np.uint32))
    ptx = compile_ptx(KERNELS / "split_sum.cu", "80", flags)
    arguments = (source, partial, arrivals, y, 64)
    outcome = simulate_ptx(
        ptx, (blocks, 1, 1), (32, 1, 1), arguments, memory=memory, kernel="split_sum", **options
    )
    return outcome, y.view(np.float32)[0], x.sum()


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_fences_around_an_atomic_order_blocks(options):
    outcome, result, expected = split_sum(**options)
    assert outcome.ok, report(outcome)
    assert result == expected


@pytest.mark.parametrize("flag", ["NO_FENCE", "NO_READER_FENCE"])
def test_without_a_fence_the_partial_sums_are_a_race_between_blocks(flag):
    outcome, result, expected = split_sum([f"-D{flag}"])
    assert result == expected
    (finding,) = outcome.findings
    assert finding.kind == "race" and "partial" in finding.message


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_blocks_that_wait_for_each_other_are_run_together(options):
    memory = Memory()
    arrivals = memory.allocate("arrivals", np.zeros(1, np.uint32))
    values, sums = memory.allocate("values", 6 * 4), memory.allocate("sums", 6 * 4)
    ptx = compile_ptx(KERNELS / "split_sum.cu", "80")
    outcome = simulate_ptx(
        ptx,
        (6, 1, 1),
        (32, 1, 1),
        (arrivals, values, sums),
        memory=memory,
        kernel="grid_barrier",
        **options,
    )
    assert outcome.ok, report(outcome)
    assert (sums.view(np.int32) == 21).all()


def test_two_blocks_that_write_one_place_race():
    memory = Memory()
    y = memory.allocate("y", 8)
    ptx = compile_ptx(KERNELS / "split_sum.cu", "80")
    outcome = simulate_ptx(ptx, (4, 1, 1), (32, 1, 1), (y,), memory=memory, kernel="same_place")
    assert [f.kind for f in outcome.findings] == ["race"]


def neighbours(flags=(), **options):
    memory = Memory()
    x = np.arange(128, dtype=np.int32)
    source, target = memory.allocate("x", x, writable=False), memory.allocate("y", 128 * 4)
    ptx = compile_ptx(KERNELS / "neighbours.cu", "90a", flags)
    outcome = simulate_ptx(
        ptx, (4, 1, 1), (32, 1, 1), (source, target), memory=memory, cluster=(2, 1, 1), **options
    )
    return outcome, target.view(np.int32), x.reshape(2, 2, 32)[:, ::-1].reshape(-1)


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_blocks_of_a_cluster_read_each_other(options):
    outcome, result, expected = neighbours(**options)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "flag, kinds",
    [("NO_FIRST_SYNC", {"race", "uninitialised"}), ("NO_LAST_SYNC", {"pending-at-exit"})],
)
def test_a_missing_cluster_barrier_is_found(flag, kinds):
    found = set()
    for options in ORDERS:
        outcome, _, _ = neighbours([f"-D{flag}"], **options)
        found |= {f.kind for f in outcome.findings}
    assert kinds <= found


MISUSE = {
    "no_warp_sync": ("race", 32, "another lane of the same warp"),
    "with_warp_sync": (None, 32, ""),
    "divergent_barrier": ("deadlock", 32, "bar.sync waits for lanes"),
    "early_exit": ("barrier", 64, "because the others have exited"),
    "misaligned": ("misaligned", 32, "not a multiple of 16"),
    "uninitialised": ("uninitialised", 32, "which nothing has written"),
    "stops": ("trap", 32, "trap was executed"),
    "endless": ("deadlock", 32, "spins without end"),
    "too_many_arrivals": ("mbarrier", 32, "arrival in phase 1"),
    "plain_access_to_barrier": ("mbarrier", 32, "which holds an mbarrier"),
}


@pytest.mark.parametrize("kernel", MISUSE)
def test_misuse(kernel):
    kind, threads, text = MISUSE[kernel]
    memory = Memory()
    y = memory.allocate("y", np.full(256, 7, np.int32))
    ptx = compile_ptx(KERNELS / "misuse.cu", "90a")
    outcome = simulate_ptx(ptx, (1, 1, 1), (threads, 1, 1), (y,), memory=memory, kernel=kernel)
    assert {f.kind for f in outcome.findings} == ({kind} if kind else set()), report(outcome)
    assert text in report(outcome)


def test_writing_to_a_read_only_buffer_is_found():
    memory = Memory()
    y = memory.allocate("y", np.zeros(256, np.int32), writable=False)
    ptx = compile_ptx(KERNELS / "misuse.cu", "90a")
    outcome = simulate_ptx(ptx, (1, 1, 1), (32, 1, 1), (y,), memory=memory, kernel="with_warp_sync")
    assert [f.kind for f in outcome.findings] == ["read-only"]
    assert not y.data.any()


def test_costs_are_counted_for_each_instruction():
    memory = Memory()
    x, y = memory.allocate("x", np.ones(1024, np.int32), writable=False), memory.allocate("y", 128)
    ptx = compile_ptx(KERNELS / "misuse.cu", "90a")
    outcome = simulate_ptx(ptx, (1, 1, 1), (32, 1, 1), (x, y), memory=memory, kernel="conflicts")
    assert outcome.ok, report(outcome)
    assert (y.view(np.int32) == 32).all()
    stores = [c for c in outcome.counters if c.text.startswith("st.shared") and c.executions]
    loads = [c for c in outcome.counters if c.text.startswith("ld.shared") and c.executions]
    assert all(c.wavefronts == c.ideal_wavefronts for c in stores)
    assert all(c.wavefronts > 7 * c.ideal_wavefronts for c in loads)
    assert "bank conflicts" in report(outcome)
    assert sum(c["wavefronts"] for c in as_json(outcome)["counters"]) == sum(
        c.wavefronts for c in outcome.counters
    )
