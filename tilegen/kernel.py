"""The Python API: emit a kernel, build it, call it on arrays."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tilegen.artifacts.writer import Written, write_files
from tilegen.emit.render import Rendered, Style, render
from tilegen.problems.base import Problem
from tilegen.registry import schedule_class
from tilegen.runtime.call import call
from tilegen.schedules.base import Schedule, require_legal
from tilegen.spec import KernelSpec
from tilegen.targets import CudaTarget, Target
from tilegen.targets import target as find_target


class Kernel:
    """An emitted kernel: its text, and on demand its library and its results.

    Attributes:
        rendered: text, plan and names.
    """

    def __init__(self, rendered: Rendered) -> None:
        self.rendered = rendered

    def __repr__(self) -> str:
        return f"<tilegen kernel {self.stem}>"

    @property
    def stem(self) -> str:
        """Name of the files, the namespace and the manifest entry."""
        return self.rendered.stem

    @property
    def source(self) -> str:
        """Text of the `.cu` or `.c` file."""
        return self.rendered.files[self.rendered.source]

    @property
    def header(self) -> str:
        """Text of the header."""
        return next(text for path, text in self.rendered.files.items() if path.endswith(".h"))

    def write(self, out: str | Path = "generated", *, force: bool = False) -> list[Written]:
        """Write the files below a folder. Raises CheckFailed over a file that was edited by hand."""
        return write_files(Path(out), self.rendered.files, force=force)

    def build(self) -> Path:
        """Compile to a shared library in the cache; returns its path.

        Raises:
            ToolMissing: no compiler.
            BuildError: the compiler refused the text.
        """
        return Path(self._loaded.library)

    @functools.cached_property
    def _loaded(self) -> Any:
        from tilegen.toolchain import build

        where = self.rendered.spec.target
        if isinstance(where, CudaTarget):
            from tilegen.runtime import gpu

            capability = gpu.compute_capability()
            arch = None if capability == where.cc else CudaTarget(f"sm_{capability}")
            library = build.library(self.rendered, arch=arch)
            return gpu.GpuKernel(self.rendered.plan, library, self.rendered.symbol)
        from tilegen.runtime import cpu

        return cpu.load(self.rendered.plan, build.library(self.rendered), self.rendered.symbol)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Compute.

        Args:
            inputs: the input arrays in C order: for a GEMM a, b, then operands of the epilogue.
            named: arrays and scalars by name; `out` or an output's name gives its array,
                `num_threads` (C) or `stream` (CUDA) where it runs.

        Returns:
            The result, or a tuple of them in C order. NumPy arrays come back as NumPy arrays; on the
            GPU, device arrays are computed on in place and outputs must be given.

        Raises:
            ArgumentError: the arrays do not fit the kernel; the message names the array and numbers.
        """
        return call(self.rendered.plan.problem, self._loaded, inputs, named)


def emit(
    problem: Problem,
    schedule: Schedule | None = None,
    target: str | Target = "sm_80",
    *,
    style: Style = Style(),
) -> Kernel:
    """Emit the kernel of a problem.

    Args:
        problem: what is computed.
        schedule: how; the target's default if not given.
        target: where: `sm_80`, `sm_90a`, `portable`, `x86-64-v4`, ...
        style: prefix and licence of the text.

    Raises:
        IllegalSchedule: the schedule does not fit; the message gives numbers and legal values.
    """
    where = find_target(target)
    if schedule is None:
        schedule = schedule_class(problem, where).default(problem, where)
    require_legal(schedule, problem, where)
    return Kernel(render(KernelSpec(problem, schedule, where), style))
