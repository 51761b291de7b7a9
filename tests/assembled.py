"""A kernel's PTX, which the simulator runs, assembled for GPUs: the second half of what a release compiles."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.simulate.host import build_host
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.find import find_nvcc


def assembled(kernel: Rendered, archs: Sequence[CudaTarget] = ()) -> list[build.PtxasReport]:
    """Refuse warnings, spills and fences in loops as a release does; returns ptxas's reports for every architecture.

    nvcc has made the PTX of the oldest one with the flags of a release, and the launcher in the same run.
    """
    archs = archs or [kernel.spec.target]
    made = build_host(build.laid_out(kernel), min(archs, key=lambda a: a.cc))
    assert not made.warnings
    tool, kind = find_nvcc(), "-cubin" if len(archs) == 1 else "-fatbin"
    command = [tool.path, *tool.flags, *build.gencodes(archs), "-lineinfo", kind, "-Xptxas", "-v"]
    with tempfile.TemporaryDirectory() as folder:
        ptx, code = Path(folder, "kernel.ptx"), Path(folder, "kernel.code")
        ptx.write_text(made.ptx, encoding="utf-8")
        said = build.run_compiler([*command, str(ptx), "-o", str(code)], kernel.source)
        assert "warning" not in said, said
        build.refuse_fences(kernel, archs[0], code)
    reports = build.read_ptxas(said)
    build.refuse_spills(kernel, reports)
    assert {r.arch for r in reports} == {a.name for a in archs}
    return reports
