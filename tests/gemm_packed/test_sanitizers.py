"""PackedGemm in C programs: sanitizers, unmapped pages, small stacks, teams that are not as asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gemm_packed.kernels import RUNNABLE, emitted
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc, openmp_flags
from tilegen.toolchain.host import missing_features

DRIVER = Path(__file__).with_name("driver.c")


def run(target, what, folder, *flags, openmp=True, **environment):
    """Build the driver around a kernel and run one of its parts."""
    kernel = emitted(target)
    missing = missing_features(kernel.spec.target)
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    source = build.lay_out(kernel, folder)
    shutil.copy(DRIVER, folder)
    cc = find_cc()
    command = [cc.path, "-std=gnu11", "-g", f"-DKERNEL_FILE={source.name}", *flags]
    command += [f"-DLAUNCH={kernel.symbol}", *(openmp_flags(cc) if openmp else ()), "-pthread"]
    command += ["driver.c", "-o", "driver", "-lm"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if "cannot find -l" in built.stderr:
        pytest.skip(built.stderr.strip().splitlines()[-1])
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(
        ["./driver", what],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0 and ran.stdout == "right\n", ran.stdout + ran.stderr[-3000:]


@pytest.mark.parametrize("target", RUNNABLE)
def test_i13_address_and_undefined_behaviour_sanitizers(target, tmp_path):
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    run(target, "heap", tmp_path, *flags, ASAN_OPTIONS="detect_leaks=1")


@pytest.mark.parametrize("target", RUNNABLE)
def test_i13_arrays_that_end_at_an_unmapped_page(target, tmp_path):
    run(target, "pages", tmp_path, "-O3")


@pytest.mark.parametrize("target", ["portable", "x86-64-v4"])
def test_cells_of_one_product_race_nowhere(target, tmp_path):
    flags = ("-O1", "-fsanitize=thread", "-Wno-unknown-pragmas")
    run(target, "cells", tmp_path, *flags, openmp=False)


def test_i01_inside_a_parallel_region_with_one_active_level(tmp_path):
    run("x86-64-v4", "nested", tmp_path, "-O2")


def test_i03_fewer_threads_than_asked_for(tmp_path):
    run("x86-64-v4", "many", tmp_path, "-O2", OMP_DYNAMIC="TRUE", OMP_THREAD_LIMIT="3")


@pytest.mark.parametrize("target", ["portable", "x86-64-v4"])
def test_i09_small_stacks(target, tmp_path):
    run(target, "stack", tmp_path, "-O2", OMP_STACKSIZE="64K")


def test_i15_a_caller_whose_stack_is_aligned_to_8_bytes(tmp_path):
    if missing_features(emitted("x86-64-v4").spec.target):
        pytest.skip("this CPU lacks AVX-512")
    run("x86-64-v4", "heap", tmp_path, "-O1", "-mpreferred-stack-boundary=3", openmp=False)


@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64")),
    reason="needs aarch64-linux-gnu-gcc and qemu-aarch64",
)
@pytest.mark.parametrize("what", ["heap", "pages", "many"])
def test_neon_under_qemu(what, tmp_path):
    kernel = emitted("neon")
    source = build.lay_out(kernel, tmp_path)
    shutil.copy(DRIVER, tmp_path)
    command = ["aarch64-linux-gnu-gcc", "-std=gnu11", "-O2", "-static", "-fopenmp", "-pthread"]
    command += [f"-DKERNEL_FILE={source.name}", f"-DLAUNCH={kernel.symbol}", "driver.c", "-lm"]
    subprocess.run([*command, "-o", "driver"], cwd=tmp_path, check=True)
    ran = subprocess.run(
        ["qemu-aarch64", "./driver", what],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0 and ran.stdout == "right\n", ran.stdout + ran.stderr
