"""Kernels of sm_80 in the simulator: values, and faults that values do not show."""

from pathlib import Path

import numpy as np
import pytest

from tilegen.simulate import Memory, SimulationError, compile_ptx, report, simulate_ptx

KERNELS = Path(__file__).parent / "kernels"
ORDERS = [{"order": "deterministic"}, {"order": "lazy"}] + [
    {"order": "random", "seed": s} for s in range(4)
]


def line_of(source: str, text: str) -> int:
    lines = (KERNELS / source).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def row_sum(flags=(), rows=5, columns=1000, **options):
    memory, rng = Memory(), np.random.default_rng(0)
    x = rng.standard_normal((rows, columns), np.float32)
    source, target = memory.allocate("x", x, writable=False), memory.allocate("y", rows * 4)
    ptx = compile_ptx(KERNELS / "row_sum.cu", "80", flags)
    outcome = simulate_ptx(
        ptx, (rows, 1, 1), (128, 1, 1), (source, target, columns), memory=memory, **options
    )
    return outcome, target.view(np.float32), x.sum(1, dtype=np.float64)


def tile_product(flags=(), k=96, **options):
    memory, rng = Memory(), np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (16, k)).astype(np.float16), rng.integers(-4, 5, (8, k)).astype(
        np.float16
    )
    buffers = memory.allocate("a", a, writable=False), memory.allocate("b", b, writable=False)
    c = memory.allocate("c", 16 * 8 * 4)
    ptx = compile_ptx(KERNELS / "tile_product.cu", "80", flags)
    outcome = simulate_ptx(ptx, (1, 1, 1), (32, 1, 1), (*buffers, c, k), memory=memory, **options)
    return outcome, c.view(np.float32, (16, 8)), a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("options", ORDERS)
def test_a_reduction_is_right_and_silent(options):
    outcome, result, expected = row_sum(**options)
    assert outcome.ok, report(outcome)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("options", ORDERS)
def test_a_missing_barrier_is_a_race_of_two_lines(options):
    outcome, _, _ = row_sum(["-DMISSING_BARRIER"], **options)
    races = [f for f in outcome.findings if f.kind == "race"]
    lines = {
        line_of("row_sum.cu", "total += partial"),
        line_of("row_sum.cu", "partial[threadIdx.x / 32] = sum"),
    }
    assert races and all(set(race.lines) == lines for race in races), report(outcome)


def test_reading_past_a_buffer_names_it_and_the_byte():
    outcome, _, _ = row_sum(["-DOFF_BY_ONE"], rows=1, columns=1000)
    (finding,) = outcome.findings
    assert finding.kind == "out-of-bounds"
    assert "4 bytes at byte 4000 of 'x', which has 4000 bytes" in finding.message
    assert finding.lines == (line_of("row_sum.cu", "sum += row[i]"),)


@pytest.mark.parametrize("options", ORDERS)
def test_the_tensor_core_path_is_exact_and_silent(options):
    outcome, result, expected = tile_product(**options)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("flag, kind", [("-DLATE_WAIT", "race"), ("-DREUSED_STAGE", "race")])
def test_a_weakened_pipeline_is_found_in_the_deterministic_order(flag, kind):
    outcome, result, expected = tile_product([flag])
    np.testing.assert_array_equal(result, expected)
    assert {f.kind for f in outcome.findings} == {kind}, report(outcome)


def test_an_unknown_form_is_an_error_that_names_every_one():
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
  .reg .b32 %r<4>;
  vset4.u32.u32.eq %r1, %r2, %r3, %r0;
  vabsdiff.s32.s32.s32 %r1, %r2, %r3;
  add.s32 %r1, %r2, %r3;
  ret;
}"""
    with pytest.raises(SimulationError, match="2 PTX forms") as caught:
        simulate_ptx(ptx, (1, 1, 1), (32, 1, 1), (), memory=Memory())
    assert "vset4.u32.u32.eq" in str(caught.value) and "vabsdiff.s32.s32.s32" in str(caught.value)


def test_a_launch_that_does_not_fit_is_refused_with_numbers():
    ptx = compile_ptx(KERNELS / "row_sum.cu", "80")
    with pytest.raises(SimulationError, match="1 parameters; the kernel has 3"):
        simulate_ptx(ptx, (1, 1, 1), (128, 1, 1), (3,), memory=Memory())
