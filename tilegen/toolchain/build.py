"""Compiles emitted kernels to shared libraries, cubins and PTX; everything is cached by content."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.errors import BuildError, ToolMissing
from tilegen.targets import CudaTarget
from tilegen.toolchain import sass
from tilegen.toolchain.cache import cached, digest
from tilegen.toolchain.find import Tool, find_cc, find_nvcc, openmp_flags
from tilegen.toolchain.host import native_flags

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow")
C_FLAGS = ("-std=c11", "-O3", "-fPIC", "-pedantic", *WARNINGS)
CUDA_FLAGS = ("-std=c++17", "-O3", "-lineinfo", "--Werror=all-warnings")
LIBRARY = "kernel.so"
# What ptxas said of the kernels in a CUDA library, beside it.
PTXAS = "ptxas.txt"

# A compiler that takes longer than this is ended.
COMPILE_SECONDS = 900


@dataclass(frozen=True)
class PtxasReport:
    """What ptxas said of one kernel function.

    Attributes:
        function: mangled name.
        arch: what it was compiled for, such as `sm_80`.
        registers: a thread's registers.
        shared_bytes: static shared memory.
        spill_bytes: stores plus loads of spilled registers.
        notes: lines of the C75xx kind (serialised wgmma, ignored setmaxnreg).
    """

    function: str
    arch: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    notes: tuple[str, ...] = ()


def run_compiler(command: Sequence[str], what: str) -> str:
    """Run a compiler and return what it printed.

    Raises:
        BuildError: it failed, or did not end in time; the message carries its first lines and the
            command.
    """
    ran = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = ran.communicate(timeout=COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"{what} was not compiled within {COMPILE_SECONDS} s",
            f"Choose a smaller tile or less unrolling.\nCommand: {' '.join(command)}",
        ) from None
    finally:
        # A driver such as nvcc has children of its own, which would go on.
        if ran.poll() is None:
            os.killpg(ran.pid, signal.SIGKILL)
            ran.wait()
    if ran.returncode:
        lines = printed.strip().splitlines()
        shown = "\n".join(f"  {line}" for line in lines[:20])
        hint = ""
        if "unsupported GNU version" in printed or "unsupported clang version" in printed:
            hint = (
                "\nnvcc refuses this host compiler: name an older one with NVCC_CCBIN or --ccbin."
            )
        raise BuildError(f"{what} does not compile", f"{shown}\nCommand: {' '.join(command)}{hint}")
    return printed


def lay_out(kernel: Rendered, folder: Path) -> Path:
    """Write the kernel's files into one folder, side by side; returns the source's path."""
    for path, text in kernel.files.items():
        (folder / Path(path).name).write_text(text, encoding="utf-8", newline="\n")
    return folder / Path(kernel.source).name


def laid_out(kernel: Rendered) -> Path:
    """Path of the kernel's source in the cache, its header beside it, for tools that read files."""
    key = digest([text for item in sorted(kernel.files.items()) for text in item])
    names = tuple(Path(path).name for path in kernel.files)
    folder = cached("source", key, names, lambda folder: lay_out(kernel, folder))
    return folder / Path(kernel.source).name


def _key(kernel: Rendered, tool: Tool, flags: Sequence[str]) -> str:
    return digest([*kernel.files.values(), tool.path, tool.version, *tool.flags, *flags])


def gencodes(archs: Sequence[CudaTarget]) -> list[str]:
    """The PTX of the oldest architecture serves all, but where one alone has features of its own."""
    if len(archs) == 1:
        return [archs[0].gencode]
    oldest = min(archs, key=lambda a: a.cc)
    return [f"-gencode=arch=compute_{oldest.cc},code=[{','.join(a.name for a in archs)}]"]


def library(
    kernel: Rendered,
    flags: Sequence[str] = (),
    arch: CudaTarget | Sequence[CudaTarget] | None = None,
    *,
    shipped: bool = False,
) -> Path:
    """Build a kernel, launcher included, as a shared library.

    Args:
        kernel: an emitted kernel.
        flags: added to the compiler's flags.
        arch: the GPU to build for, or several; the kernel's own target if not given.
        shipped: the library will run elsewhere. Otherwise a portable kernel, which names no instruction
            set of its own, is compiled for this machine's processor.

    Returns:
        The library's path in the cache.

    Raises:
        ToolMissing: no compiler.
        BuildError: the compiler refused the text or warned.
    """
    if isinstance(kernel.spec.target, CudaTarget):
        tool = find_nvcc()
        archs = [arch] if isinstance(arch, CudaTarget) else arch or [kernel.spec.target]
        all_flags = [
            *gencodes(archs),
            *CUDA_FLAGS,
            *flags,
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-cudart",
            "static",
            "-Xptxas",
            "-v",
        ]
        all_flags += ["-Xcompiler", ",".join(WARNINGS)]
    else:
        tool = find_cc()
        all_flags = [*C_FLAGS, *openmp_flags(tool), "-Werror", *flags, "-shared"]
        if not shipped and not kernel.spec.target.features:
            all_flags += native_flags()

    def make(folder: Path) -> None:
        source = lay_out(kernel, folder)
        command = [tool.path, *tool.flags, *all_flags, str(source), "-o", str(folder / LIBRARY)]
        if not isinstance(kernel.spec.target, CudaTarget):
            command.append("-lm")
        (folder / PTXAS).write_text(run_compiler(command, kernel.source), encoding="utf-8")

    return cached("library", _key(kernel, tool, all_flags), (LIBRARY, PTXAS), make) / LIBRARY


