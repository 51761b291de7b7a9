"""`tilegen dispatch`: kernels for several instruction sets, and the function that picks one at run time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tilegen.errors import ToolMissing
from tilegen.tables import words
from tilegen.tables.files import table_path, update
from tilegen.tables.rows import Row
from tilegen.targets import target
from tilegen.toolchain.find import find_cc, find_nvcc, openmp_flags

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


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program around a chooser of three kernels, which prints the targets that the CPU can run."""
    tmp_path = tmp_path_factory.mktemp("program")
    emit = [sys.executable, "-m", "tilegen", "dispatch", "gemm", "--dtype", "f32", "-o", "k"]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*emit, "--epilogue", "relu"], cwd=tmp_path, env=path, check=True)
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
        (["-t", "sm_80", "-t", "portable"], "not of one language"),
        (["--tile", "128x128x32"], "schedule of its own"),
    ],
)
def test_what_cannot_be_chosen_among_is_refused(tilegen, tmp_path, words, message):
    ran = tilegen("dispatch", "gemm", "--dtype", "f32", "-o", tmp_path / "k", *words)
    assert ran.status == 2 and message in ran.err
    assert not (tmp_path / "k").exists()


SOFTMAX = """
#include "softmax_f32_by_processor.h"
int main(void) {
  float x[2 * 37] = {0}, y[2 * 37];
  if (tilegen_softmax_f32_by_processor(2, 37, x, 37, y, 37, 1) != 0) return 1;
  if (tilegen_softmax_f32_by_processor_supports(2, 37, x, 36, y, 37) != 2) return 2;
  for (int i = 0; i < 2 * 37; ++i) {
    if (y[i] < 0.99f / 37 || y[i] > 1.01f / 37) return 3;
  }
  return 0;
}
"""


def test_a_chooser_has_a_name_of_its_own_where_a_kernel_has_the_problems(tilegen, tmp_path):
    words = ["dispatch", "softmax", "-t", "x86-64-v4", "-t", "portable"]
    assert tilegen(*words, "-o", tmp_path / "k").status == 0
    written = {path.stem: path.read_text() for path in (tmp_path / "k").rglob("*.c")}
    assert set(written) == {"softmax_f32_by_processor", "softmax_f32", "softmax_f32_x86_64_v4"}
    chooser = written["softmax_f32_by_processor"]
    assert "softmax_f32_supports(" in chooser and "softmax_f32_x86_64_v4_supports(" in chooser
    first = chooser.splitlines()[0].removeprefix("// tilegen ")
    assert tilegen(*first.split(), "-o", tmp_path / "again").status == 0
    again = tmp_path / "again" / "c_openmp" / "softmax_f32_by_processor.c"
    assert again.read_text() == chooser
    # Its kernels do not ask the processor; where it lacks their instructions it gets another one.
    (tmp_path / "main.c").write_text(SOFTMAX)
    cc = find_cc()
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-static"]
    sources = ["-Ik/c_openmp", "main.c", *map(str, sorted((tmp_path / "k").rglob("*.c")))]
    built = [cc.path, *flags, *openmp_flags(cc), *sources, "-lm", "-o", "main"]
    subprocess.run(built, cwd=tmp_path, check=True)
    older = [[QEMU, "-cpu", "Nehalem"]] if QEMU is not None else []
    for here in ([], *older):
        assert subprocess.run([*here, tmp_path / "main"], timeout=100).returncode == 0


def test_a_chooser_is_not_written_where_it_would_be_pruned(tilegen, project):
    project('[project]\nout = "kernels"\n')
    words = ("dispatch", "relu", "-t", "x86-64-v4", "-t", "portable", "-o")
    ran = tilegen(*words, "kernels")
    assert ran.status == 2 and "emit --prune" in ran.err
    assert tilegen(*words, "own").status == 0


