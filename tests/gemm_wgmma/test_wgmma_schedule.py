"""WgmmaGemm: what is refused, with numbers, and what the emitted text promises."""

from __future__ import annotations

import itertools
import re

import pytest

from tilegen.emit.hygiene import faults
from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule
from tilegen.spec import KernelSpec
from tilegen.targets import target

SM90 = target("sm_90a")


def spec(**options: str) -> KernelSpec:
    return KernelSpec.make("gemm", "sm_90a", {"dtype": "bf16", "schedule": "wgmma", **options})


def text(**options: str) -> str:
    kernel = render(spec(**options))
    return kernel.files[kernel.source]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"tile": "128x256x32"}, ["128 bytes deep", "64 elements of bf16"]),
        ({"tile": "96x256x64"}, ["tile M 96", "multiple of 128"]),
        ({"tile": "128x264x64"}, ["tile N 264", "16 to 256"]),
        ({"tile": "128x200x64"}, ["tile N 200", "multiple of 16"]),
        ({"tile": "128x256x64", "stages": "5"}, ["263168", "232448"]),
        ({"stages": "1"}, ["at least 2"]),
        ({"tile": "256x256x64", "stages": "2"}, ["256 registers", "232"]),
        ({"tile": "128x192x64", "pingpong": "true", "repack": "true"}, ["192", "256", "232"]),
        ({"consumers": "4", "tile": "256x128x64"}, ["1 to 3 consumers"]),
        ({"consumers": "3", "tile": "192x128x64", "pingpong": "true"}, ["take turns are 2"]),
        ({"layout": "tt", "tile": "128x96x64", "cluster": "1"}, ["N contiguous", "96"]),
        ({"layout": "tt", "tile": "128x64x64", "cluster": "2"}, ["cannot share 64 columns"]),
        ({"split": "3", "cluster": "1"}, ["3 blocks"]),
        ({"split": "2", "cluster": "2"}, ["share no loads"]),
        ({"swap": "true", "tile": "64x64x64", "cluster": "2"}, ["--cluster-n shares A"]),
        ({"cluster_n": "3"}, ["3 blocks", "1, 2 and 4"]),
        ({"cluster_n": "2", "cluster": "2"}, ["cluster 2", "cluster_n 2"]),
        ({"cluster_n": "2", "split": "2"}, ["share no loads"]),
        ({"cluster_n": "4", "swap": "true", "tile": "16x64x64"}, ["4 blocks", "16 rows of A"]),
        ({"constant_b": "true", "cluster": "2"}, ["its own steps of B"]),
        ({"constant_b": "true", "repack": "true"}, ["where they lie"]),
        ({"tile": "128x128x64", "split": "4"}, ["279552", "232448"]),
        ({"tile": "64x64x64", "split": "65", "workspace": "true"}, ["2 to 64 parts", "65"]),
        ({"tile": "64x64x64", "workspace": "true"}, ["2 to 64 parts", "not 1"]),
        ({"split": "2", "workspace": "true", "repack": "true"}, ["copied operands"]),
        ({"stream": "true", "split": "2", "cluster": "1"}, ["at run time", "--split 2"]),
        ({"stream": "true", "pingpong": "true", "tile": "128x128x64"}, ["take turns"]),
        ({"stream": "true", "repack": "true"}, ["copied operands"]),
        ({"resident": "2"}, ["2 consumers", "one consumer"]),
        ({"tile": "64x256x64", "consumers": "1", "resident": "2"}, ["128 registers", "160", "128"]),
        ({"tile": "64x64x64", "stages": "8", "resident": "2"}, ["115712", "in a block of 2"]),
    ],
    ids=str,
)
def test_refusals_have_numbers(options, words):
    with pytest.raises(IllegalSchedule) as refusal:
        spec(**options)
    message = str(refusal.value)
    for word in words:
        assert word in message


def test_other_targets_and_types_are_refused():
    with pytest.raises(IllegalSchedule, match="sm_90a"):
        KernelSpec.make("gemm", "sm_80", {"dtype": "bf16", "schedule": "wgmma"})
    with pytest.raises(IllegalSchedule, match="f64"):
        KernelSpec.make("gemm", "sm_90a", {"dtype": "f64", "schedule": "wgmma"})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile": "128x256x64"},
        {"tile": "128x256x64", "stages": "3", "cluster": "1"},
        {"tile": "64x64x64", "swap": "true", "split": "2"},
        {"tile": "192x128x64", "epilogue": "residual"},
        {"tile": "128x64x64", "stages": "5"},
        {"pingpong": "false", "stages": "4"},
        {"stream": "true", "tile": "64x16x64", "resident": "2"},
    ],
    ids=str,
)
def test_command_makes_the_same_schedule(options):
    made = spec(**options)
    again = KernelSpec.make("gemm", "sm_90a", made.options())
    assert again == made


