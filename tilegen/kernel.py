"""The Python API: emit a kernel, build it, call it on arrays, simulate it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilegen import fields
from tilegen.artifacts.writer import Written, write_files
from tilegen.emit.render import Rendered, Style, render
from tilegen.errors import ArgumentError, UsageError
from tilegen.problems.base import Problem
from tilegen.registry import schedule_class
from tilegen.runtime.call import call
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.schedules.base import Schedule, require_legal
from tilegen.simulate import Finding, Options, Outcome, report
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
    problem: Problem | str,
    schedule: Schedule | None = None,
    target: str | Target = "sm_80",
    *,
    style: Style = Style(),
    **options: Any,
) -> Kernel:
    """Emit the kernel of a problem.

    Args:
        problem: what is computed: a Problem, or as on the command line an operator or a formula.
        schedule: how; the target's default if not given.
        target: where: `sm_80`, `sm_90a`, `portable`, `x86-64-v4`, ...
        style: prefix and licence of the text.
        options: with a problem in words its fields and the schedule's, as `tilegen fields` lists them:
            `tilegen.emit("softmax", dtype="bf16")`, `tilegen.emit("gemm", tile="64x64x32")`.

    Raises:
        UsageError: an operator, a formula or an option that is not known.
        IllegalSchedule: the schedule does not fit; the message gives numbers and legal values.
    """
    where = find_target(target)
    if isinstance(problem, str):
        spec = KernelSpec.make(problem, where, {k: fields.to_text(v) for k, v in options.items()})
        problem, schedule = spec.problem, schedule or spec.schedule
    elif options:
        raise UsageError(
            f"{', '.join(options)} given beside a {type(problem).__name__}",
            "Give options to the problem or to the schedule, or name the operator in words.",
        )
    if schedule is None:
        schedule = schedule_class(problem, where).default(problem, where)
    require_legal(schedule, problem, where)
    return Kernel(render(KernelSpec(problem, schedule, where), style))


@dataclass(frozen=True)
class Simulation:
    """What simulating a call gave.

    Attributes:
        result: the output array, or a tuple of them in C order.
        outcomes: one for each launch: counters, steps, seconds.
        findings: hazards and broken rules of the runtime; empty for a clean run.
    """

    result: Any
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        return "\n".join(report(outcome) for outcome in self.outcomes)


def simulate(
    kernel: Kernel,
    *inputs: np.ndarray,
    options: Options = Options(),
    multiprocessors: int | None = None,
    **named: Any,
) -> Simulation:
    """Compute with a CUDA kernel, without a GPU, and report what a GPU would not show.

    Args:
        kernel: what `emit` gave.
        inputs, named: as in a call of the kernel; NumPy arrays.
        options: order of execution, seed, detectors.
        multiprocessors: of the simulated card; few of them make persistent kernels loop.

    Raises:
        UsageError: the kernel is none of CUDA.
        ArgumentError: the arrays do not fit, or the launcher refused the call.
        ToolMissing: no nvcc or no C++ compiler.
    """
    rendered = kernel.rendered
    if not isinstance(rendered.spec.target, CudaTarget):
        raise UsageError(
            f"{kernel.stem} is no CUDA kernel; the simulator runs PTX", "Call it: it runs here."
        )
    for name, array in [*enumerate(inputs), *named.items()]:
        if hasattr(array, "__cuda_array_interface__"):
            raise ArgumentError(f"argument {name} is a device array", "Simulate on NumPy arrays.")
    loaded = SimulatedKernel(rendered, options, multiprocessors=multiprocessors)
    result = call(rendered.plan.problem, loaded, inputs, named)
    return Simulation(result, tuple(loaded.outcomes), tuple(loaded.findings))
