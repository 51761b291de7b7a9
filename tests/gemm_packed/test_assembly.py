"""The sums of a micro tile stay in registers: no loop that multiplies touches the stack with vectors."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.gemm_packed.kernels import emitted
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc

VECTOR = re.compile(r"%[xyz]mm\d|\bq\d+\b")
STACK = re.compile(r"\(%r[sb]p\)|\[sp\b|\[x29\b")
MULTIPLY = re.compile(r"\bvfmadd|\bfmla\b")


def loops(assembly: str) -> list[list[str]]:
    """Straight pieces of code that end in a jump back to their own label."""
    found, label, piece = [], "", []
    for line in assembly.splitlines():
        if re.match(r"\S+:", line):
            label, piece = line.split(":")[0], []
            continue
        piece.append(line)
        if re.search(rf"\s{re.escape(label)}$", line) and label:
            found.append(piece)
    return found


def compile_to_assembly(kernel, folder, level, compiler):
    source = build.lay_out(kernel, folder)
    command = [compiler, "-std=c11", level, "-fopenmp", "-S", str(source), "-o", "kernel.s"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "kernel.s").read_text()


@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("schedule", ["packed", "skinny"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "neon"])
def test_no_sum_is_spilled(target, dtype, schedule, level, tmp_path):
    compiler = find_cc().path
    if target == "neon":
        compiler = shutil.which("aarch64-linux-gnu-gcc")
        if compiler is None:
            pytest.skip("needs aarch64-linux-gnu-gcc")
    tile = "960x384x384" if schedule == "packed" else "48x252x1024"
    kernel = emitted(target, dtype=dtype, schedule=schedule, tile=tile)
    hot = [
        piece
        for piece in loops(compile_to_assembly(kernel, tmp_path, level, compiler))
        if sum(bool(MULTIPLY.search(line)) for line in piece) >= 8
    ]
    assert hot, "no loop multiplies vectors: the sums are not kept in registers at all"
    for piece in hot:
        spilled = [line for line in piece if VECTOR.search(line) and STACK.search(line)]
        assert not spilled, "\n".join(spilled[:5])
