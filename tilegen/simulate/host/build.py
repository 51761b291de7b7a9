"""A .cu file compiled as it is: its PTX for the simulator, its host code linked to the recorder."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilegen.errors import BuildError
from tilegen.simulate.launch import SimulationError
from tilegen.targets import CudaTarget
from tilegen.toolchain.build import CUDA_FLAGS, WARNINGS
from tilegen.toolchain.cache import cached, digest
from tilegen.toolchain.find import find_nvcc

_HERE = Path(__file__).resolve().parent
_SOURCES = ("all.cpp", "encoder.cpp", "launch.cpp", "record.h", "runtime.cpp", "state.cpp")


@dataclass(frozen=True)
class HostBuild:
    """What nvcc made of one .cu file.

    Attributes:
        source: the .cu file.
        ptx: PTX text, with the source's lines.
        library: shared object that holds the launchers and the recorder.
        warnings: what nvcc and the host's compiler said, empty for clean text.
    """

    source: Path
    ptx: str
    library: Path
    warnings: str


def _run(command: list[str], folder: Path, what: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    log = (done.stderr + done.stdout).strip()
    if done.returncode == 0:
        return log
    unknown = sorted(set(re.findall(r"undefined reference to `([^']+)'", log)))
    if unknown:
        raise SimulationError(
            f"{what} calls {', '.join(unknown)}, which the recorder of host code does not model"
        )
    raise BuildError(f"nvcc refused {what}:\n{log}")


def recorder_object() -> Path:
    """The recorder's object file, built once a machine and toolkit (2 s)."""
    nvcc = find_nvcc()
    key = digest([nvcc.path, nvcc.version, *((_HERE / name).read_bytes() for name in _SOURCES)])

    def build(folder: Path) -> None:
        command = [
            nvcc.path,
            *nvcc.flags,
            "-O1",
            "-std=c++17",
            "-Xcompiler",
            "-fPIC",
            "-c",
            str(_HERE / "all.cpp"),
        ]
        _run([*command, "-o", "recorder.o"], folder, "the recorder of host code")

    return cached("recorder", key, ("recorder.o",), build) / "recorder.o"


def _texts(source: Path) -> list[bytes]:
    """The source and what it includes in quotes, recursively."""
    texts, seen, waiting = [], set(), [source.resolve()]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        raw = path.read_bytes()
        texts.append(raw)
        for name in re.findall(rb'^\s*#\s*include\s+"([^"]+)"', raw, re.M):
            waiting.append((path.parent / name.decode()).resolve())
    return texts


def build_host(source: Path, target: CudaTarget, options: tuple[str, ...] = ()) -> HostBuild:
    """Compile a .cu once: one run of nvcc makes the PTX and the library; both are cached by content.

    The flags are those of a release, warnings included, so the PTX is what ptxas would be given; ptxas does not run.

    Raises:
        ToolMissing: no nvcc.
        BuildError: nvcc refuses the source; the message is its own.
        SimulationError: the host code calls a part of the CUDA runtime that the recorder lacks.
    """
    source = Path(source).resolve()
    if not source.exists():
        raise SimulationError(f"no such file: {source}")
    nvcc = find_nvcc()
    arch = target.name.removeprefix("sm_")
    flags = [
        *(flag for flag in CUDA_FLAGS if not flag.startswith("--Werror")),
        "-Xcompiler",
        ",".join(WARNINGS),
        f"-gencode=arch=compute_{arch},code=compute_{arch}",
        *options,
    ]
    recorder = recorder_object()
    key = digest(
        [nvcc.path, nvcc.version, str(source), recorder.parent.name, *flags, *_texts(source)]
    )

    def build(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tilegen-nvcc-") as scratch:
            command = [
                nvcc.path,
                *nvcc.flags,
                *flags,
                "-shared",
                "-cudart",
                "none",
                "-Xcompiler",
                "-fPIC",
            ]
            command += ["-Xlinker", "-Bsymbolic,-z,defs", "-keep", "-keep-dir", scratch]
            command += [str(source), str(recorder), "-o", str(folder / "kernel.so")]
            said = _run(command, Path(scratch), source.name)
            shutil.copy(Path(scratch) / f"{source.stem}.ptx", folder / "kernel.ptx")
            (folder / "warnings.txt").write_text(said, encoding="utf-8")

    folder = cached("host", key, ("kernel.so", "kernel.ptx", "warnings.txt"), build)
    ptx, said = ((folder / name).read_text("utf-8") for name in ("kernel.ptx", "warnings.txt"))
    return HostBuild(source, ptx, folder / "kernel.so", said)
