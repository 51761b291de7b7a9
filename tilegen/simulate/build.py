"""Builds the C++ core once a machine, and PTX once a source; both are kept in tilegen's cache."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tilegen.simulate.launch import SimulationError
from tilegen.toolchain.build import run_compiler
from tilegen.toolchain.cache import cached, digest
from tilegen.toolchain.find import find_cxx, find_nvcc

_CORE = Path(__file__).resolve().parent / "core"
_NATIVE = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
_FLAGS = ("-std=gnu++17", _NATIVE, "-fPIC", "-fno-math-errno", "-fno-trapping-math")
_USUAL = ("-O2", "-ffp-contract=off")  # every operation rounds
_COLD = ("-O1", "-ffp-contract=off")  # for what runs seldom: all it costs is its compilation
_SPECIAL = {
    "tensor.cpp": ("-O3", "-ffp-contract=fast"),  # see there
    "real.cpp": ("-O3", "-ffp-contract=off"),
    "rounding.cpp": (*_COLD, "-frounding-math"),
    "half.cpp": _COLD,
    "cold.cpp": _COLD,  # includes several others
}


def _processor() -> str:
    """What the flag for the native processor depends on."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    except OSError:
        pass
    return platform.processor()


def _with_headers(source: Path, seen: dict[Path, bytes]) -> dict[Path, bytes]:
    """A source and the headers of the core that it includes, directly or not."""
    if source not in seen:
        seen[source] = source.read_bytes()
        for name in re.findall(rb'#include "([^"]+)"', seen[source]):
            _with_headers(_CORE / name.decode(), seen)
    return seen


@functools.cache
def core_path() -> Path:
    """The core as a shared library, built if the cache does not hold it.

    Raises:
        ToolMissing: no C++ compiler.
        BuildError: the compiler refused the core.
    """
    compiler = find_cxx()
    common = [
        compiler.path,
        compiler.version,
        *compiler.flags,
        *_FLAGS,
        platform.machine(),
        _processor(),
    ]
    together = _with_headers(_CORE / "cold.cpp", {})
    sources = [path for path in sorted(_CORE.glob("*.cpp")) if path not in together]
    # Last, for the linker takes the first copy of an inline function that several parts hold.
    sources.append(_CORE / "cold.cpp")
    keys = {
        source: digest(
            [*common, *_SPECIAL.get(source.name, _USUAL), *_with_headers(source, {}).values()]
        )
        for source in sources
    }

    def compile_one(source: Path) -> Path:
        def make(folder: Path) -> None:
            flags = [*compiler.flags, *_FLAGS, *_SPECIAL.get(source.name, _USUAL)]
            run_compiler(
                [compiler.path, *flags, "-c", "-o", str(folder / "part.o"), str(source)],
                f"the simulator's {source.name}",
            )

        return cached("simulator-part", keys[source], ("part.o",), make) / "part.o"

    def link(folder: Path) -> None:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            started = {source: pool.submit(compile_one, source) for source in reversed(sources)}
            parts = [started[source].result() for source in sources]
        command = [
            compiler.path,
            *compiler.flags,
            "-shared",
            "-o",
            str(folder / "core.so"),
            *map(str, parts),
        ]
        run_compiler(command, "the simulator's core")

    return cached("simulator", digest(keys.values()), ("core.so",), link) / "core.so"


@functools.cache
def load_core() -> ctypes.CDLL:
    """The core, loaded. Raises as `core_path`."""
    library = ctypes.CDLL(str(core_path()))
    library.sim_op_name.restype = ctypes.c_char_p
    library.sim_op_count.restype = ctypes.c_int64
    library.sim_struct_bytes.restype = ctypes.c_int64
    library.sim_run.restype = ctypes.c_void_p
    library.sim_findings.restype = ctypes.c_int64
    library.sim_steps.restype = ctypes.c_uint64
    library.sim_finding.restype = None
    library.sim_free.restype = None
    return library


@functools.cache
def operations() -> dict[str, int]:
    """The core's operations by name."""
    library = load_core()
    return {
        library.sim_op_name(ctypes.c_int64(k)).decode(): k for k in range(library.sim_op_count())
    }


def compile_ptx(
    source: str | Path, arch: str = "80", flags: Sequence[str] = (), device_only: bool = False
) -> str:
    """PTX of a .cu, with line numbers, compiled once for the same text, headers beside it and flags.

    Args:
        source: path of a .cu file.
        arch: compute capability, `80` or `90a`; `sm_90a` is taken as well.
        flags: added to nvcc's.
        device_only: define TILEGEN_DEVICE_ONLY, which hides an emitted kernel's host part.

    Raises:
        ToolMissing: no nvcc.
        BuildError: nvcc refused the source.
        SimulationError: there is no such file.
    """
    path = Path(source)
    if not path.is_file():
        raise SimulationError(f"no file {path}")
    tool = find_nvcc()
    arch = arch.removeprefix("sm_").removeprefix("compute_")
    command = [
        "-ptx",
        "-lineinfo",
        "-O3",
        "-std=c++17",
        f"-gencode=arch=compute_{arch},code=compute_{arch}",
    ]
    command += ["-DTILEGEN_DEVICE_ONLY"] if device_only else []
    command += [f"-I{path.resolve().parent}", *flags]
    beside = [
        p for pattern in ("*.h", "*.cuh") for p in sorted(path.resolve().parent.glob(pattern))
    ]
    content = [item for p in [path, *beside] for item in (p.name, p.read_bytes())]
    key = digest([tool.path, tool.version, *tool.flags, *command, *content])

    def make(folder: Path) -> None:
        copy = folder / path.name
        copy.write_bytes(path.read_bytes())
        run_compiler(
            [tool.path, *tool.flags, *command, "-o", str(folder / "kernel.ptx"), str(copy)],
            str(path),
        )

    return (cached("ptx", key, ("kernel.ptx",), make) / "kernel.ptx").read_text(encoding="utf-8")
