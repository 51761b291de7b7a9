"""Value types read their own text back and refuse everything else."""

from __future__ import annotations

import pytest

from tilegen.errors import UsageError
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.targets import TARGETS, CudaTarget, target
from tilegen.values import DTYPES, Layout, Tile, dtype


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_reads_its_name(name):
    assert str(dtype(name)) == name
    assert dtype(name).numpy.itemsize == dtype(name).bytes


def test_unknown_dtype_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'bf16'"):
        dtype("b16")


@pytest.mark.parametrize("text", ["128x128x32", "8", "1x2x3x4"])
def test_tile_round_trip(text):
    assert str(Tile.parse(text)) == text


@pytest.mark.parametrize("text", ["", "128x", "0x8", "-1x8", "12.5x8", "axb", "128×64"])
def test_bad_tiles(text):
    with pytest.raises(UsageError, match="is not a tile"):
        Tile.parse(text)


def test_tile_rank():
    with pytest.raises(UsageError, match="3 positive integers, such as 128x128x32"):
        Tile.parse("128x128", 3)


@pytest.mark.parametrize(
    "text, a, b",
    [("tn", ("m", "k"), ("n", "k")), ("tt", ("m", "k"), ("k", "n"))]
    + [("nn", ("k", "m"), ("n", "k")), ("nt", ("k", "m"), ("k", "n"))],
)
def test_layouts(text, a, b):
    layout = Layout.parse(text)
    assert (str(layout), layout.a_dims, layout.b_dims) == (text, a, b)


def test_bad_layout_explains_all_four():
    with pytest.raises(UsageError) as error:
        Layout.parse("rc")
    assert all(word in str(error.value) for word in ("tn", "tt", "nn", "nt"))


def test_targets_know_the_opt_in_limit():
    limits = {n: t.shared_block for n, t in TARGETS.items() if isinstance(t, CudaTarget)}
    assert limits == {
        "sm_75": 65536,
        "sm_80": 166912,
        "sm_86": 101376,
        "sm_89": 101376,
        "sm_90a": 232448,
    }


def test_gencode_is_always_the_long_form():
    assert target("sm_90a").gencode == "-gencode=arch=compute_90a,code=sm_90a"


def test_unknown_target():
    with pytest.raises(UsageError, match="did you mean 'sm_80'"):
        target("sm80")


def test_a_tile_is_read_from_text_and_from_integers():
    assert Tile.parse("64x32x16") == Tile.parse((64, 32, 16)) == Tile.parse([64, 32, 16])
    with pytest.raises(UsageError, match="'64x0' is not a tile"):
        Tile.parse((64, 0))


def test_a_schedule_reads_its_fields_from_text():
    assert SimtGemm(tile="64x64x16") == SimtGemm(tile=(64, 64, 16))
    with pytest.raises(UsageError, match="--tile: 'wide' is not a tile"):
        SimtGemm(tile="wide")
