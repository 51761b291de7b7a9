"""The Python API: emit a kernel, build it, call it on arrays."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.artifacts.writer import Written, write_files
from tilegen.emit.render import Rendered, Style, render
from tilegen.errors import ArgumentError
from tilegen.problems.base import Problem
from tilegen.registry import schedule_class
from tilegen.runtime.arguments import View
from tilegen.schedules.base import Schedule, require_legal
from tilegen.spec import KernelSpec
from tilegen.targets import CudaTarget, Target
from tilegen.targets import target as find_target
from tilegen.values import nearest


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
        problem = self.rendered.plan.problem
        tensors = problem.tensors()
        scalar_names = {s.name for s in problem.scalars()}
        reads = [t.name for t in tensors if t.role == "input"]
        writes = [t for t in tensors if t.is_written]
        options = {k: named.pop(k) for k in ("num_threads", "stream") if k in named}
        if "out" in named and len(writes) == 1:
            named[writes[0].name] = named.pop("out")
        if len(inputs) > len(reads):
            raise ArgumentError(
                f"{len(inputs)} arrays given, the kernel takes {len(reads)}: {reads}"
            )
        arrays = dict(zip(reads, inputs))
        scalars = {}
        known = {t.name for t in tensors} | scalar_names
        for name, value in named.items():
            if name not in known:
                raise ArgumentError(
                    f"the kernel has no argument '{name}'{nearest(name, known)}",
                    f"Arguments: {', '.join(sorted(known))}",
                )
            if name in arrays:
                raise ArgumentError(f"{name} is given twice")
            (scalars if name in scalar_names else arrays)[name] = value
        for name, array in arrays.items():
            View.of(array, name)
        on_host = all(isinstance(a, np.ndarray) for a in arrays.values())
        self._allocate(arrays, writes, on_host)
        if on_host:
            self._loaded.run(arrays, scalars, **options)
        else:
            self._loaded.launch(arrays, scalars, **options)
        results = tuple(arrays[t.name] for t in writes)
        return results[0] if len(results) == 1 else results

    def _allocate(self, arrays: dict[str, Any], writes: list[Any], on_host: bool) -> None:
        missing = [t for t in writes if t.name not in arrays]
        if missing and not on_host:
            raise ArgumentError(
                f"{missing[0].name} is missing: give a device array to compute into"
            )
        sizes: dict[str, int] = {}
        for tensor in self.rendered.plan.problem.tensors():
            if tensor.name in arrays:
                sizes.update(zip(tensor.dims, arrays[tensor.name].shape))
        for tensor in missing:
            unknown = [d for d in tensor.dims if not d.isdigit() and d not in sizes]
            if tensor.role == "inout" or unknown:
                raise ArgumentError(
                    f"{tensor.name} is missing: {tensor.doc}, [{','.join(tensor.dims)}]"
                )
            arrays[tensor.name] = np.empty(tensor.shape(sizes), tensor.dtype.numpy)


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
