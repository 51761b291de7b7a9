"""Few queries in C: those that share a head of keys pass it together, block by block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import C, attend, causal, reference


@pytest.mark.parametrize("seq_q, heads, kv_heads", [(1, 12, 3), (3, 6, 2), (2, 40, 20)])
def test_keys_of_several_blocks_and_a_part(seq_q, heads, kv_heads):
    rng = np.random.default_rng(seq_q)
    shapes = (2, seq_q, heads, 16), (2, 75, kv_heads, 16), (2, 75, kv_heads, 16)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    k[:, 40] *= 30  # a maximum that climbs within a block and scales what was summed
    o, lse = attend(C, q, k, v, scale=0.5, dtype="f32", head_dim=16, causal=True, lse=True)
    want, want_lse = reference(q, k, v, causal(seq_q, 75), 0.5)
    np.testing.assert_allclose(o, want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-5, atol=1e-5)
