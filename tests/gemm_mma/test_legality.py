"""What MmaGemm refuses, with which numbers, and that what it proposes instead is legal."""

from __future__ import annotations

import re
import shlex

import pytest

from tilegen.errors import IllegalSchedule
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_mma import MmaGemm, warps_for
from tilegen.spec import KernelSpec
from tilegen.targets import target
from tilegen.values import DTYPES, Layout, Tile

REFUSED = {
    "a03_warps_that_do_not_divide_n": (
        {"tile": "16x104x64", "warps": "1x12"},
        ["104 along N", "multiple of 192", "12 warps"],
    ),
    "d17_more_shared_memory_than_the_card_has": (
        {"target": "sm_86", "tile": "256x128x64", "stages": "4"},
        ["196608 bytes", "sm_86 allows 101376", "--stages 2"],
    ),
    "d17_on_sm_89": (
        {"target": "sm_89", "tile": "256x128x64", "stages": "4"},
        ["196608 bytes", "sm_89 allows 101376"],
    ),
    "the_design_s_own_example": (
        {"tile": "256x256x64", "stages": "4"},
        ["262144 bytes", "sm_80 allows 166912"],
    ),
    "d21_too_few_threads_for_a_row": (
        {"tile": "64x64x64", "warps": "1x1"},
        ["32 threads cannot share rows of 64 elements of A", "no multiple of 64"],
    ),
    "d21_threads_that_do_not_divide_a_slice": (
        {"tile": "48x64x32", "warps": "3x1"},
        ["24 rows of 32 elements of B", "64 rows"],
    ),
    "one_stage": ({"stages": "1"}, ["stages 1", "at least 2"]),
    "an_odd_number_of_steps": ({"tile": "128x128x16"}, ["16 along K", "multiple of 32"]),
    "rows_of_a_fragment": ({"tile": "40x64x32", "warps": "1x2"}, ["40 along M", "multiple of 16"]),
    "too_many_threads": ({"tile": "256x256x32", "warps": "8x8"}, ["2048 threads", "1024"]),
    "too_many_registers": (
        {"tile": "128x128x32", "warps": "1x2"},
        ["128 x 64", "registers a thread", "sm_80 gives 255"],
    ),
    "no_group": ({"group": "0"}, ["group 0"]),
    "a_tile_of_two": ({"tile": "128x128"}, ["2 extents, 3 needed"]),
    "tf32_with_m_contiguous": (
        {"dtype": "tf32", "layout": "nn", "schedule": "mma"},
        ["16-bit", "layout tn", "not nn"],
    ),
    "int8_with_n_contiguous": (
        {"dtype": "i8", "layout": "tt", "schedule": "mma"},
        ["16-bit", "layout tn", "not tt"],
    ),
    "f64": ({"dtype": "f64", "schedule": "mma"}, ["not f64"]),
    "turing": ({"target": "sm_75", "schedule": "mma"}, ["cp.async", "sm_75"]),
}
# Refused whatever the schedule, or for a field without numbers: nothing is proposed.
NOTHING_NEAR = {n for n, (o, _) in REFUSED.items() if "schedule" in o} | {"a_tile_of_two"}


def refused(name: str) -> tuple[str, dict[str, str], str]:
    """Target, options and message of a refusal."""
    options = dict(REFUSED[name][0])
    where = options.pop("target", "sm_80")
    with pytest.raises(IllegalSchedule) as refusal:
        KernelSpec.make("gemm", where, options)
    assert refusal.value.exit_code == 2
    return where, options, str(refusal.value)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_numbers(name):
    _, _, text = refused(name)
    assert all(word in text for word in REFUSED[name][1]), text


@pytest.mark.parametrize("name", sorted(set(REFUSED) - NOTHING_NEAR))
def test_what_a_refusal_proposes_is_legal(name):
    where, options, text = refused(name)
    found = re.search(r"Legal: (.*)", text)
    assert found, text
    kept = {"warps": str(warps_for(Tile.parse(options.get("tile", "128x128x32")))), **options}
    for proposal in found.group(1).split(", or "):
        words = iter(shlex.split(proposal))
        given = {flag.removeprefix("--"): next(words) for flag in words}
        KernelSpec.make("gemm", where, {**kept, **given})


@pytest.mark.parametrize("where", ["sm_80", "sm_86", "sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "i8", "u8"])
def test_defaults_and_a_space_to_search_are_legal(dtype, where):
    layouts = ["tn", "tt", "nn", "nt"] if DTYPES[dtype].bits == 16 else ["tn"]
    for layout in layouts:
        problem = Gemm(dtype=DTYPES[dtype], layout=Layout.parse(layout))
        card = target(where)
        assert not MmaGemm.default(problem, card).violations(problem, card)
        assert len(set(MmaGemm.space(problem, card))) > 50


@pytest.mark.parametrize(
    "tile, warps", [("128x128x32", "2x2"), ("128x256x32", "2x4"), ("64x64x32", "2x2")]
)
def test_warps_follow_the_tile(tile, warps):
    spec = KernelSpec.make("gemm", "sm_80", {"tile": tile})
    assert str(spec.schedule.warps) == warps
    assert "w" + warps not in "_".join(spec.schedule.tokens())
