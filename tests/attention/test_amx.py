"""AmxAttention against float64, with emulated tile instructions, and on tiles where there are any."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import spec
from tests.gemm_packed.kernels import check
from tests.gemm_packed.test_amx import HAS_TILES, emulated
from tilegen.emit.render import render
from tilegen.errors import CallRefused, IllegalSchedule
from tilegen.runtime import cpu
from tilegen.targets import TARGETS
from tilegen.toolchain import build
from tilegen.toolchain.host import missing_features

CAUSAL = {"causal": True, "lse": True}
SMALL = {"dtype": "bf16", "head_dim": 32, "block": 32, "tiles": 2}


@pytest.fixture(autouse=True)
def needs_avx512():
    missing = missing_features(TARGETS["x86-64-v4"])
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")


@pytest.mark.parametrize(
    "options",
    [
        CAUSAL,
        {"value_dim": 64, "page": 32, "score": "softcap(s, 30)", "mask": "i - j < window"},
    ],
    ids=["causal", "paged"],
)
def test_products_and_masks(options):
    check(emulated(render(spec("amx", **SMALL, **options))))


def test_any_number_of_threads_gives_the_same_bits():
    kernel = emulated(render(spec("amx", **SMALL, **CAUSAL)))
    rng = np.random.default_rng(1)
    kind = kernel.plan.problem.dtype.numpy
    arrays = {n: rng.standard_normal((2, 150, 2, 32)).astype(kind) for n in "qkv"}
    found = []
    for threads in (1, 2, 5):
        o, lse = np.zeros_like(arrays["q"]), np.zeros((2, 2, 150), np.float32)
        kernel.bound({**arrays, "o": o, "lse": lse}, {"scale": 0.2}, threads)()
        found.append(o.tobytes())
    assert len(set(found)) == 1


def test_on_this_machine_it_is_right_or_refused():
    kernel = render(spec("amx", **SMALL))
    loaded = cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
    if HAS_TILES:
        check(loaded)
        return
    arrays = {n: np.zeros((1, 1, 1, 32), kernel.plan.problem.dtype.numpy) for n in "qkvo"}
    with pytest.raises(CallRefused, match="lacks one of amx-tile"):
        loaded.run(arrays, {"scale": 1.0})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dtype": "f32"}, "multiplies bf16, not f32"),
        ({"head_dim": 48}, "head_dim 48 is no multiple of 32"),
        ({"block": 40}, "a multiple of 32, not 40"),
        ({"tiles": 0}, "1 to 64 tiles go together, not 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_numbers(options, words):
    with pytest.raises(IllegalSchedule, match=words):
        spec("amx", **{**SMALL, **options, "schedule": "amx"})
