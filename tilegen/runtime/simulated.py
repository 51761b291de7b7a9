"""Runs a CUDA kernel without a GPU: its launcher against the recorder, its PTX in the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from tilegen.emit.render import Rendered
from tilegen.errors import ArgumentError
from tilegen.runtime.arguments import View, marshal
from tilegen.simulate import Finding, Memory, Options, Outcome, run_ptx
from tilegen.simulate.host import Host, apply, build_host
from tilegen.simulate.launch import Buffer, Launch
from tilegen.targets import CudaTarget
from tilegen.toolchain import build


class SimulatedKernel:
    """A CUDA kernel in the simulator.

    Attributes:
        kernel: what was emitted.
        options: order, seed and detectors.
        findings: what the runs so far found, hazards and broken rules of the runtime alike.
        outcomes: one for each launch so far.
    """

    def __init__(
        self,
        kernel: Rendered,
        options: Options = Options(),
        arch: CudaTarget | None = None,
        multiprocessors: int | None = None,
    ) -> None:
        """Compile the kernel for its target, or for `arch`.

        Args:
            multiprocessors: of the simulated card; few of them make persistent kernels loop.

        Raises:
            ToolMissing: no nvcc or no C++ compiler.
        """
        self.kernel = kernel
        self.options = options
        self.findings: list[Finding] = []
        self.outcomes: list[Outcome] = []
        target = arch or kernel.spec.target
        self._host = Host(build_host(build.laid_out(kernel), target), target, multiprocessors)

    def run(self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> None:
        """Compute on NumPy arrays; written ones are changed in place.

        Raises:
            ArgumentError: the arrays do not fit, or the launcher refused the call.
            SimulationError: the PTX holds a form that is not modelled.
        """
        memory, placed = Memory(), {}
        tensors = {t.name: t for t in self.kernel.plan.problem.tensors()}
        for name, array in arrays.items():
            tensor = tensors[name]
            placed[name] = _place(memory, name, array, tensor.is_written, tensor.is_read)
        views = {
            name: View(placed[name].address, a.shape, a.strides, a.dtype)
            for name, a in arrays.items()
        }
        space = (0, 0)
        if self.kernel.plan.uses_workspace:
            count = self._workspace_bytes(views, scalars)
            buffer = memory.allocate("workspace", np.zeros(max(1, count), np.uint8))
            space = (buffer.address, count)
        values, sizes = marshal(self.kernel.plan, views, scalars, 0, space)
        recording = self._host.record(self.kernel.symbol, values)
        self.findings += recording.findings
        if recording.status:
            raise ArgumentError(f"the launcher returned {recording.status} for sizes {sizes}")
        for step in recording.steps:
            if isinstance(step, Launch):
                outcome = run_ptx(self._host.build.ptx, step, memory, self.options)
                self.outcomes.append(outcome)
                self.findings += outcome.findings
            else:
                apply(step, memory)
        for name, array in arrays.items():
            if tensors[name].is_written:
                _bytes_of(array)[...] = placed[name].data

    def _workspace_bytes(self, views: Mapping[str, View], scalars: Mapping[str, float]) -> int:
        _, sizes = marshal(self.kernel.plan, views, scalars, 0, (1 << 40, 0))
        function = self._host.function(f"{self.kernel.symbol}_workspace")
        function.restype = ctypes.c_size_t
        return function(*[ctypes.c_int64(sizes[s.name]) for s in self.kernel.plan.problem.sizes()])


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes from an array's first element to its last, gaps between rows included."""
    if 0 in array.shape:
        return np.empty(0, np.uint8)
    size = sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize
    start = ctypes.c_uint8 * size
    return np.frombuffer(start.from_address(array.ctypes.data), np.uint8)


def _place(memory: Memory, name: str, array: np.ndarray, written: bool, read: bool) -> Buffer:
    """A buffer with the array's bytes, as aligned as the array is."""
    return memory.allocate(
        name,
        _bytes_of(array),
        writable=written,
        initialised=read,
        offset=array.ctypes.data % 256,
    )
