"""Public reports that a tensor-core GEMM can meet, replayed in the simulator; named by the report's id."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gemm_mma.kernels import needs_simulator, run, simulated

pytestmark = needs_simulator


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def near(got, exact, size, k: int) -> bool:
    """Whether got is exact within the rounding of a float32 sum of k terms and of an f16 store."""
    bound = (4 * k**0.5 + 4) * 2.0**-23 * size + 2.0**-10 * np.abs(exact) + 2.0**-24
    return bool((np.abs(got.astype(np.float64) - exact) <= bound).all())


def product(a, b):
    """Exact a @ b.T and |a| @ |b|.T."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a @ b.T, np.abs(a) @ np.abs(b).T


def test_a01_a_length_of_sums_that_no_slice_divides():
    m, n, k = 200, 199, 1001
    a, b = normal(1, m, k), normal(2, n, k)
    results = []
    for tile, stages in [("128x128x32", s) for s in "234"] + [("64x64x32", "3")]:
        c = np.full((m, n), np.nan, np.float16)
        run(simulated(tile=tile, stages=stages), {"a": a, "b": b, "c": c})
        results.append(c)
    assert near(results[0], *product(a, b), k)
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("blocks", [(16, 1), (1, 16)])
def test_a05_a_grid_of_blocks_gives_what_each_block_gives_alone(blocks):
    m, n, k = 32 * blocks[0], 64 * blocks[1], 64
    a, b = normal(3, m, k), normal(4, n, k)
    whole, alone = np.empty((m, n), np.float16), np.empty((m, n), np.float16)
    kernel = simulated()
    run(kernel, {"a": a, "b": b, "c": whole})
    for i in range(0, m, 32):
        for j in range(0, n, 64):
            part = np.empty((32, 64), np.float16)
            run(kernel, {"a": a[i : i + 32], "b": b[j : j + 64], "c": part})
            alone[i : i + 32, j : j + 64] = part
    assert np.array_equal(whole, alone)


def test_a07_one_row_and_odd_sizes_with_the_default_schedule():
    a, b = normal(5, 1, 107), normal(6, 105, 107)
    c = np.full((1, 105), np.nan, np.float16)
    run(simulated(tile="128x128x32"), {"a": a, "b": b, "c": c})
    assert near(c, *product(a, b), 107)


@pytest.mark.parametrize("k", [16, 48, 80])
def test_a09_odd_multiples_of_a_block_in_a_batch(k):
    a, b = normal(7, 6, 32, k), normal(8, 6, 32, k)
    c = np.full((6, 32, 32), np.nan, np.float16)
    run(simulated(tile="32x32x32", batched="true"), {"a": a, "b": b, "c": c})
    for i in range(6):
        assert near(c[i], *product(a[i], b[i]), k)


def test_b01_column_major_operands_of_two_three_four():
    m, n, k = 2, 4, 3
    a, b = normal(9, k, m), normal(10, n, k)
    c = np.full((m, n), np.nan, np.float16)
    run(simulated(layout="nn"), {"a": a, "b": b, "c": c})
    assert near(c, *product(a.T, b), k)


def test_b03_padded_rows_are_copied_wide_and_stay_as_they_were():
    m, n, k = 37, 41, 43
    wide = {name: normal(seed, rows, 64) for seed, (name, rows) in enumerate((("a", m), ("b", n)))}
    wide["a"][:, k:] = np.nan
    wide["b"][:, k:] = np.inf
    c = np.full((m, 64), 777, np.float16)
    arrays = {"a": wide["a"][:, :k], "b": wide["b"][:, :k], "c": c[:, :n]}
    kernel = simulated()
    launch = kernel.record(arrays, {}).recording.launches[0]
    assert int.from_bytes(launch.params[-1], "little") == 16
    run(kernel, arrays)
    assert near(c[:, :n], *product(arrays["a"], arrays["b"]), k)
    assert (c[:, n:] == 777).all()


@pytest.mark.parametrize("before", [np.nan, np.inf])
def test_b05_beta_of_zero_overwrites_what_c_held(before):
    a, b = normal(11, 20, 40), normal(12, 30, 40)
    c = np.full((20, 30), before, np.float16)
    run(simulated(epilogue="blas"), {"a": a, "b": b, "c": c}, {"alpha": 1.0, "beta": 0.0})
    assert near(c, *product(a, b), 40)


@pytest.mark.parametrize("beta, left", [(0.0, 0.0), (1.0, 3.0)])
def test_b07_alpha_of_zero_reads_neither_a_nor_b(beta, left):
    a, b = np.full((20, 40), np.nan, np.float16), np.full((30, 40), np.nan, np.float16)
    c = np.full((20, 30), 3, np.float16)
    if beta == 0:
        c[:] = np.nan
    run(simulated(epilogue="blas"), {"a": a, "b": b, "c": c}, {"alpha": 0.0, "beta": beta})
    assert (c == left).all()


def test_b11_row_and_column_vectors():
    a, b = normal(13, 96, 24), normal(14, 40, 24)
    exact, size = product(a, b)
    for index, vector in (("n", normal(15, 40)), ("m", normal(16, 96))):
        c = np.full((96, 40), np.nan, np.float16)
        kernel = simulated(epilogue=f"acc + bias[{index}]")
        run(kernel, {"a": a, "b": b, "bias": vector, "c": c})
        added = vector[None, :] if index == "n" else vector[:, None]
        assert near(c, exact + added.astype(np.float64), size, 24)


def test_a_batch_stride_of_zero_broadcasts():
    a, b = normal(17, 3, 33, 17), normal(18, 65, 17)
    c = np.full((3, 33, 65), np.nan, np.float16)
    shared = np.broadcast_to(b, (3, 65, 17))
    run(simulated(batched="true"), {"a": a, "b": shared, "c": c})
    for i in range(3):
        assert near(c[i], *product(a[i], b), 17)


@pytest.mark.parametrize("m, n, k", [(0, 8, 8), (8, 0, 8), (0, 0, 0)])
def test_d11_nothing_to_write_launches_nothing(m, n, k):
    arrays = {"a": normal(1, m, k), "b": normal(2, n, k), "c": np.empty((m, n), np.float16)}
    recording = simulated().record(arrays, {}).recording
    assert recording.status == 0 and not recording.launches and not recording.findings


def test_d11_a_sum_of_nothing_is_zero():
    c = np.full((13, 17), np.nan, np.float16)
    run(
        simulated(),
        {"a": np.empty((13, 0), np.float16), "b": np.empty((17, 0), np.float16), "c": c},
    )
    assert (c == 0).all()


@pytest.mark.parametrize(
    "tile, stages, shared", [("128x128x32", "3", 49152), ("128x128x32", "4", 65536)]
)
def test_d15_shared_memory_is_asked_for(tile, stages, shared):
    """Exactly 48 KB, and more: the recorder refuses a launch that did not opt in to what it uses."""
    arrays = {"a": normal(1, 9, 8), "b": normal(2, 9, 8), "c": np.empty((9, 9), np.float16)}
    recording = simulated(tile=tile, stages=stages).record(arrays, {}).recording
    assert recording.status == 0 and not recording.findings
    assert recording.launches[0].shared_bytes == shared
