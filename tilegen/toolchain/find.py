"""Finds compilers, and says where it looked when there is none."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tilegen.errors import ToolMissing

# Where CUDA's own installer puts it.
DEFAULT_NVCC = "/usr/local/cuda/bin/nvcc"


@dataclass(frozen=True)
class Tool:
    """A program that was found.

    Attributes:
        path: where it is.
        version: the line of its own that names its version.
        flags: flags that every call needs.
    """

    path: str
    version: str
    flags: tuple[str, ...] = ()


def _version(path: str, pick: str = "") -> str:
    try:
        out = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    if out.returncode:
        return ""
    lines = [line for line in out.stdout.splitlines() if line.strip()]
    return next((line for line in lines if pick in line), lines[0] if lines else "")


def _wheel_roots() -> list[Path]:
    roots = [Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))]
    return sorted({p for root in roots for p in (root / "nvidia").glob("cu[0-9]*")}, reverse=True)


def nvcc_places() -> list[tuple[str, str]]:
    """Where nvcc is looked for, in order: (what the place is, path)."""
    places = []
    for variable in ("TILEGEN_NVCC",):
        if os.environ.get(variable):
            places.append((f"${variable}", os.environ[variable]))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            places.append((f"${variable}", os.path.join(os.environ[variable], "bin", "nvcc")))
    on_path = shutil.which("nvcc")
    places.append(("PATH", on_path or "nvcc"))
    places += [("wheel", str(root / "bin" / "nvcc")) for root in _wheel_roots()]
    places.append(("default", DEFAULT_NVCC))
    return places


def find_nvcc() -> Tool:
    """nvcc from `$TILEGEN_NVCC`, `$CUDA_HOME`, PATH, the wheels of the extra `nvcc`, /usr/local/cuda.

    Raises:
        ToolMissing: none of them runs; the message lists every place.
    """
    return _find_nvcc(tuple(nvcc_places()))


@functools.cache
def _find_nvcc(places: tuple[tuple[str, str], ...]) -> Tool:
    tried = []
    for what, path in places:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            version = _version(path, "release")
            if version:
                libs = Path(path).resolve().parent.parent / "lib"
                return Tool(path, version, (f"-L{libs}",) if libs.is_dir() else ())
            tried.append(f"  {what}: {path} does not run")
        else:
            state = "is not executable" if os.path.isfile(path) else "is not there"
            tried.append(f"  {what}: {path} {state}")
    raise ToolMissing(
        "no nvcc",
        "Searched:\n" + "\n".join(tried) + "\nInstall it with: pip install 'tilegen[nvcc]', "
        "or point CUDA_HOME at a CUDA toolkit.",
    )


def find_cc() -> Tool:
    """The C compiler: `$CC`, else gcc, clang or cc from PATH.

    Raises:
        ToolMissing: none runs.
    """
    return _find_compiler(os.environ.get("CC", ""), ("gcc", "clang", "cc"), "C", "CC")


def find_cxx() -> Tool:
    """The C++ compiler: `$CXX`, else g++, clang++ or c++ from PATH. Raises ToolMissing."""
    return _find_compiler(os.environ.get("CXX", ""), ("g++", "clang++", "c++"), "C++", "CXX")


@functools.cache
def _find_compiler(chosen: str, names: tuple[str, ...], language: str, variable: str) -> Tool:
    words = chosen.split() if chosen else []
    tried = []
    for name in [words[0]] if words else names:
        path = shutil.which(name)
        version = _version(path) if path else ""
        if path and version:
            return Tool(path, version, tuple(words[1:]))
        tried.append(f"  {name}")
    raise ToolMissing(
        f"no {language} compiler",
        "Tried:\n" + "\n".join(tried) + f"\nInstall gcc or clang, or set {variable}.",
    )


@functools.cache
def openmp_flags(cc: Tool) -> tuple[str, ...]:
    """`-fopenmp` if the compiler builds a shared library with it, else nothing (one thread)."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <omp.h>\nint probe(void) { return omp_get_max_threads(); }\n")
        command = [cc.path, *cc.flags, "-fopenmp", "-shared", "-fPIC", str(source)]
        command += ["-o", str(Path(folder) / "probe.so")]
        ran = subprocess.run(command, capture_output=True, text=True)
    return ("-fopenmp",) if ran.returncode == 0 else ()