def cubin(kernel: Rendered, arch: CudaTarget) -> tuple[Path, list[PtxasReport]]:
    """Compile the device code for one architecture and read ptxas's report.

    Returns:
        The cubin's path in the cache, and a report for each kernel function.

    Raises:
        ToolMissing, BuildError: as `library`.
    """
    tool = find_nvcc()
    flags = [arch.gencode, *CUDA_FLAGS, "-cubin", "-Xptxas", "-v"]

    def make(folder: Path) -> None:
        source = lay_out(kernel, folder)
        command = [tool.path, *tool.flags, *flags, str(source), "-o", str(folder / "kernel.cubin")]
        printed = run_compiler(command, f"{kernel.source} for {arch}")
        (folder / PTXAS).write_text(printed, encoding="utf-8")

    names = ("kernel.cubin", PTXAS)
    folder = cached("cubin", _key(kernel, tool, flags), names, make)
    return folder / names[0], read_ptxas((folder / names[1]).read_text(encoding="utf-8"))


def read_ptxas(text: str) -> list[PtxasReport]:
    """Parse what `ptxas -v` printed."""
    reports = []
    notes = tuple(line.strip() for line in text.splitlines() if re.search(r"\bC75\d\d\b", line))
    pieces = re.split(r"Compiling entry function '([^']+)' for '([^']+)'", text)
    for name, arch, piece in zip(pieces[1::3], pieces[2::3], pieces[3::3]):
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", piece)
        used = re.search(r"Used (\d+) registers", piece)
        shared = re.search(r"(\d+) bytes smem", piece)
        reports.append(
            PtxasReport(
                name,
                arch,
                int(used.group(1)) if used else 0,
                int(shared.group(1)) if shared else 0,
                sum(int(s) for s in spills),
                notes,
            )
        )
    return reports


def require_no_spill(kernel: Rendered, arch: CudaTarget) -> list[PtxasReport]:
    """Compile for `arch` and refuse spills, C75xx notes and, where cuobjdump is, fences in the loop along K.

    Raises:
        BuildError: ptxas spilled registers or serialised the matrix units, with the bytes; or a loop that feeds
            them drains memory in every round, with the instruction.
    """
    path, reports = cubin(kernel, arch)
    refuse_spills(kernel, reports)
    refuse_fences(kernel, arch, path)
    return reports


def library_without_spill(kernel: Rendered, archs: Sequence[CudaTarget] = ()) -> Path:
    """Build a CUDA kernel as `library` does, and refuse it as `require_no_spill` does.

    One run of the compiler gives both, for all architectures, so that many kernels take half as long.

    Args:
        archs: what to build for, the kernel's own target if none is given.
    """
    path = library(kernel, arch=archs)
    refuse_spills(kernel, library_reports(path))
    refuse_fences(kernel, kernel.spec.target, path)
    return path


def library_reports(path: Path) -> list[PtxasReport]:
    """What ptxas said when a CUDA kernel's library was built."""
    return read_ptxas((path.parent / PTXAS).read_text(encoding="utf-8"))


def refuse_fences(kernel: Rendered, arch: CudaTarget, path: Path) -> None:
    """Raise BuildError for a loop that drains memory; pass where there is no wgmma or no cuobjdump."""
    if "wgmma" not in arch.features:
        return
    try:
        fenced = sass.fenced_loops(sass.disassemble(path))
    except ToolMissing:
        return
    if fenced:
        loop = fenced[0]
        raise BuildError(
            f"{kernel.source} for {arch}: {loop.function}: the loop at {loop.first:#x} to {loop.last:#x} drains "
            f"memory in every round: {loop.fence}",
            "Arrive at mbarriers without a qualifier such as .release.cluster, and fence outside of loops.",
        )


def refuse_spills(kernel: Rendered, reports: Sequence[PtxasReport]) -> None:
    """Raise BuildError for spilled registers, and for notes of serialised matrix units."""
    for report in reports:
        if report.spill_bytes or report.notes:
            why = f"{report.spill_bytes} bytes of spills" if report.spill_bytes else report.notes[0]
            raise BuildError(
                f"{kernel.source} for {report.arch}: {report.function}: {why}",
                "Choose a smaller tile, or more threads for it.",
            )
