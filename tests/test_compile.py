"""Every checked-in kernel compiles without a warning, for every architecture it may run on, without spills."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.assembled import assembled
from tilegen.artifacts import kernel_list
from tilegen.artifacts.check import render_list
from tilegen.emit.render import render
from tilegen.errors import ToolMissing
from tilegen.problems.named import NAMED
from tilegen.spec import KernelSpec
from tilegen.targets import TARGETS, CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc, find_cxx, find_nvcc

ROOT = Path(__file__).resolve().parent.parent
KERNELS, _ = render_list(kernel_list.read(ROOT / "tilegen.toml"))
CUDA = [k for k in KERNELS if isinstance(k.spec.target, CudaTarget)]
C = [k for k in KERNELS if not isinstance(k.spec.target, CudaTarget)]
ARCHS = [TARGETS[n] for n in ("sm_80", "sm_86", "sm_89", "sm_90a")]


def no_nvcc() -> str:
    try:
        find_nvcc()
    except ToolMissing as error:
        return error.message
    return ""


def archs(kernel):
    """Architectures that the kernel can run on: its own and newer; wgmma only on its own."""
    target = kernel.spec.target
    if target.name.endswith("a"):
        return [target]
    return [a for a in ARCHS if a.cc >= target.cc and kernel.plan.shared_bytes <= a.shared_block]


@pytest.mark.skipif(bool(no_nvcc()), reason=no_nvcc() or "-")
@pytest.mark.parametrize("kernel", CUDA, ids=lambda k: k.stem)
def test_cuda_kernel_compiles_without_warnings_or_spills(kernel):
    """The launcher, and device code for every architecture but sm_86: the next test shows that sm_89 stands for it."""
    assert assembled(kernel, [a for a in archs(kernel) if a.name != "sm_86"])


@pytest.mark.slow
@pytest.mark.skipif(bool(no_nvcc()), reason=no_nvcc() or "-")
@pytest.mark.parametrize("kernel", [k for k in CUDA if ARCHS[1] in archs(k)], ids=lambda k: k.stem)
def test_sm_86_takes_the_registers_of_sm_89(kernel):
    """No spills there either, and what lets the fast test leave it out stays true: no function near 255 differs."""
    used = {"sm_86": {}, "sm_89": {}}
    for report in assembled(kernel, [TARGETS[name] for name in used]):
        used[report.arch][report.function] = report.registers
    assert used["sm_86"].keys() == used["sm_89"].keys() != set()
    pairs = [(used["sm_86"][function], used["sm_89"][function]) for function in used["sm_86"]]
    assert [pair for pair in pairs if pair[0] != pair[1] and max(pair) > 64] == []


@pytest.mark.slow
@pytest.mark.skipif(bool(no_nvcc()), reason=no_nvcc() or "-")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", NAMED)
def test_named_formula_compiles_without_warnings_or_spills(name, arch):
    """Those too of which no kernel is checked in."""
    assert assembled(render(KernelSpec.make(name, arch, {"dtype": "bf16"})))


@pytest.mark.parametrize("kernel", C, ids=lambda k: k.stem)
@pytest.mark.parametrize("standard", ["c11", "c++17"])
def test_c_kernel_compiles_without_warnings(kernel, standard, tmp_path):
    """In C to machine code, in C++ as far as the language makes a difference."""
    source = build.lay_out(kernel, tmp_path)
    tool, flags = find_cc(), [*build.C_FLAGS, "-c", "-o", "k.o"]
    if standard == "c++17":
        # An unknown pragma is something that g++ warns of whatever a file says.
        others = [flag for flag in build.C_FLAGS if not flag.startswith("-std")]
        tool, flags = find_cxx(), [*others, "-fopenmp", "-x", "c++", "-fsyntax-only"]
    flags += [f"-std={standard}", "-Werror", str(source)]
    ran = subprocess.run([tool.path, *flags], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]


HEADERS = [(k, p) for k in KERNELS for p in k.files if p.endswith(".h")]


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20", "c99"])
def test_L05_L09_headers_are_clean_c_and_cplusplus(standard, tmp_path):
    """One translation unit includes every header, in each language; twice, for the guards."""
    stub = tmp_path / "cuda_runtime_api.h"
    stub.write_text(
        "#pragma once\ntypedef int cudaError_t;\ntypedef struct CUstream_st *cudaStream_t;\n"
    )
    lines = []
    for kernel, path in HEADERS:
        name = Path(path).name
        (tmp_path / name).write_text(kernel.files[path])
        lines += [f'#include "{name}"'] * 2
    is_c = standard == "c99"
    unit = tmp_path / ("unit.c" if is_c else "unit.cpp")
    unit.write_text("\n".join(lines) + "\nint main(void) { return 0; }\n")
    tool = find_cc() if is_c else find_cxx()
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", f"-std={standard}", "-I."]
    ran = subprocess.run(
        [tool.path, *flags, "-fsyntax-only", unit.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[:3000]


def test_L01_L03_all_c_kernels_link_into_one_program(tmp_path):
    """No helper of one file meets another's, and a header may be included from two units."""
    runnable = [k for k in C if k.spec.target.machine in ("any", "x86_64")]
    for kernel in runnable:
        build.lay_out(kernel, tmp_path)
    for unit in ("one", "two"):
        text = "".join(
            f'#include "{Path(p).name}"\n' for k in runnable for p in k.files if p[-1] == "h"
        )
        (tmp_path / f"{unit}.c").write_text(text + f"int {unit}(void) {{ return 0; }}\n")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    cc = find_cc()
    sources = sorted(p.name for p in tmp_path.glob("*.c"))
    command = [cc.path, "-O0", "-fopenmp", *sources, "-lm", "-o", "program"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
