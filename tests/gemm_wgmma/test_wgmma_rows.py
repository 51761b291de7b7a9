"""Reductions of rows in an epilogue: which are taken, and what is said of the others."""

from __future__ import annotations

import re

import pytest

from tests.test_simulated import missing
from tilegen.emit.render import render
from tilegen.errors import FormulaError, IllegalSchedule
from tilegen.problems.gemm import Gemm
from tilegen.problems.gated_gemm import GatedGemm
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.values import BF16, F32
from tilegen.verify.simulated import simulate_case

AMAX = "d[m,n] = gelu(acc + bias[n]); amax[m] = max(abs(d), n)"


def spec(target: str, **options: str) -> KernelSpec:
    return KernelSpec.make("gemm", target, {"dtype": "bf16", "epilogue": AMAX, **options})


def test_a_row_has_the_type_that_it_is_computed_in():
    problem = Gemm(BF16, epilogue=AMAX)
    assert dict(problem.typed.outputs) == {"d": BF16, "amax": F32}
    assert [t.dims for t in problem.tensors() if t.is_written] == [("m", "n"), ("m",)]
    assert Gemm(BF16, epilogue=AMAX, operands="amax:bf16").typed.outputs["amax"] is BF16


def test_an_index_needs_no_subscript():
    (row,) = Gemm(BF16, epilogue="amax[m] = max(abs(acc), n)").row_reductions
    assert (row.name, row.op) == ("amax", "max")


@pytest.mark.parametrize(
    ("epilogue", "words"),
    [
        ("c[m,n] = acc / max(acc, n)", "does not read a reduction: max\\(acc, n\\)"),
        ("q[m] = 2 * sum(acc, n)", "row\\[m\\] = max\\(acc, n\\)"),
        ("q[m] = mean(acc, n)", "does not reduce rows by mean"),
        ("q = sum(acc, (m, n))", "does not read a reduction"),
        ("q[m] = sum(acc, n); c[m,n] = acc / q", "'q' is known only when the whole row is"),
        ("q[m] = sum(acc, n); c[m,n] = q_row[n] * acc", "'q_row' names what a part of a row has"),
    ],
)
def test_what_is_no_reduction_of_rows_is_refused_with_a_caret(epilogue, words):
    with pytest.raises(FormulaError, match=words):
        Gemm(BF16, epilogue=epilogue)


def test_integers_are_reduced_as_floats():
    with pytest.raises(FormulaError, match="Write sum\\(f32\\(acc\\), n\\)"):
        Gemm("i8", epilogue="s[m] = sum(acc, n)")
    assert Gemm("i8", epilogue="s[m] = sum(f32(acc), n)").row_reductions


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("sm_90a", {"swap": "true", "tile": "16x64x64"}, "--swap false"),
        ("sm_90a", {"split": "4", "workspace": "true"}, "does not also hold parts of K"),
        ("sm_90a", {"repack": "true"}, "or copied operands"),
        (
            "sm_80",
            {"tile": "96x96x32", "warps": "2x2"},
            "48 columns wide; to reduce rows it is 16, 32",
        ),
        ("sm_80", {"schedule": "gemv"}, "does not reduce rows, as amax does: store the product"),
        ("x86-64-v4", {"schedule": "skinny"}, "skinny schedule does not reduce rows"),
    ],
)
def test_schedules_without_it_say_what_to_do(target, options, words):
    with pytest.raises(IllegalSchedule, match=words):
        spec(target, **options)


def test_the_rewrite_of_a_refusal_is_a_kernel():
    with pytest.raises(IllegalSchedule) as refused:
        spec("x86-64-v4", schedule="skinny")
    rest = re.search("tilegen emit '(.*?)'", str(refused.value)).group(1)
    assert rest == "d[m,n] = gelu(c[m,n] + bias[n]); amax[m] = max(abs(d), n)"
    assert KernelSpec.make(rest, "x86-64-v4", {"dtype": "bf16"}).problem.operator == "formula"


def test_gated_products_do_not_reduce_rows():
    with pytest.raises(FormulaError, match="a gated product does not reduce rows"):
        GatedGemm(BF16, epilogue="d[m,n] = acc * gate; amax[m] = max(abs(d), n)")


def test_parts_meet_in_the_workspace():
    for target, columns in (("sm_90a", "128"), ("sm_80", "64")):
        kernel = render(spec(target))
        text = kernel.files[kernel.source]
        assert f"one for every {columns} columns." in text
        assert "_workspace(" in text and "_rows(" in text


def test_a_result_of_16_bits_is_staged_whatever_its_name():
    for epilogue, staged in ((AMAX, True), ("amax[m] = max(abs(acc), n)", False)):
        kernel = render(spec("sm_90a", epilogue=epilogue))
        assert ("tma_store" in kernel.files[kernel.source]) == staged


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_rows_of_results_that_are_not_staged():
    options = {"tile": "64x64x64", "split": "2", "stages": "3", "out_dtype": "f32"}
    kernel = render(spec("sm_90a", **options, epilogue="s[m] = sum(acc, n); l[m] = min(acc, n)"))
    sizes = {"m": 70, "n": 131, "k": 200}
    found = simulate_case(kernel, sizes, Options(order="random", seed=1), multiprocessors=2)
    assert found.ok, found.text()
