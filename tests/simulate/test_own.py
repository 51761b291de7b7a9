"""A .cu of one's own, run by a launch plan: its launcher, or its kernel alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

KERNEL = Path(__file__).parent / "kernels" / "block_sum.cu"
X = '[[argument]]\nname = "x"\nfile = "x.npy"\n'
Y = '[[argument]]\nname = "y"\ndtype = "f32"\nshape = [4]\noutput = true\nsave = "y.npy"\n'
N = '[[argument]]\nname = "n"\ndtype = "i32"\nvalue = 1000\n'
STREAM = "[[argument]]\nnull = true\n"


@pytest.fixture
def folder(tmp_path):
    shutil.copy(KERNEL, tmp_path)
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=np.float32))
    return tmp_path


def test_a_launcher_of_ones_own(tilegen, folder):
    (folder / "block_sum.toml").write_text(f'launcher = "launch"\n{X}{Y}{N}{STREAM}')
    ran = tilegen("simulate", "block_sum.cu", "--costs")
    assert ran.status == 0, ran.err
    assert "no findings" in ran.out and "static instructions ran" in ran.out
    x = np.arange(1000, dtype=np.float32)
    assert np.load(folder / "y.npy").tolist() == [x[i : i + 256].sum() for i in range(0, 1000, 256)]


def test_a_kernel_without_host_code_and_its_race(tilegen, folder):
    plan = f'kernel = "block_sum"\ngrid = [4]\nblock = [256]\nflags = ["-DLATE"]\n{X}{Y}{N}'
    (folder / "plan.toml").write_text(plan)
    ran = tilegen("simulate", "block_sum.cu", "--launch", "plan.toml", "--json")
    assert ran.status == 1
    finding = json.loads(ran.out)[0]["launches"][0]["findings"][0]
    assert finding["kind"] == "race" and finding["lines"] == [10, 10]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (f"{X}", "give `launcher`, or `kernel`"),
        ('kernel = "k"\ngrid = [1]\n', "`kernel` needs `block`"),
        ('launcher = "launch"\nblok = [1]\n', "unknown key 'blok' (did you mean 'block'?)"),
        ('launcher = "launch"\n[[argument]]\nname = "x"\n', "x needs `dtype` and `shape`"),
        ('launcher = "launch"\n[[argument]]\nfile = "none.npy"\n', "cannot read none.npy"),
        ("launcher =", "is no TOML"),
    ],
)
def test_a_wrong_plan_is_explained(tilegen, folder, plan, said):
    (folder / "block_sum.toml").write_text(plan)
    ran = tilegen("simulate", "block_sum.cu")
    assert ran.status == 2 and said in ran.err


def test_what_is_not_there_is_named(tilegen, folder):
    ran = tilegen("simulate", "none.cu")
    assert ran.status == 2 and "no file none.cu" in ran.err
    ran = tilegen("simulate", "block_sum.cu")
    assert ran.status == 2 and "cannot read the launch plan block_sum.toml" in ran.err
