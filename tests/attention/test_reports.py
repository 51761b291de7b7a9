"""Public reports of attention gone wrong elsewhere, replayed: shapes and values that broke other kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import C, GPUS, attend, causal, reference, simulates, spec
from tilegen.errors import TilegenError

TARGETS = [
    C,
    *(
        pytest.param(
            t, marks=pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
        )
        for t in GPUS
    ),
]
DTYPES = {C: "f32", "sm_80": "bf16", "sm_90a": "bf16"}
# Relative error of a result: bf16 keeps 8 bits, and its weights are rounded too.
CLOSE = {"f32": 1e-5, "bf16": 8e-3}

both = pytest.mark.parametrize("target", TARGETS)


def draw(rng, batch, seq, heads, dim):
    return rng.standard_normal((batch, seq, heads, dim)).astype(np.float32)


def rounded(x, target):
    import ml_dtypes

    return x if DTYPES[target] == "f32" else x.astype(ml_dtypes.bfloat16).astype(np.float32)


def close(got, want, target):
    error = np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30)
    assert error < CLOSE[DTYPES[target]], error


@both
def test_E01_rows_without_keys_are_zero_and_infect_nothing(target):
    """tracel-ai/burn#4694: -inf minus -inf."""
    rng = np.random.default_rng(1)
    q, k, v = (rounded(draw(rng, 1, 4, 1, 16), target) for _ in range(3))
    hidden = np.array([1, 3], np.int32)
    o = attend(
        target,
        q,
        k,
        v,
        scale=0.25,
        dtype=DTYPES[target],
        head_dim=16,
        mask="keep[i] > 0",
        operands="keep:i32",
        arrays={"keep": np.array([1, 0, 1, 0], np.int32)},
    )
    assert np.all(o[0, hidden] == 0)
    seen = np.array([1, 0, 1, 0], bool)[:, None] & np.ones(4, bool)
    close(o, reference(q, k, v, seen, 0.25)[0], target)


@both
def test_E03_all_negative_scores_behind_a_masked_block(target):
    """Dao-AILab/flash-attention#2082: a maximum that starts at 0 makes the weights vanish."""
    rng = np.random.default_rng(3)
    q = np.full((1, 88, 14, 128), 1.0, np.float32)
    k = -(30 + 30 * rng.random((1, 448, 2, 1), np.float32)) * np.ones((1, 1, 1, 128), np.float32)
    v = np.ones((1, 448, 2, 128), np.float32)
    q, k = rounded(q, target), rounded(k / 128, target)
    o = attend(target, q, k, v, scale=1.0, dtype=DTYPES[target], causal=True)
    close(o, np.ones_like(o), target)


@both
@pytest.mark.parametrize("align", ["bottom_right", "top_left"])
def test_E05_lengths_that_differ(target, align):
    """NVIDIA/cutlass#2336: the causal mask of 3 queries and 128 keys."""
    rng = np.random.default_rng(5)
    q, k, v = (rounded(draw(rng, 1, n, 1, 128), target) for n in (3, 128, 128))
    o = attend(target, q, k, v, scale=0.09, dtype=DTYPES[target], causal=True, align=align)
    close(o, reference(q, k, v, causal(3, 128, align), 0.09)[0], target)


@both
@pytest.mark.parametrize("align, keys", [("bottom_right", 8), ("top_left", 1)])
def test_E07_one_query_sees_all_keys_or_the_first(target, align, keys):
    """pytorch/pytorch#103082: the default is bottom right, and both are there by name."""
    rng = np.random.default_rng(7)
    q, k, v = (rounded(draw(rng, 1, n, 1, 128), target) for n in (1, 8, 8))
    o = attend(target, q, k, v, scale=0.09, dtype=DTYPES[target], causal=True, align=align)
    close(o, reference(q, k, v, np.arange(8) < keys, 0.09)[0], target)


@both
def test_E09_large_values_stay_finite(target):
    """pytorch/pytorch#121558: one key, every element 133120."""
    x = np.full((1, 1, 1, 64), 133120.0, np.float32)
    o = attend(target, x, x, x, scale=0.125, dtype=DTYPES[target], head_dim=64)
    assert np.all(o == 133120.0)


@both
def test_E11_a_mask_value_near_the_smallest_half_gives_no_nan(target):
    """huggingface/transformers#17306: finfo(f16).min plus a score overflowed; f16 and every key."""
    q = np.full((1, 2, 1, 16), 1.0, np.float32)
    k = np.full((1, 5, 1, 16), -1.25, np.float32)
    v = np.arange(5, dtype=np.float32)[None, :, None, None] * np.ones(16, np.float32)
    o = attend(
        target,
        q,
        k,
        v,
        scale=1.0,
        dtype="f16",
        head_dim=16,
        score="s + bias[i,j]",
        arrays={"bias": np.full((2, 5), -65504.0, np.float32)},
    )
    np.testing.assert_allclose(o, 2.0, rtol=2e-3)


@both
@pytest.mark.parametrize("heads, kv_heads", [(32, 8), (28, 4), (12, 12), (64, 8)])
def test_E13_query_heads_read_their_own_head_of_keys(target, heads, kv_heads):
    """PSAL-POSTECH/ONNXim#33: head / kv_heads is right only where the ratio equals kv_heads."""
    rng = np.random.default_rng(13)
    q, k = draw(rng, 1, 5, heads, 16), draw(rng, 1, 9, kv_heads, 16)
    v = np.arange(kv_heads, dtype=np.float32)[:, None] * np.ones((1, 9, kv_heads, 16), np.float32)
    o = attend(target, q, k, v, scale=0.25, dtype=DTYPES[target], head_dim=16)
    want = np.arange(heads) // (heads // kv_heads)
    np.testing.assert_allclose(o, np.broadcast_to(want[:, None], o.shape), rtol=1e-2)


@both
@pytest.mark.parametrize(
    "dim", [40, *(pytest.param(d, marks=pytest.mark.slow) for d in (72, 80, 160, 224)), 96, 256]
)
def test_E15_head_dims_are_right_or_refused_with_numbers(target, dim):
    """flashinfer-ai/flashinfer#528: head dim 224 failed inside, at run time."""
    rng = np.random.default_rng(15)
    try:
        spec(target, dtype=DTYPES[target], head_dim=dim)
    except TilegenError as error:
        assert dim % 16, "multiples of 16 are computed"
        assert str(dim) in error.hint and "16" in error.hint
        return
    q, k, v = (rounded(draw(rng, 1, n, 1, dim), target) for n in (20, 37, 37))
    scale = dim**-0.5
    o = attend(target, q, k, v, scale=scale, dtype=DTYPES[target], head_dim=dim)
    close(o, reference(q, k, v, np.ones((20, 37), bool), scale)[0], target)


@both
def test_E17_log_sum_exp_of_a_row_without_keys_is_minus_infinity(target):
    """flashinfer-ai/flashinfer#4452: a finite value there spoils a later merge."""
    rng = np.random.default_rng(17)
    q, k, v = (rounded(draw(rng, 1, n, 1, 128), target) for n in (4, 2, 2))
    o, lse = attend(target, q, k, v, scale=0.09, dtype=DTYPES[target], causal=True, lse=True)
    want, want_lse = reference(q, k, v, causal(4, 2), 0.09)
    assert np.all(o[0, :2] == 0) and np.all(np.isneginf(lse[0, 0, :2]))
    close(o, want, target)
    np.testing.assert_allclose(lse[0, 0, 2:], want_lse[0, 0, 2:], rtol=1e-5, atol=1e-5)
