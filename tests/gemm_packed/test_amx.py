"""AmxGemm: packing and loops against float64 with emulated tile instructions, and on tiles where there are any."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from tests.gemm_packed.kernels import check, emitted
from tilegen.errors import CallRefused, IllegalSchedule
from tilegen.runtime import cpu
from tilegen.targets import TARGETS
from tilegen.toolchain import build
from tilegen.toolchain.host import missing_features
from tilegen.values import BF16

EMULATION = Path(__file__).with_name("amx_emulation.h")
HAS_TILES = not missing_features(TARGETS["amx"])


def amx(schedule: str = "amx", **options: str):
    deep = "64" if options.get("dtype") == "i8" else "32"
    given = {"dtype": "bf16", "tile": f"32x64x{deep}", "schedule": schedule, **options}
    return emitted("amx", **given)


def emulated(kernel) -> cpu.CpuKernel:
    """The kernel with functions in place of the instructions, allowed to run everywhere."""
    text = kernel.files[kernel.source]
    for name in ("has_instructions", "may_use_tiles"):
        pattern = rf"(static int {name}\(void\) {{\n)(.*?)(\n}}\n)"
        text, count = re.subn(pattern, r"\1  return 1;\3", text, flags=re.S)
        assert count == 1
    text = text.replace("#include <immintrin.h>\n", EMULATION.read_text())
    files = {**kernel.files, kernel.source: text}
    changed = dataclasses.replace(kernel, files=files)
    library = build.library(changed, ("-O2", "-w", "-mavx512bw"))
    return cpu.load(kernel.plan, library, kernel.symbol)


@pytest.fixture(autouse=True)
def needs_avx512():
    missing = missing_features(TARGETS["x86-64-v4"])
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")


@pytest.mark.parametrize(
    "schedule, dtype, layout",
    [
        ("amx", "bf16", "tn"),
        ("amx", "i8", "nt"),
        ("prepacked", "bf16", "nt"),
        ("amx_skinny", "bf16", "tn"),
        ("amx_skinny", "i8", "tn"),
    ],
)
def test_dtype_and_layout(schedule, dtype, layout):
    check(emulated(amx(schedule, dtype=dtype, layout=layout)))


@pytest.mark.parametrize("schedule", ["amx", "amx_skinny"])
def test_batches_and_an_epilogue(schedule):
    check(emulated(amx(schedule, batched="true", epilogue="bias_gelu", out_dtype="f32")))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_vectors_multiply_few_rows_and_count_subnormals(rows):
    """Columns and depth end within vectors; up to two rows no element passes through tiles."""
    kernel = emulated(amx("amx_skinny", out_dtype="f32"))
    rng = np.random.default_rng(rows)
    cols, depth = 39, 77
    for scale in (1.0, 2.0**-130):
        a, b = (rng.standard_normal((n, depth)) for n in (rows, cols))
        a, b = a.astype(BF16.numpy), (b * scale).astype(BF16.numpy)
        c = np.full((rows, cols), np.nan, np.float32)
        kernel.run({"a": a, "b": b, "c": c}, {})
        exact_a, exact_b = a.astype(np.float64), b.astype(np.float64)
        bound = 1e-6 * np.abs(exact_a) @ np.abs(exact_b).T + depth * 2.0**-149
        assert (np.abs(c - exact_a @ exact_b.T) <= bound).all()
        assert (c != 0).all()


@pytest.mark.parametrize("dtype", ["bf16", "i8"])
def test_on_this_machine_it_is_right_or_refused(dtype):
    kernel = amx(dtype=dtype)
    loaded = cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
    if HAS_TILES:
        check(loaded)
        return
    arrays = {n: np.zeros((1, 1), kernel.plan.problem.dtype.numpy) for n in "ab"}
    arrays["c"] = np.zeros((1, 1), kernel.plan.problem.out_dtype.numpy)
    with pytest.raises(CallRefused, match="lacks one of amx-tile"):
        loaded.run(arrays, {})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dtype": "f16"}, ["f16", "bf16"]),
        ({"tile": "32x64x40"}, ["40", "32"]),
        ({"tile": "48x64x32"}, ["48", "32"]),
        ({"micro": "16x32"}, ["16x32", "32x32"]),
        ({"tile": "8192x8192x64"}, ["67108864"]),
        ({"schedule": "amx_skinny", "layout": "tt"}, ["amx_skinny", "tt", "tn"]),
        ({"schedule": "amx_skinny", "tile": "64x48x40"}, ["64", "32", "48", "40"]),
    ],
)
def test_an_illegal_schedule_is_refused_with_its_numbers(options, words):
    with pytest.raises(IllegalSchedule) as refused:
        amx(**options)
    text = f"{refused.value.message}\n{refused.value.hint}"
    assert all(word in text for word in words)