PROBLEMS = [
    {},
    {"layout": "tt", "dtype": "f16"},
    {"layout": "nn", "epilogue": "bias_gelu"},
    {"layout": "nt", "batched": "true", "epilogue": "residual"},
    {"epilogue": "blas", "out_dtype": "f32"},
]


@pytest.mark.parametrize("options", PROBLEMS, ids=str)
def test_search_space_emits_clean_text(options):
    first = spec(**options)
    legal = list(type(first.schedule).space(first.problem, SM90))
    assert len(legal) > 20
    for schedule in itertools.islice(legal, 0, None, 17):
        kernel = render(KernelSpec(first.problem, schedule, SM90))
        assert not faults(kernel.files[kernel.source])


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_a_batch_by_default_is_clean_text(layout):
    kernel = render(spec(batched="true", layout=layout))
    assert not faults(kernel.files[kernel.source])


def test_stages_are_released_without_a_memory_fence():
    """A qualified arrive in the loop costs a full fence in every step."""
    for options in ({}, {"pingpong": "true", "tile": "128x128x64"}, {"cluster": "1"}):
        assert ".release.cluster.shared" not in text(**options)


def test_blocks_side_by_side_share_a():
    body = text(tile="128x64x64", swap="true", cluster_n="2")
    assert "kSlice = kBlockM / kCluster;" in body and "64, rows of A" in body
    assert "tma_load_multicast(&shared.a[ring.stage]" in body
    assert "encode_map(&map_a, a, k, m, lda, kBlockK, kSlice)" in body
    assert "tiles_m = parts(m, kBlockM), tiles_n = parts(n, kBlockN * kCluster)" in body


@pytest.mark.parametrize("options", [{}, {"split": "2"}, {"swap": "true"}], ids=str)
def test_only_a_constant_b_is_loaded_before_the_wait(options):
    options = {"tile": "64x64x64", "cluster": "1", **options}
    body = text(**options, constant_b="true")
    assert body.index("load_early(shared, &map_b, shape);") < body.index('"griddepcontrol.wait')
    early = body[body.index("void load_early") : body.index("// Producer: one thread")]
    assert "map_b, full" in early and "map_a" not in early
    assert "load_early" not in text(**options)
    kernel = render(spec(**options, constant_b="true"))
    header = next(t for path, t in kernel.files.items() if path.endswith(".h"))
    assert "b is constant: no kernel in front" in header


def test_swapped_tiles_tell_l2_that_b_is_read_once():
    assert "evict_first" in text(tile="16x64x64", swap="true")
    assert "evict_first" not in text(tile="64x64x64", cluster="1")


def test_every_barrier_says_what_it_protects():
    lines = text(pingpong="true", tile="128x128x64").splitlines()
    calls = re.compile(r"^ +(mbarrier_wait|named_barrier_sync|cluster_sync)\(")
    for number, line in enumerate(lines):
        if calls.match(line):
            above = [text.strip() for text in lines[max(0, number - 6) : number]]
            assert any(text.startswith("//") for text in above), f"line {number + 1}: {line}"


def test_sums_in_registers_and_shared_memory_are_what_the_text_says():
    kernel = render(spec(tile="128x192x64"))
    body = kernel.files[kernel.source]
    assert "constexpr int kSums = kBlockN / 2;" in body
    assert "m64n192k16.f32.bf16.bf16" in body
    assert body.count('"+f"(d[') == 96


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2", "tf32", "i8", "u8"])
def test_only_16_bit_operands_are_transposed(dtype):
    with pytest.raises(IllegalSchedule, match="needs layout tn"):
        spec(dtype=dtype, layout="tt")
    assert "sync.aligned.m64n128k" in text(dtype=dtype)


def test_fp8_sums_are_promoted_unless_told_otherwise():
    assert "+= of_step[j];" in text(dtype="e4m3")
    assert "of_step" not in text(dtype="e4m3", promote="false")
    # Two wgmmas of 128 columns each share one set of registers besides their sums; 192 do not fit.
    assert "Sum of_step[kSums];" in text(dtype="e4m3", tile="256x128x128")
    with pytest.raises(IllegalSchedule, match="288 registers"):
        spec(dtype="e4m3", tile="256x192x128", stages="3")


def test_integer_wgmma_has_no_scales():
    assert "m64n128k32.s32.s8.s8" in text(dtype="i8")
    assert "keep;" in text(dtype="i8")


def test_operands_at_any_address_have_a_workspace():
    kernel = render(spec(repack="true"))
    header = next(t for name, t in kernel.files.items() if name.endswith(".h"))
    assert "_workspace(" in header
    assert "no multiple of 16 bytes" not in header
    assert "tma_store" not in kernel.files[kernel.source]


def test_swapped_tiles_multiply_b_by_a():
    body = text(swap="true", tile="16x64x64", consumers="1", cluster="1", layout="tt")
    assert "wgmma(sums[i], b + i * kNextMma" in body
    assert "m64n16k16" in body
    # B is stored [k][n]: its rows of the matrix unit are the transposed operand.
    assert "keep, 1, 1, 1, 0;" in body
