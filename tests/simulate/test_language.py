"""Variables, local arrays, switches, divergent loops, printf, doubles and votes in the simulator."""

from pathlib import Path

import numpy as np
import pytest

from tilegen.simulate import Memory, compile_ptx, report, simulate_ptx

SOURCE = Path(__file__).parent / "kernels" / "language.cu"
LANES = np.arange(32)


def run(kernel, *inputs, dtype=np.int32, **options):
    memory = Memory()
    buffers = [memory.allocate(f"x{i}", x, writable=False) for i, x in enumerate(inputs)]
    y = memory.allocate("y", np.zeros(32, dtype))
    ptx = compile_ptx(SOURCE, "80")
    outcome = simulate_ptx(
        ptx, (1, 1, 1), (32, 1, 1), (*buffers, y), memory=memory, kernel=kernel, **options
    )
    assert outcome.ok, report(outcome)
    return y.view(dtype)


def test_module_variables_have_their_initial_values():
    np.testing.assert_array_equal(run("variables"), np.array([3, 5, 7, 11])[LANES % 4] + 80)


def test_arrays_in_local_memory():
    x = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
    np.testing.assert_array_equal(run("local_array", x), x[x[LANES % 8] % 8] * (LANES + 1))


@pytest.mark.parametrize("options", [{}, {"order": "random", "seed": 3}])
def test_switches_and_divergence(options):
    x = (LANES * 37 % 101).astype(np.int32)
    cases = [10 + 0 * x, x * 3, -x, x << 2, x ^ 99, 1000 // (x + 1), 0 * x - 1]
    np.testing.assert_array_equal(run("branches", x, **options), np.choose(x % 7, cases))


def collatz(i):
    n = 0
    while i not in (0, 1):
        i = i // 2 if i % 2 == 0 else 3 * i + 1
        n += 1
    return n


def test_loops_of_different_lengths():
    np.testing.assert_array_equal(run("loops"), [collatz(int(i)) for i in LANES])


def test_printf_prints_nothing_and_is_no_fault():
    assert (run("prints") == 4).all()


def test_doubles():
    x = np.linspace(0.1, 9.0, 32)
    expected = np.sqrt(x) / (1.0 + x) + (x * x - 1.0) + np.exp(-x)
    np.testing.assert_allclose(run("doubles", x, dtype=np.float64), expected, rtol=1e-14)


def test_votes_and_reductions():
    np.testing.assert_array_equal(run("votes"), 16 + 496 + 8 + 1 + 0 * LANES)
