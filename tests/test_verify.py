"""Verification finds what is wrong: each fault is planted and must be seen."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tilegen.errors import CallRefused, CheckFailed, TilegenError
from tilegen.plans import make_plan
from tilegen.spec import KernelSpec
from tilegen.verify.guarded import guarded
from tilegen.verify.oracle import verify
from tilegen.verify.workers import each
from tilegen.values import BF16, F32


@pytest.fixture(scope="module")
def plan():
    return make_plan(KernelSpec.make("gemm", "sm_75", {"dtype": "f32", "epilogue": "bias"}))


def right(arrays, scalars):
    arrays["c"][...] = arrays["a"] @ arrays["b"].T + arrays["bias"]


def test_a_right_kernel_passes(plan):
    verdict = verify(plan, right)
    assert verdict.ok and verdict.cases == 33 and 0 < verdict.worst < 1


def test_a_kernel_that_refuses_every_call_is_no_right_one(plan):
    def refuse(arrays, scalars):
        raise CallRefused("refused", code=4)

    verdict = verify(plan, refuse)
    assert not verdict.ok and verdict.cases == 0
    assert verdict.faults() == [
        f"no case ran: _supports refuses {verdict.refused} of {verdict.refused}"
    ]


def wrong_element(arrays, scalars):
    right(arrays, scalars)
    if arrays["c"].size:
        arrays["c"].flat[-1] += 0.01


def unwritten_column(arrays, scalars):
    arrays["c"][:, :-1] = (arrays["a"] @ arrays["b"].T + arrays["bias"])[:, :-1]


def nan_result(arrays, scalars):
    right(arrays, scalars)
    arrays["c"][:1] = np.nan


def half_precision(arrays, scalars):
    product = arrays["a"].astype(np.float16) @ arrays["b"].astype(np.float16).T
    arrays["c"][...] = product + arrays["bias"]


def touched_input(arrays, scalars):
    right(arrays, scalars)
    if arrays["bias"].size:
        arrays["bias"][0] += 1


def wrong_axis(arrays, scalars):
    """B11: the bias added along the wrong axis where the sizes agree."""
    c = arrays["c"]
    c[...] = arrays["a"] @ arrays["b"].T
    if c.shape[0] == c.shape[1]:
        c[...] += arrays["bias"][:, None]
    else:
        c[...] += arrays["bias"]


FAULTS = [wrong_element, unwritten_column, nan_result, half_precision, touched_input, wrong_axis]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_planted_faults_are_found(plan, fault):
    assert not verify(plan, fault).ok


def test_nothing_run_is_not_ok(plan):
    assert not verify(plan, right, limit=-1).ok


def test_writes_outside_are_counted():
    place = guarded(F32, (4, 5), row_pad=3)
    place.array[...] = 1
    assert place.strays() == 0
    place.memory[0] = 0
    base = place.array.base
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert place.strays() == 1
    wide = np.lib.stride_tricks.as_strided(place.array, (4, 6), place.array.strides)
    wide[:, 5] = 0
    assert place.strays() == 1 + 4 * 4


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (4, 5), (2, 3, 5), (0, 5), (3, 0)])
def test_guarded_arrays_are_poisoned_and_placed(dtype, shape):
    for pad, offset in ((0, 0), (3, 0), (0, 1)):
        place = guarded(dtype, shape, row_pad=pad, offset=offset)
        assert place.array.shape == shape and place.inside.sum() == place.array.size * dtype.bytes
        if place.array.size:
            assert (place.array.ctypes.data - offset * dtype.bytes) % 256 == 0
            assert np.isnan(place.array.astype(np.float64)).all()


def doubled(text: str) -> int:
    if text == "die":
        os._exit(1)
    if not text.isdigit():
        raise CheckFailed(f"'{text}' is no number", "Give digits.")
    return 2 * int(text)


def test_work_in_other_processes_comes_back_in_order_and_so_do_errors():
    results = each(doubled, ["30", "1", "two", "4"], jobs=2)
    assert [next(results), next(results)] == [60, 2]
    with pytest.raises(CheckFailed, match="'two' is no number") as error:
        next(results)
    assert error.value.hint == "Give digits."
    with pytest.raises(TilegenError, match="one of 2 processes died") as error:
        list(each(doubled, ["1", "die"], jobs=2))
    assert "--jobs 1" in error.value.hint
