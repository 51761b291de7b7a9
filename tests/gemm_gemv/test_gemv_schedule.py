"""GemvGemm: what is refused, with numbers, and that its whole search space emits clean text."""

from __future__ import annotations

import itertools

import pytest

from tilegen.emit.hygiene import faults
from tilegen.emit.render import render
from tilegen.errors import IllegalSchedule
from tilegen.spec import KernelSpec
from tilegen.targets import target


def spec(**options: str) -> KernelSpec:
    return KernelSpec.make("gemm", "sm_80", {"dtype": "bf16", "schedule": "gemv", **options})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"columns": "0"}, ["columns 0", "1 to 16"]),
        ({"warps": "8", "split": "3"}, ["3 warps", "8 warps"]),
        ({"columns": "16", "unroll": "16"}, ["16 columns", "255"]),
        ({"layout": "tt"}, ["tn", "not tt"]),
        ({"dtype": "i8"}, ["not i8"]),
        ({"batched": "true"}, ["batches"]),
        ({"ahead": "4"}, ["sm_80", "from sm_90 on"]),
    ],
    ids=str,
)
def test_refusals_have_numbers(options, words):
    with pytest.raises(IllegalSchedule) as refusal:
        spec(**options)
    for word in words:
        assert word in str(refusal.value)


def test_what_is_asked_for_ahead_comes_before_the_wait():
    made = KernelSpec.make("gemm", "sm_90a", {"dtype": "bf16", "schedule": "gemv", "ahead": "4"})
    kernel = render(made)
    body = kernel.files[kernel.source]
    assert body.index("  request_ahead(shape, b") < body.index('"griddepcontrol.wait;"')


@pytest.mark.parametrize("options", [{}, {"dtype": "f32", "epilogue": "blas"}], ids=str)
def test_search_space_emits_clean_text(options):
    first = spec(**options)
    legal = list(type(first.schedule).space(first.problem, target("sm_80")))
    assert len(legal) > 50
    for schedule in itertools.islice(legal, 0, None, 23):
        kernel = render(KernelSpec(first.problem, schedule, target("sm_80")))
        assert not faults(kernel.files[kernel.source])
