"""Attention as a problem: what its options mean, what its mask proves, what is refused and how."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attention.kernels import causal, reference, spec
from tilegen.emit.render import render
from tilegen.errors import FormulaError, IllegalSchedule, UsageError
from tilegen.problems.attention import Attention
from tilegen.problems.attention_mask import key_range, reads_distance
from tilegen.problems.attention_score import CappedScore, SlopedScore, short_score
from tilegen.values import BF16, F32


def test_the_causal_mask_has_one_name():
    assert Attention(mask="j<=i") == Attention(causal=True)
    assert Attention(mask="j<=i").tokens() == Attention(causal=True).tokens()


@pytest.mark.parametrize(
    "mask, ends, firsts",
    [
        ("j <= i", [{"i": 1, "": 1}], []),
        ("i >= j", [{"i": 1, "": 1}], []),
        ("j < i", [{"i": 1}], []),
        ("not_before + j > i", [], [{"i": 1, "not_before": -1, "": 1}]),
        ("j <= i and i - j < window", [{"i": 1, "": 1}], [{"i": 1, "window": -1, "": 1}]),
        ("j < 2 * i + 3", [{"i": 2, "": 3}], []),
        ("j == i", [{"i": 1, "": 1}], [{"i": 1}]),
        ("j < length", [{"length": 1}], []),
        ("j < length[b]", [{"length[b]": 1}], []),
        ("j >= lo[i] and j < hi[b,i] + 1", [{"hi[b,i]": 1, "": 1}], [{"lo[i]": 1}]),
        (
            "j <= i + length[b] - seq_k and j >= begin[b]",
            [{"i": 1, "length[b]": 1, "seq_k": -1, "": 1}],
            [{"begin[b]": 1}],
        ),
    ],
)
def test_linear_comparisons_become_ranges(mask, ends, firsts):
    operands = ",".join(f"{n}:i32" for n in ("length", "begin", "lo", "hi") if f"{n}[" in mask)
    rising = "lo,hi" if "lo" in mask else ""
    found = key_range(Attention(mask=mask, operands=operands, rising=rising))

    def clean(terms):
        return [{n: c for n, c in t.items() if c} for t in terms]

    assert clean(found.ends) == ends and clean(found.firsts) == firsts and found.rest is None


@pytest.mark.parametrize(
    "mask, rest",
    [
        ("j + i < 9", 1),  # falls with i: no bound for a whole tile
        ("j * j < 9", 1),
        ("j <= i and (h < 2 or j % 3 > 0)", 1),
        ("j <= i and j < 4 * h", 1),
        ("j < limit[i]", 1),  # may fall with i
        ("doc[b,i] == doc_k[b,j] and j <= i and j != 3", 2),
    ],
)
def test_what_is_no_range_is_left_over(mask, rest):
    found = key_range(Attention(mask=mask))
    text = str(found.rest.typed.statements[-1].value)
    assert text.count("op='and'") == rest - 1
    assert bool(found.ends) == ("j <= i" in mask)


@pytest.mark.parametrize("align", ["bottom_right", "top_left"])
@pytest.mark.parametrize("seq_q, seq_k", [(5, 9), (9, 5), (4, 4)])
def test_reference_agrees_with_a_second_one(align, seq_q, seq_k):
    """The mask as a formula and as an option, against softmax written down once more."""
    rng = np.random.default_rng(0)
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "seq_q": seq_q, "seq_k": seq_k}
    problem = Attention(dtype=F32, head_dim=8, causal=True, align=align, lse=True)
    arrays = problem.draw(sizes, rng)
    want, want_lse = reference(
        arrays["q"], arrays["k"], arrays["v"], causal(seq_q, seq_k, align), 0.5
    )
    formula = Attention(dtype=F32, head_dim=8, mask="j <= i and j < 100", align=align, lse=True)
    for one in (problem, formula):
        found = one.reference(sizes, arrays, {"scale": 0.5})
        np.testing.assert_allclose(found["o"].value, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found["lse"].value, want_lse, rtol=1e-12)


def test_reference_of_a_score_formula():
    rng = np.random.default_rng(1)
    sizes = {"batch": 1, "heads": 2, "kv_heads": 1, "seq_q": 3, "seq_k": 6}
    problem = Attention(dtype=F32, head_dim=8, score="s + slope[h] * (j - i)", mask="j <= i")
    arrays = problem.draw(sizes, rng)
    found = problem.reference(sizes, arrays, {"scale": 1.0})["o"].value
    q, k = arrays["q"].astype(np.float64), arrays["k"].astype(np.float64)
    s = np.einsum("bihd,bjgd->bhij", q, k)
    i, j = np.arange(3)[:, None] + 3, np.arange(6)
    s = s + arrays["slope"].astype(np.float64)[None, :, None, None] * (j - i)
    weights = np.where(j <= i, np.exp(s), 0)
    weights /= weights.sum(-1, keepdims=True)
    want = np.einsum("bhij,bjgd->bihd", weights, arrays["v"].astype(np.float64))
    np.testing.assert_allclose(found, want, rtol=1e-10)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"causal": True, "mask": "j < 3"}, UsageError, ["--causal and --mask"]),
        ({"head_dim": 12}, UsageError, ["--head-dim", "12", "multiple of 8"]),
        ({"align": "left"}, UsageError, ["no alignment", "bottom_right"]),
        ({"mask": "j <= row"}, None, []),  # a scalar of the caller
        ({"mask": "j <= scale"}, FormulaError, ["'scale'", "argument"]),
        ({"score": "s + bias[m]"}, FormulaError, ["m"]),
        ({"score": "t + 1"}, None, []),
        ({"score": "s * position"}, FormulaError, ["'position'", "position_of_mine"]),
        ({"score": "call = s * 2; call + 1"}, FormulaError, ["'call'"]),
        ({"mask": "j < q_stride_seq"}, FormulaError, ["'q_stride_seq'"]),
        ({"mask": "mask[j] > 0"}, FormulaError, ["'mask'", "mask_of_mine"]),
        ({"rising": "lo", "mask": "j <= i"}, UsageError, ["--rising", "'lo'", "begin[i]"]),
        ({"operands": "window:i32"}, UsageError, ["no operand 'window'"]),
    ],
)
def test_wrong_options_are_refused_in_words(options, error, words):
    if error is None:
        Attention(**options)
        return
    with pytest.raises(error) as raised:
        Attention(**options)
    text = f"{raised.value.message}\n{raised.value.hint}"
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "target, options, words",
    [
        ("sm_90a", {"tile": "128x256"}, ["registers", "240", "Legal:"]),
        (
            "sm_90a",
            {"tile": "128x128", "stages": 3},
            ["bytes of shared memory", "232448", "Legal:"],
        ),
        ("sm_90a", {"tile": "256x64"}, ["64, 128 or 192"]),
        ("sm_90a", {"stages": 1}, ["1 stage"]),
        ("sm_80", {"tile": "256x128", "head_dim": 256}, ["bytes of shared memory", "166912"]),
        ("sm_80", {"tile": "120x64"}, ["multiples of 16"]),
        (
            "sm_80",
            {"head_dim": 64, "value_dim": 128, "schedule": "mma"},
            ["value_dim 128", "head_dim 64"],
        ),
        ("sm_75", {}, ["cp.async needs sm_80"]),
        ("portable", {"micro": "8x3"}, ["28 vector registers", "16"]),
    ],
)
def test_illegal_schedules_are_refused_with_numbers(target, options, words):
    options = {"dtype": "f16", **options}
    with pytest.raises(IllegalSchedule) as raised:
        spec(target, **options)
    text = f"{raised.value.message}\n{raised.value.hint}"
    assert all(word in text for word in words), text


def test_blocks_beyond_the_mask_are_skipped_in_the_text():
    """A window has a left edge, and blocks between the edges take the loop without a mask."""
    text = next(
        iter(render(spec("sm_90a", dtype="bf16", mask="j <= i and i - j < window")).files.values())
    )
    assert "tile.first_block = min(first_key(call, tile.first_row) / kBlockN" in text
    assert "next_block<false>" in text and text.count("next_block<true>(shared") == 2
    plain = next(iter(render(spec("sm_90a", dtype="bf16", causal=True)).files.values()))
    assert "first_key" not in plain and "sees(" not in plain
    opaque = next(iter(render(spec("sm_90a", dtype="bf16", mask="j % 3 > 0")).files.values()))
    assert "next_block<false>" not in opaque


def test_distances_become_floats_by_an_addition_only_where_that_is_exact():
    def reads(score):
        return reads_distance(Attention(dtype=BF16, score=score))

    assert reads("s + 0.1 * (j - i)") and reads("s + j * 0.5")
    assert not reads("s + 0.1 * (j * i)") and not reads("s + f32(h)") and not reads("2 * s")


@pytest.mark.parametrize(
    "score, form, rises",
    [
        ("s + slope[h] * (j - i)", SlopedScore, True),
        ("s - (i - j) * slope[b,h]", SlopedScore, False),
        ("gain * (i - j) + s", SlopedScore, False),
        ("softcap(s, 30)", CappedScore, None),
        # A factor that differs from key to key, a distance that bends, a cap that is not known to be above 0.
        ("s + bias[h,j] * (j - i)", type(None), None),
        ("s + slope[h] * abs(j - i)", type(None), None),
        ("softcap(s, cap)", type(None), None),
        ("softcap(s, 30) + slope[h] * (j - i)", type(None), None),
    ],
)
def test_scores_of_a_short_form_are_known(score, form, rises):
    found = short_score(Attention(score=score))
    assert isinstance(found, form)
    if form is SlopedScore:
        assert found.rises is rises
