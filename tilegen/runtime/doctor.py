"""Looks at the machine for everything that tilegen can use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from tilegen.errors import TilegenError
from tilegen.targets import TARGETS, CpuTarget
from tilegen.toolchain import cache, find, sass
from tilegen.toolchain.host import missing_features


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: what.
        found: whether it is there and works.
        detail: where and which version, or what is wrong.
        install: what to do when it is missing.
    """

    name: str
    found: bool
    detail: str
    install: str = ""


def _tool(name: str, look: Callable[[], find.Tool]) -> Finding:
    try:
        tool = look()
    except TilegenError as error:
        return Finding(name, False, error.message, error.hint.splitlines()[-1])
    return Finding(name, True, f"{tool.version}  ({tool.path})")


def _openmp() -> Finding:
    try:
        flags = find.openmp_flags(find.find_cc())
    except TilegenError as error:
        return Finding("OpenMP", False, error.message)
    if flags:
        return Finding("OpenMP", True, "the C compiler takes -fopenmp")
    advice = "Install libgomp (gcc) or libomp (clang); kernels run on one thread without it."
    return Finding("OpenMP", False, "the C compiler rejects -fopenmp", advice)


def _driver() -> Finding:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return Finding(
            "driver",
            False,
            str(error),
            "Install the NVIDIA driver; without it kernels are only compiled or simulated.",
        )
    version = ctypes.c_int(0)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return Finding("driver", True, f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")


def _pycuda() -> Finding:
    try:
        import pycuda
        import pycuda.driver
    except ImportError as error:
        return Finding("PyCUDA", False, str(error), "pip install 'tilegen[cuda]'")
    return Finding("PyCUDA", True, pycuda.VERSION_TEXT)


def _gpu() -> Finding:
    from tilegen.runtime import gpu

    try:
        return Finding("GPU", True, f"{gpu.device_name()}, sm_{gpu.compute_capability()}")
    except TilegenError as error:
        return Finding("GPU", False, error.message.splitlines()[0])


def examine() -> list[Finding]:
    """Look for compilers, OpenMP, PyCUDA, the driver, a GPU, CPU levels and a writable cache."""
    findings = [
        _tool("nvcc", find.find_nvcc),
        _tool("cuobjdump", sass.find_cuobjdump),
        _tool("C", find.find_cc),
        _tool("C++", find.find_cxx),
    ]
    findings += [_openmp(), _driver(), _pycuda(), _gpu()]
    levels = [t for t in TARGETS.values() if isinstance(t, CpuTarget) and not missing_features(t)]
    findings.append(Finding("CPU targets", True, ", ".join(t.name for t in levels)))
    findings.append(Finding("cache", True, str(cache.cache_dir())))
    return findings
