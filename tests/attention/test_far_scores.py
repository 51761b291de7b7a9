"""Scores far above those of the blocks before them: wgmma kernels weigh first and look for maxima only then."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import attend, causal, reference, simulates

pytestmark = pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")


def climbing(rng, seq_q, seq_k, dim, step):
    """q and k whose scores rise by `step` from each 64 keys to those before, in odd rows; in even ones they fall."""
    q = rng.standard_normal((1, seq_q, 2, dim)) * 0.1
    k = rng.standard_normal((1, seq_k, 1, dim)) * 0.1
    q[..., 0] = np.where(np.arange(seq_q) % 2, 4.0, -4.0)[None, :, None]
    level = (seq_k - 1) // 64 - np.arange(seq_k) // 64
    k[..., 0] += (level * step / 4.0)[None, :, None]
    return q, k, rng.standard_normal((1, seq_k, 1, dim))


@pytest.mark.parametrize(
    "step, options",
    [
        # Below what the sums of weights may reach, above it, and beyond any float's exponent.
        (5.0, {"dtype": "bf16", "head_dim": 64, "causal": True}),
        (9.0, {"dtype": "bf16", "head_dim": 64, "causal": True, "score": "softcap(s, 30)"}),
        # Nowhere near the cap, where a polynomial is the tanh.
        (2.0, {"dtype": "bf16", "head_dim": 64, "causal": True, "score": "softcap(s, 30)"}),
        (400.0, {"dtype": "bf16", "head_dim": 64, "causal": True}),
        # Queries that stay in shared memory; halves, whose largest number is near.
        (12.0, {"dtype": "f16", "head_dim": 192}),
    ],
)
def test_maxima_that_climb_are_caught_up_with(step, options):
    rng = np.random.default_rng(7)
    seq_q, seq_k = 70, 400
    q, k, v = climbing(rng, seq_q, seq_k, options["head_dim"], step)
    kind = np.float16 if options["dtype"] == "f16" else __import__("ml_dtypes").bfloat16
    q, k, v = (x.astype(kind).astype(np.float64) for x in (q, k, v))
    o, lse = attend("sm_90a", q, k, v, scale=1.0, lse=True, tile="128x64", **options)
    seen = causal(seq_q, seq_k) if options.get("causal") else np.ones((seq_q, seq_k), bool)
    want, want_lse = reference(q, k, v, seen, 1.0, cap=30 if "score" in options else 0)
    assert np.linalg.norm(o - want) < 8e-3 * np.linalg.norm(want)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-5, atol=4e-3 if "score" in options else 1e-3)
