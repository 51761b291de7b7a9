"""A paged cache gives the same result as keys in a row; packed sequences the same as each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import C, attend, causal, reference, simulates, spec
from tilegen.errors import FormulaError, IllegalSchedule, UsageError

GPU = pytest.mark.skipif(not simulates(), reason="no nvcc or no C++ compiler")
# cp.async moves rows of any width, the copy engine those of whole 128 bytes.
TARGETS = [
    (C, 16),
    pytest.param("sm_80", 16, marks=[pytest.mark.slow, GPU]),
    pytest.param("sm_90a", 64, marks=GPU),
]


@pytest.mark.parametrize("target, dim", TARGETS)
def test_keys_are_found_by_the_table_and_others_are_not_read(target, dim):
    rng = np.random.default_rng(4)
    lengths, page, seq_pages = np.array([37, 0, 64], np.int32), 16, 4
    pages = rng.permutation(15)[: 3 * seq_pages].reshape(3, seq_pages).astype(np.int32)
    k, v = (np.full((15, page, 2, dim), np.nan, np.float32) for _ in range(2))
    dense = {name: rng.standard_normal((3, 64, 2, dim)).astype(np.float16) for name in "kv"}
    for b, length in enumerate(lengths):
        for j in range(length):
            k[pages[b, j // page], j % page] = dense["k"][b, j]
            v[pages[b, j // page], j % page] = dense["v"][b, j]
    q = rng.standard_normal((3, 2, 6, dim)).astype(np.float16)
    kind = {"dtype": "f32"}
    if target != C:
        kind = {"dtype": "f16", "schedule": "decode", "warps": 1, "stages": 2, "block": 16}
    o = attend(
        target,
        q,
        k,
        v,
        scale=0.25,
        head_dim=dim,
        page=page,
        mask="j < length[b]",
        operands="length:i32",
        arrays={"table": pages, "length": lengths},
        **kind,
    )
    seen = (np.arange(64) < lengths[:, None])[:, None, None, :]
    want = reference(q, dense["k"], dense["v"], seen, 0.25)[0]
    np.testing.assert_allclose(o, want, atol=2e-3 if target != C else 1e-5)


def test_packed_sequences_are_each_by_itself():
    """Sequences one after another, as cumulative lengths say, with the blocks of others left out."""
    rng = np.random.default_rng(5)
    starts = np.cumsum([0, 70, 1, 0, 129, 64])
    q, k, v = (rng.standard_normal((1, starts[-1], 2, 16)).astype(np.float32) for _ in range(3))
    begin = np.repeat(starts[:-1], np.diff(starts)).astype(np.int32)
    o = attend(
        C,
        q,
        k,
        v,
        scale=0.25,
        dtype="f32",
        head_dim=16,
        mask="j >= begin[i] and j <= i",
        operands="begin:i32",
        rising="begin",
        arrays={"begin": begin},
    )
    for first, end in zip(starts, starts[1:]):
        own = [x[:, first:end] for x in (q, k, v)]
        want = reference(*own, causal(end - first, end - first), 0.25)[0]
        np.testing.assert_allclose(o[:, first:end], want, atol=1e-5)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"page": 24}, UsageError, ["--page", "24", "multiple of 16"]),
        ({"page": 16, "tile": "128x64"}, IllegalSchedule, ["64 keys", "page of 16", "Legal:"]),
        ({"page": 16, "score": "s + bias[h,j]"}, FormulaError, ["'bias'", "paged"]),
    ],
)
def test_wrong_options_are_refused_in_words(options, error, words):
    with pytest.raises(error) as raised:
        spec("sm_80", dtype="f16", **options)
    text = f"{raised.value.message}\n{raised.value.hint}"
    assert all(word in text for word in words), text
