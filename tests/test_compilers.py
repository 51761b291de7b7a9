"""The C kernels are clean C11 and C++17 for every version of gcc and clang that the documentation names."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

from tests.test_compile import C
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc, find_cxx

KERNELS = [k for k in C if k.spec.target.machine in ("any", "x86_64")]
# A kernel of every third template, for the compilers that a machine happens to have.
SAMPLE = list({k.plan.template: k for k in KERNELS}.values())[::3]

COMPILERS = [*(f"gcc-{v}" for v in (11, 12, 13, 14)), *(f"clang-{v}" for v in range(14, 20))]
LANGUAGES = {"c11": (), "c++17": ("-x", "c++")}
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror")


@functools.cache
def openmp(compiler: str) -> tuple[str, ...]:
    """OpenMP, where the compiler has its header."""
    probe = subprocess.run(
        [compiler, "-fopenmp", "-fsyntax-only", "-x", "c", "-"],
        input="#include <omp.h>\n",
        capture_output=True,
        text=True,
    )
    return ("-fopenmp",) if probe.returncode == 0 else ()


def driver(compiler: str, language: str) -> str:
    """The program that compiles the language. Skips where the machine lacks it."""
    name = compiler if language == "c11" else compiler.replace("gcc", "g++")
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def compile_clean(kernel, program, language, folder, *flags):
    source = build.lay_out(kernel, folder)
    given = [*WARNINGS, *openmp(program), f"-std={language}", *flags, *LANGUAGES[language]]
    if "clang" in program:
        # Of loops that find a maximum, which it does not turn into vector code.
        given.append("-Wno-pass-failed")
    command = [program, *given, "-c", str(source), "-o", str(folder / "k.o")]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, f"{kernel.stem}\n{ran.stderr[:3000]}"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_sample_is_clean(compiler, language, tmp_path):
    program = driver(compiler, language)
    usual = find_cc() if language == "c11" else find_cxx()
    if os.path.realpath(shutil.which(program)) == os.path.realpath(usual.path):
        pytest.skip(f"{program} is this machine's usual compiler, which test_compile.py runs")
    for kernel in SAMPLE:
        compile_clean(kernel, program, language, tmp_path, "-fsyntax-only")


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_kernel_is_clean(compiler, language, level, tmp_path):
    program = driver(compiler, language)
    for kernel in KERNELS:
        compile_clean(kernel, program, language, tmp_path, level)
