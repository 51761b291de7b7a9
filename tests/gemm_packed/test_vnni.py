"""VnniGemm: exact sums of int8 in every layout, at the ends of the range, and past every edge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gemm_packed.kernels import check, emitted, loaded
from tilegen.errors import IllegalSchedule


def vnni(**options):
    given = {"dtype": "i8", "schedule": "vnni", "tile": "24x64x32", **options}
    return loaded("x86-64-vnni", **given)


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_layout(layout):
    check(vnni(layout=layout))


@pytest.mark.parametrize("layout", ["tn", "nt"])
def test_batches_and_float_results(layout):
    check(vnni(layout=layout, batched="true", epilogue="acc * scale[n]", out_dtype="f32"))


@pytest.mark.parametrize("layout", ["tn", "tt"])
@pytest.mark.parametrize("low, high", [(-128, -127), (127, 128), (-128, 128)])
def test_the_ends_of_the_range(layout, low, high):
    rng = np.random.default_rng(1)
    a = rng.integers(low, high, (37, 4001)).astype(np.int8)
    b = rng.integers(low, high, (4001, 70)).astype(np.int8)
    c = np.full((37, 70), 777, np.int32)
    stored = np.ascontiguousarray(b.T) if layout == "tn" else b
    vnni(layout=layout, flags=("-O2",), tile="24x64x512").run({"a": a, "b": stored, "c": c}, {})
    assert np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dtype": "bf16"}, ["bf16"]),
        ({"tile": "24x64x30"}, ["30", "4"]),
        ({"micro": "7x64"}, ["33", "32"]),
    ],
)
def test_an_illegal_schedule_is_refused_with_its_numbers(options, words):
    given = {"dtype": "i8", "schedule": "vnni", "tile": "28x64x32", **options}
    with pytest.raises(IllegalSchedule) as refused:
        emitted("x86-64-vnni", **given)
    text = f"{refused.value.message}\n{refused.value.hint}"
    assert all(word in text for word in words)


def test_a_level_without_the_instruction_is_refused():
    with pytest.raises(IllegalSchedule, match="x86-64-v4"):
        emitted("x86-64-v4", dtype="i8", schedule="vnni")
