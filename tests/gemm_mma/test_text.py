"""What an emitted mma kernel reads like, and how little a change of schedule changes in it."""

from __future__ import annotations

import difflib

import pytest

from tests.gemm_mma.kernels import emitted
from tilegen.emit.banner import split_banner
from tilegen.errors import FormulaError

BASE = "128x128x32"


def body(**options: str) -> list[str]:
    """Lines of the source below its banner."""
    kernel = emitted(**options)
    return split_banner(kernel.files[kernel.source])[1].splitlines()


@pytest.mark.parametrize(
    "options",
    [
        {"tile": BASE, "stages": "4"},
        {"tile": "64x128x32"},
        {"tile": "128x64x32"},
        {"tile": "128x128x64"},
        {"tile": BASE, "group": "4"},
    ],
    ids=str,
)
def test_a_change_of_schedule_changes_few_lines(options):
    """Besides the lines that only carry the kernel's name, at most 12."""
    old, new = emitted(tile=BASE), emitted(**options)
    before = [line.replace(old.stem, "STEM") for line in body(tile=BASE)]
    after = [line.replace(new.stem, "STEM") for line in body(**options)]
    changed = [d for d in difflib.ndiff(before, after) if d[0] == "-"]
    assert len(before) == len(after)
    assert 0 < len(changed) <= 12, "\n".join(changed)


@pytest.mark.parametrize("options", [{}, {"layout": "nt"}, {"epilogue": "blas"}, {"dtype": "i8"}])
def test_the_text_is_commented_and_has_no_macros(options):
    tile = "32x64x64" if options.get("dtype") == "i8" else "32x64x32"
    lines = [line for line in body(tile=tile, **options) if line.strip()]
    comments = [line for line in lines if "//" in line]
    assert 0.15 <= len(comments) / len(lines) <= 0.25
    assert not [line for line in lines if line.startswith("#define")]


def test_every_barrier_says_what_it_protects():
    lines = body(layout="tt", epilogue="bias")
    barriers = [i for i, line in enumerate(lines) if "__sync" in line]
    assert len(barriers) >= 5
    for i in barriers:
        assert "//" in lines[i - 1], f"{lines[i - 1]}\n{lines[i]}"


def test_only_the_primitives_that_are_used_are_emitted():
    straight, turned = "\n".join(body(layout="tn")), "\n".join(body(layout="nt"))
    assert "ldmatrix_trans" not in straight and "ldmatrix_trans" in turned
    assert "round_to_tf32" not in straight
    assert "round_to_tf32" in "\n".join(body(dtype="tf32", tile="32x64x16"))


def test_copies_are_as_wide_as_the_type_allows():
    def widths(**options):
        plan = emitted(**options).plan
        return (*plan.wider, plan.narrowest)

    assert widths() == (16, 8, 4, 2)
    assert widths(dtype="tf32", tile="32x64x16") == (16, 8, 4)
    assert widths(dtype="i8", tile="32x64x64") == (16, 8, 4, 1)


@pytest.mark.parametrize("formula", ["e = 2 * acc; c[m,n] = e", "acc + count[n]", "acc * v"])
def test_a_name_that_the_epilogue_uses_itself_is_refused(formula):
    with pytest.raises(FormulaError, match="names a variable of the emitted epilogue"):
        emitted(epilogue=formula)