def test_a_table_serves_the_targets_that_it_has_rows_for(tilegen, tmp_path):
    def row(m: int, tile: str) -> Row:
        schedule = f"packed tile={tile} micro=6x16 unroll=4"
        spec = words.kernel_spec("gemm", target("x86-64-v3"), "dtype=f32", schedule)
        digest = words.kernel_digest(spec)
        sizes = {"m": m, "n": 64, "k": 64}
        facts = {"speedup": 1.0, "threads": 1, "default": schedule, "digest": digest}
        return Row("dtype=f32", "x86-64-v3", sizes, words.schedule_text(spec.schedule), **facts)

    path = table_path(tmp_path / "tuning", "some-cpu", "gemm")
    update(path, [row(16, "64x64x64"), row(1024, "128x128x64")])
    given = ["dispatch", "gemm", "--dtype", "f32", "-t", "x86-64-v3", "-t", "portable"]
    ran = tilegen(*given, "--tuned", "some-cpu", "-o", "k")
    assert ran.status == 0, ran.err
    assert "no fresh row for dtype=f32 on portable with 1 thread: one kernel for all" in ran.err
    assert "2 kernels cover 2 measured sizes" in ran.out
    folder = tmp_path / "k" / "c_openmp"
    chooser = (folder / "gemm_f32_tn.c").read_text()
    assert "tilegen_gemm_f32_tn_by_size_x86_64_v3(" in chooser
    assert "--target portable --tuned some-cpu" in chooser.splitlines()[0]
    assert "if (m <= 128) {" in (folder / "gemm_f32_tn_by_size_x86_64_v3.c").read_text()
    cc = find_cc()
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", *openmp_flags(cc)]
    main = MAIN.replace("gemm_f32_tn_relu", "gemm_f32_tn").replace("(sum > 0 ? sum : 0)", "sum")
    (tmp_path / "main.c").write_text(main % ("", ""))
    sources = ["main.c", *map(str, sorted(folder.glob("*.c")))]
    built = [cc.path, *flags, "-Ik/c_openmp", *sources, "-lm", "-o", "main"]
    subprocess.run(built, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0


# The CUDA runtime's part in a choice, and kernels that tell which of them was called.
STUBS = """
#include <cstdio>
#include <cstdlib>
#include "gemm_f16_tn.h"
static int level = 0;
extern "C" cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return level > 0 ? cudaSuccess : cudaErrorNoDevice;
}
extern "C" cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr name, int) {
  *value = name == cudaDevAttrComputeCapabilityMajor ? level / 10 : level %% 10;
  return cudaSuccess;
}
#define ARRAYS const void *, int64_t, const void *, int64_t ldb, void *, int64_t
#define KERNEL(name, refused) \\
  extern "C" int name##_supports(int64_t m, int64_t, int64_t, ARRAYS) { \\
    return m < 0 ? 1 : ldb %% 8 != 0 ? refused : 0; \\
  } \\
  extern "C" cudaError_t name(int64_t, int64_t, int64_t, ARRAYS, cudaStream_t) { \\
    return puts(#name), ldb > 0 ? cudaSuccess : cudaErrorUnknown; \\
  }
KERNEL(%s, 5)
KERNEL(%s, 0)
int main(int, char **words) {
  level = atoi(words[1]);
  const int64_t m = atoi(words[2]), ldb = atoi(words[3]);
  printf("%%d\\n", tilegen_gemm_f16_tn_supports(m, 1, 1, 0, 1, 0, ldb, 0, 1));
  printf("%%d\\n", (int)tilegen_gemm_f16_tn(m, 1, 1, 0, 1, 0, ldb, 0, 1, 0));
}
"""


def test_a_gpu_gets_the_first_kernel_that_is_for_it_and_takes_the_arrays(tilegen, tmp_path):
    try:
        nvcc = find_nvcc()
    except ToolMissing as error:
        pytest.skip(error.message)
    ran = tilegen("dispatch", "gemm", "-t", "sm_90a", "-t", "sm_80", "-o", "k")
    assert ran.status == 0, ran.err
    kernels = sorted(p.stem for p in (tmp_path / "k").rglob("*.cu") if p.stem != "gemm_f16_tn")
    older, newer = (f"tilegen_{stem}" for stem in kernels)
    assert older.endswith("sm80") and newer.endswith("sm90a")
    (tmp_path / "main.cpp").write_text(STUBS % (newer, older))
    # It has no code for a device.
    flags = ["-x", "c++", "--cudart=none", "-Xcompiler", "-Wall,-Wextra,-Wconversion,-Werror"]
    sources = ["-Ik/cuda", "k/cuda/gemm_f16_tn.cu", "main.cpp", "-o", "main"]
    subprocess.run([nvcc.path, *flags, *sources], cwd=tmp_path, check=True)

    def called(level: int, m: int = 1, ldb: int = 8) -> list[str]:
        asked = [tmp_path / "main", str(level), str(m), str(ldb)]
        return subprocess.run(asked, capture_output=True, text=True).stdout.split()

    assert called(90) == ["0", newer, "0"]
    # Code with an architecture's own instructions is for no other; what it does not take goes to the next.
    assert called(100) == called(86) == called(90, ldb=9) == ["0", older, "0"]
    assert called(75) == called(0) == ["4", "1"]
    assert called(90, m=-1) == ["1", "1"]
