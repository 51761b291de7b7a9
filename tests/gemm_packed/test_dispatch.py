"""`tilegen dispatch`: kernels for several instruction sets, and the function that picks one at run time."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tilegen.toolchain.find import find_cc, openmp_flags

QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")

MAIN = """
#include <stdio.h>
#include "gemm_f32_tn_relu.h"
%s
int main(void) {
  static float a[40 * 50], b[70 * 50], c[40 * 70];
  for (int i = 0; i < 40 * 50; ++i) a[i] = (float)(i %% 7 - 3);
  for (int i = 0; i < 70 * 50; ++i) b[i] = (float)(i %% 5 - 2);
  if (tilegen_gemm_f32_tn_relu_supports(40, 70, 50, a, 50, b, 50, c, 70) != 0) return 1;
  if (tilegen_gemm_f32_tn_relu_supports(40, 70, 50, a, 49, b, 50, c, 70) != 2) return 2;
  if (tilegen_gemm_f32_tn_relu(40, 70, 50, a, 50, b, 50, c, 70, 1) != 0) return 3;
  for (int i = 0; i < 40 * 70; ++i) {
    float sum = 0;
    for (int k = 0; k < 50; ++k) sum += a[i / 70 * 50 + k] * b[i %% 70 * 50 + k];
    if (c[i] != (sum > 0 ? sum : 0)) return 4;
  }
%s
  return 0;
}
"""


@pytest.fixture
def program(tilegen, tmp_path):
    """A program around a chooser of three kernels, which prints the targets that the CPU can run."""
    ran = tilegen("dispatch", "gemm", "--dtype", "f32", "--epilogue", "relu", "-o", tmp_path / "k")
    assert ran.status == 0, ran.err
    sources = sorted((tmp_path / "k" / "c_openmp").glob("*.c"))
    stems = [s.stem for s in sources if s.stem != "gemm_f32_tn_relu"]
    assert len(stems) == 3
    includes = "\n".join(f'#include "{stem}.h"' for stem in stems)
    arguments = "(40, 70, 50, a, 50, b, 50, c, 70)"
    prints = "\n".join(
        f'  if (tilegen_{stem}_supports{arguments} == 0) puts("{stem}");' for stem in stems
    )
    (tmp_path / "main.c").write_text(MAIN % (includes, prints))
    cc = find_cc()
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-static"]
    command = [cc.path, *flags, *openmp_flags(cc), "-Ik/c_openmp", "main.c", *map(str, sources)]
    built = subprocess.run(
        [*command, "-lm", "-o", "main"], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return tmp_path / "main"


def test_the_result_is_right_here(program):
    assert subprocess.run([program]).returncode == 0


@pytest.mark.skipif(QEMU is None, reason="needs qemu-x86_64")
@pytest.mark.parametrize(
    "cpu, runs, not_run",
    [("Nehalem", [], ["v3", "v4"]), ("Haswell", ["v3"], ["v4"])],
)
def test_an_older_processor_gets_a_kernel_that_it_can_run(program, cpu, runs, not_run):
    ran = subprocess.run([QEMU, "-cpu", cpu, program], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert all(f"x86_64_{level}" in ran.stdout for level in runs)
    assert not any(f"x86_64_{level}" in ran.stdout for level in not_run)


@pytest.mark.parametrize(
    "words, message",
    [
        (["-t", "portable"], "two kernels"),
        (["-t", "sm_80", "-t", "portable"], "not C"),
        (["--tile", "128x128x32"], "schedule of its own"),
    ],
)
def test_what_cannot_be_chosen_among_is_refused(tilegen, tmp_path, words, message):
    ran = tilegen("dispatch", "gemm", "--dtype", "f32", "-o", tmp_path / "k", *words)
    assert ran.status == 2 and message in ran.err
    assert not (tmp_path / "k").exists()
