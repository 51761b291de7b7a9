"""The simulator against what an H200 computed for small calls of every checked-in CUDA kernel (tests/gpu/record.py).

A kernel without a record, or whose code has changed since, is skipped and says so: `pytest -rs tests/test_recorded.py`.
"""

from __future__ import annotations

import dataclasses
import re
import zlib

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.gpu import recorded
from tests.test_simulated import CUDA, missing
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.verify.oracle import prepare

RECORDS = recorded.load(recorded.FILE)
AGAIN = "run python tests/gpu/record.py where a GPU is"

# All but these follows from the PTX, bit for bit: IEEE arithmetic in a written order, integers, copies.
MACHINES_OWN = re.compile(r"\.approx\b|\bmma\S*\.(?:f16|bf16|tf32|f32|e4m3|e5m2)\b")
# Where the PTX has those, how a tensor core adds and the last bits of ex2, rsqrt and the like are the machine's own. Both
# results lie within the bound of float64, at most this part of it apart (0.64 was seen: a rounding to f16 that went the
# other way), and of the results in two bytes or one this share are the same in every bit (0.957 was seen).
APART = 0.75
SAME = 0.94


def why_not(kernel) -> str:
    """Why there is nothing to compare with, or an empty string."""
    if missing():
        return missing()
    records = RECORDS.get(kernel.stem)
    if not records:
        return f"{kernel.stem} has no record of an H200: {AGAIN}"
    if records[0].text != recorded.code_digest(kernel):
        return f"{kernel.stem} was recorded from other code: {AGAIN}"
    return ""


@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_simulated_is_what_the_gpu_computed(kernel):
    if why_not(kernel):
        pytest.skip(why_not(kernel))
    runner = SimulatedKernel(kernel, multiprocessors=132)
    for record in RECORDS[kernel.stem]:
        arrays, scalars, expected = prepare(kernel.plan, record.case)
        runner.run({name: g.array for name, g in arrays.items()}, scalars)
        assert not runner.findings, runner.findings[0].message
        for name, elements in recorded.outputs(kernel, arrays).items():
            ours = recorded.sample(elements)
            theirs = record.samples[name].view(elements.dtype)
            if zlib.crc32(elements.tobytes()) == record.checksums[name]:
                assert np.array_equal(ours.view(np.uint8), theirs.view(np.uint8))
                continue
            where = f"{kernel.stem} {record.case}: {name}"
            assert MACHINES_OWN.search(runner.ptx), f"{where} differs, and must not in any bit"
            bound = np.broadcast_to(expected[name].bound, arrays[name].array.shape)
            limit = APART * bound.reshape(-1)[recorded.picked(elements)]
            mine, other = ours.astype(np.float64), theirs.astype(np.float64)
            with np.errstate(invalid="ignore"):
                far = (np.abs(mine - other) > limit) & (mine != other)
            far &= ~(np.isnan(mine) & np.isnan(other))
            first = int(far.argmax())
            assert not far.any(), f"{where}: {mine[first]} here, {other[first]} on the GPU"
            if elements.itemsize < 4:
                same = np.mean((mine == other) | np.isnan(mine))
                assert same >= SAME, f"{where}: {same:.1%} of the results are the same"


def test_a_kernel_without_a_record_and_a_stale_one_are_told_apart(monkeypatch):
    kernel = CUDA[0]
    record = recorded.Record("00000000", recorded.calls(kernel)[0], {}, {})
    monkeypatch.setattr("tests.test_recorded.missing", lambda: "")
    monkeypatch.setitem(RECORDS, kernel.stem, [record])
    assert "from other code" in why_not(kernel)
    monkeypatch.delitem(RECORDS, kernel.stem)
    assert "has no record" in why_not(kernel)


def test_comments_do_not_make_a_record_stale():
    kernel = CUDA[0]
    text = kernel.files[kernel.source]
    files = {**kernel.files, kernel.source: text.replace("// Code", "// The code")}
    changed = dataclasses.replace(kernel, files=files)
    assert recorded.code_digest(changed) == recorded.code_digest(kernel)
    files[kernel.source] = text.replace("= 0;", "= 1;", 1)
    assert recorded.code_digest(changed) != recorded.code_digest(kernel)


def test_records_hold_what_they_say():
    """Each sample fits the output of its call; the file stays small."""
    by_stem = {kernel.stem: kernel for kernel in CUDA}
    for stem, records in RECORDS.items():
        for record in records if stem in by_stem and not why_not(by_stem[stem]) else ():
            arrays, _, _ = prepare(by_stem[stem].plan, record.case)
            for name, elements in recorded.outputs(by_stem[stem], arrays).items():
                assert record.samples[name].nbytes == recorded.sample(elements).nbytes
    assert not recorded.FILE.exists() or recorded.FILE.stat().st_size < 2_000_000
