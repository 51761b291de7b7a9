"""Latent attention: values are wider than a warp has registers for, and may be the front of the keys."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import attend, reference, simulates, spec
from tilegen.errors import IllegalSchedule

LATENT = {"dtype": "bf16", "head_dim": 576, "value_dim": 512, "schedule": "decode"}


@pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
def test_slices_of_values_share_their_scores():
    rng = np.random.default_rng(7)
    q = rng.standard_normal((1, 1, 3, 576))
    k = rng.standard_normal((1, 37, 1, 576))
    o = attend("sm_90a", q, k, k[..., :512], scale=576**-0.5, **LATENT)
    rounded = [x.astype(spec("sm_90a", **LATENT).problem.dtype.numpy).astype(float) for x in (q, k)]
    everywhere = np.ones((1, 1, 1, 37), bool)
    want = reference(rounded[0], rounded[1], rounded[1][..., :512], everywhere, 576**-0.5)[0]
    np.testing.assert_allclose(o, want, atol=8e-3)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"rows": 32}, ["registers a thread", "255", "Legal:"]),
        ({"warps": 4, "stages": 3}, ["bytes of shared memory", "232448", "Legal:"]),
        ({"head_dim": 592}, ["head_dim 592", "up to 576"]),
        ({"schedule": "wgmma"}, ["576", "up to 256", "decode"]),
    ],
)
def test_what_does_not_fit_is_refused_with_numbers(options, words):
    with pytest.raises(IllegalSchedule) as raised:
        spec("sm_90a", **{**LATENT, **options})
    text = f"{raised.value.message}\n{raised.value.hint}"
    assert all(word in text for word in words), text
