"""Machines as they are: read-only homes, spaces in paths, other compilers, other architectures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tilegen.emit.render import render
from tilegen.errors import BuildError, ToolMissing
from tilegen.spec import KernelSpec
from tilegen.toolchain import build, cache
from tilegen.toolchain.find import find_nvcc

SMALL = ["gemm", "--dtype", "f32", "--tile", "32x32x32", "--target", "portable"]


def run(words, folder, **environment):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    env = {k: v for k, v in env.items() if v is not None}
    command = [sys.executable, "-m", "tilegen", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def test_M01_no_writable_home_falls_back_with_a_warning(tmp_path):
    (tmp_path / "home").write_text("not a folder")
    ran = run(
        ["build", *SMALL],
        tmp_path,
        HOME=str(tmp_path / "home"),
        XDG_CACHE_HOME=None,
        TILEGEN_CACHE_DIR=None,
        TMPDIR=str(tmp_path),
    )
    assert ran.returncode == 0, ran.stderr
    assert "cannot write" in ran.stderr and "TILEGEN_CACHE_DIR" in ran.stderr
    assert Path(ran.stdout.strip()).is_file() and str(tmp_path) in ran.stdout


def test_M01_the_cache_folder_can_be_chosen(tmp_path):
    ran = run(["build", *SMALL], tmp_path, TILEGEN_CACHE_DIR=str(tmp_path / "mine"))
    assert ran.returncode == 0 and str(tmp_path / "mine") in ran.stdout and not ran.stderr


def test_M03_spaces_and_quotes_in_paths(tmp_path):
    folder = tmp_path / "my proj (1)'s"
    folder.mkdir()
    ran = run(["emit", *SMALL, "--verify"], folder, TILEGEN_CACHE_DIR=str(folder / "the cache"))
    assert ran.returncode == 0, ran.stderr
    assert "ran on c_openmp" in ran.stdout


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.parametrize("architectures", [None, "", "75;80;90", "OFF"])
def test_L11_M03_cmake_configures_for_any_architectures(tmp_path, architectures):
    folder = tmp_path / "my proj (1)"
    shutil.copytree(ROOT / "generated", folder / "generated")
    shutil.copytree(ROOT / "examples" / "cmake", folder / "examples" / "cmake")
    command = ["cmake", "-S", "examples/cmake", "-B", "the build"]
    if architectures is not None:
        command.append(f"-DCMAKE_CUDA_ARCHITECTURES={architectures}")
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]


def _fake_nvcc(folder: Path, body: str) -> Path:
    path = folder / "nvcc"
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 12.1"; exit 0; fi\n'
        + body
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def cuda_kernel():
    return render(KernelSpec.make("gemm", "sm_75", {"dtype": "f32"}))


def test_M07_unsupported_host_compiler_is_explained(tmp_path, monkeypatch, cuda_kernel):
    text = "#error -- unsupported GNU version! gcc versions later than 12 are not supported!"
    fake = _fake_nvcc(tmp_path, f'echo "$@" > {tmp_path}/flags; echo "{text}" >&2; exit 1\n')
    monkeypatch.setenv("TILEGEN_NVCC", str(fake))
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(BuildError) as error:
        build.library(cuda_kernel)
    assert "NVCC_CCBIN" in str(error.value) and "unsupported GNU version" in str(error.value)
    assert "-allow-unsupported-compiler" not in (tmp_path / "flags").read_text()


def test_M05_nvcc_from_cuda_home(tmp_path, monkeypatch):
    home = tmp_path / "cuda" / "bin"
    home.mkdir(parents=True)
    _fake_nvcc(home, "exit 0\n")
    monkeypatch.delenv("TILEGEN_NVCC", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find_nvcc().path == str(home / "nvcc")


def test_M05_nvcc_that_may_not_be_executed(tmp_path, monkeypatch):
    fake = _fake_nvcc(tmp_path, "exit 0\n")
    fake.chmod(0o644)
    monkeypatch.setenv("TILEGEN_NVCC", str(fake))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("tilegen.toolchain.find._wheel_roots", lambda: [])
    monkeypatch.setattr("tilegen.toolchain.find.DEFAULT_NVCC", str(tmp_path / "nowhere"))
    with pytest.raises(ToolMissing) as error:
        find_nvcc()
    assert "is not executable" in str(error.value) and str(fake) in str(error.value)


def test_I19_compiler_without_openmp_builds_for_one_thread(tmp_path):
    """A compiler that rejects -fopenmp: the kernel is built without it and says so."""
    real = shutil.which("gcc") or shutil.which("cc")
    fake = tmp_path / "cc"
    fake.write_text(
        "#!/bin/sh\n"
        'for a in "$@"; do if [ "$a" = -fopenmp ]; then echo "unsupported option" >&2; exit 1; fi; done\n'
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    ran = run(["verify", *SMALL], tmp_path, CC=str(fake), TILEGEN_CACHE_DIR=str(tmp_path / "cache"))
    assert ran.returncode == 0, ran.stderr
    assert "one thread, no OpenMP" in ran.stdout


def test_M11_a_built_kernel_runs_without_a_compiler(tmp_path):
    """With its library in the cache, nothing is compiled."""
    env = {"TILEGEN_CACHE_DIR": str(tmp_path / "cache")}
    assert run(["verify", *SMALL], tmp_path, **env).returncode == 0
    (tmp_path / "bin").mkdir()
    for tool in ("gcc", "cc"):
        path = shutil.which(tool)
        if path:
            script = (
                f'#!/bin/sh\nif [ "$1" = --version ]; then exec {path} --version; fi\nexit 99\n'
            )
            (tmp_path / "bin" / tool).write_text(script)
            (tmp_path / "bin" / tool).chmod(0o755)
    ran = run(["verify", *SMALL], tmp_path, **env)
    assert ran.returncode == 0, ran.stderr


def test_G11_a_wide_operand_of_a_half_kernel_is_refused_not_narrowed():
    import numpy as np

    import tilegen

    kernel = tilegen.emit(tilegen.Gemm(dtype="f16"), target="portable")
    a = np.full((2, 8), 1e5, np.float32)
    with pytest.raises(tilegen.TilegenError, match="a has dtype float32, the kernel takes f16"):
        kernel(a, a)


def test_cache_drops_what_was_not_used_longest(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3000)
    monkeypatch.setattr(cache, "SWEEP_SECONDS", 0.0)

    def build_file(folder):
        (folder / "f").write_bytes(b"x" * 1000)

    for number in range(6):
        path = cache.cached("t", str(number), ("f",), build_file)
        os.utime(path, (number, number))
    left = sorted(p.name for p in tmp_path.glob("t-*"))
    assert "t-5" in left and "t-0" not in left and len(left) <= 4
    # It is not measured for each entry: that would take longer than what is built.
    monkeypatch.setattr(cache, "SWEEP_SECONDS", 60.0)
    for number in range(6, 12):
        cache.cached("t", str(number), ("f",), build_file)
    assert len(list(tmp_path.glob("t-*"))) == len(left) + 6


def test_K07_K09_many_processes_build_one_kernel(tmp_path):
    """All succeed, one result, no scratch left; a partial entry is rebuilt, never loaded."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TILEGEN_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "tilegen", "build", *SMALL]
    running = [
        subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    paths = {p.communicate()[0].strip() for p in running}
    assert all(p.returncode == 0 for p in running) and len(paths) == 1
    assert [p.name for p in (tmp_path / "cache").glob(".*")] == [".swept"]
    library = Path(paths.pop())
    library.unlink()
    assert subprocess.run(command, cwd=tmp_path, env=env, capture_output=True).returncode == 0
    assert library.is_file()
