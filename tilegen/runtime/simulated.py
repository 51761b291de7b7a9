"""Runs a CUDA kernel without a GPU: its launcher against the recorder, its PTX in the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilegen.emit.render import Rendered
from tilegen.errors import ArgumentError
from tilegen.runtime.arguments import View, marshal, require_supported
from tilegen.simulate import Finding, Memory, Options, Outcome, run_ptx
from tilegen.simulate.host import Host, Recording, build_host, perform
from tilegen.simulate.launch import Buffer, Launch
from tilegen.targets import CudaTarget
from tilegen.toolchain import build

# Runs one launch of a PTX module on a memory, as `run_ptx` does.
Backend = Callable[[str, Launch, Memory, Options], Outcome]


@dataclass(frozen=True)
class Call:
    """One call of a launcher: what it did, and the memory that it was given.

    Attributes:
        recording: status, steps in stream order, broken rules.
        memory: one buffer an array, named as it is, and `workspace`.
        sizes: extents that the arrays have.
    """

    recording: Recording
    memory: Memory
    sizes: Mapping[str, int]


class SimulatedKernel:
    """A CUDA kernel in the simulator.

    Attributes:
        kernel: what was emitted.
        ptx: what nvcc made of it.
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
        backend: Backend = run_ptx,
    ) -> None:
        """Compile the kernel for its target, or for `arch`.

        Args:
            backend: runs the launches.
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
        self.ptx = self._host.build.ptx
        self._backend = backend

    def record(self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> Call:
        """Call the launcher on copies of the arrays, and run nothing.

        Raises:
            ArgumentError: the arrays do not fit.
        """
        memory, placed = Memory(), {}
        tensors = {t.name: t for t in self.kernel.plan.problem.tensors()}
        for name, array in arrays.items():
            if name in tensors:  # marshal refuses the others
                tensor = tensors[name]
                placed[name] = _place(memory, name, array, tensor.is_written, tensor.is_read)
        views = {
            name: View(placed[name].address, a.shape, a.strides, a.dtype) if name in placed else a
            for name, a in arrays.items()
        }
        space = (0, 0)
        if self.kernel.plan.uses_workspace:
            count = self._workspace_bytes(views, scalars)
            buffer = memory.allocate("workspace", np.zeros(max(1, count), np.uint8))
            space = (buffer.address, count)
        values, sizes = marshal(self.kernel.plan, views, scalars, 0, space)
        supports = self._host.function(f"{self.kernel.symbol}_supports")
        require_supported(self.kernel.plan, supports, values)
        return Call(self._host.record(self.kernel.symbol, values), memory, sizes)

    def run(self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> None:
        """Compute on NumPy arrays; written ones are changed in place.

        Raises:
            ArgumentError: the arrays do not fit, or the launcher refused the call.
            SimulationError: the PTX holds a form that is not modelled.
        """
        call = self.record(arrays, scalars)
        self.findings += call.recording.findings
        if call.recording.status:
            raise ArgumentError(
                f"the launcher returned {call.recording.status} for sizes {call.sizes}"
            )
        outcomes = perform(
            call.recording.steps,
            call.memory,
            lambda launch: self._backend(self.ptx, launch, call.memory, self.options),
        )
        self.outcomes += outcomes
        self.findings += [finding for outcome in outcomes for finding in outcome.findings]
        for tensor in self.kernel.plan.problem.tensors():
            if tensor.is_written:
                _bytes_of(arrays[tensor.name])[...] = call.memory[tensor.name].data

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
