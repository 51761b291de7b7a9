"""Calls a built C kernel on NumPy arrays."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tilegen.emit.signature import arguments, pack_groups
from tilegen.errors import ArgumentError, BuildError
from tilegen.plans.base import Plan
from tilegen.runtime.arguments import View, marshal, require_supported, stride_value

# Bytes of a cache line, on which packed arrays start.
LINE = 64

# OpenMP's threads do not survive a fork, and libgomp waits for them: a child of a process that has
# used them computes on one thread.
_threads = {"used": False, "lost": False}


def _after_fork() -> None:
    _threads["lost"] = _threads["used"]


os.register_at_fork(after_in_child=_after_fork)


class CpuKernel:
    """A C kernel loaded from its shared library.

    Attributes:
        plan: what it was emitted from.
        library: path of the shared library.
    """

    def __init__(self, plan: Plan, library: Path, symbol: str) -> None:
        self.plan = plan
        self.library = library
        self._dll = ctypes.CDLL(str(library))
        self._launch = getattr(self._dll, symbol)
        self._launch.restype = ctypes.c_int
        self._supports = getattr(self._dll, f"{symbol}_supports")
        self._workspace = None
        if plan.uses_workspace:
            self._workspace = getattr(self._dll, f"{symbol}_workspace")
            self._workspace.restype = ctypes.c_size_t
        if plan.packs:
            self._pack = getattr(self._dll, f"{symbol}_pack")
            self._packed_bytes = getattr(self._dll, f"{symbol}_packed_bytes")
            self._packed_bytes.restype = ctypes.c_size_t

    def run(
        self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float], num_threads: int = 0
    ) -> None:
        """Compute into the output arrays.

        Args:
            arrays: every array by name, outputs included.
            scalars: every run-time scalar by name.
            num_threads: 0 for OpenMP's default; always 1 in a forked child of a process that ran a
                kernel.

        Raises:
            ArgumentError: the arrays do not fit the kernel, or memory ran out.
        """
        self.bound(arrays, scalars, num_threads)()

    def bound(
        self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float], num_threads: int = 0
    ) -> Callable[[], None]:
        """The call of `run` with its arguments checked and ready, to be made many times.

        Weights that the kernel wants packed are packed here, once.
        """
        num_threads = 1 if _threads["lost"] else num_threads
        _threads["used"] = True
        space, address = None, (0, 0)
        if self._workspace is not None:
            _, sizes = marshal(self.plan, arrays, scalars, num_threads)
            in_order = [ctypes.c_int64(sizes[s.name]) for s in self.plan.problem.sizes()]
            space = np.empty(max(1, self._workspace(*in_order)), np.uint8)
            address = (space.ctypes.data, space.nbytes)
        packed = self._packed(arrays, scalars, num_threads) if self.plan.packs else None
        start = packed.ctypes.data if packed is not None else 0
        values, sizes = marshal(self.plan, arrays, scalars, num_threads, address, start)
        require_supported(self.plan, self._supports, values)
        keep = (arrays, space, packed)

        def call() -> None:
            status = self._launch(*values)
            if status == errno.ENOMEM:
                raise MemoryError(f"{self.library.name}: no memory for {sizes}")
            if status:
                raise ArgumentError(f"the kernel refused {sizes} (code {status})")
            assert keep

        return call

    def _packed(
        self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float], num_threads: int
    ) -> np.ndarray:
        """The input that the kernel packs ahead, in its packed form, on a line of its own."""
        given, sizes = marshal(self.plan, arrays, scalars, num_threads)
        known = {a.name: v for a, v in zip(arguments(self.plan), given)}
        extents = [ctypes.c_int64(sizes[a.name]) for a in pack_groups(self.plan)[0]]
        memory = np.empty(self._packed_bytes(*extents) + LINE, np.uint8)
        packed = memory[-memory.ctypes.data % LINE :]
        source = View.of(arrays[self.plan.packs], self.plan.packs)
        values = []
        for argument in (a for group in pack_groups(self.plan) for a in group):
            match argument.role:
                case "pointer":
                    values.append(ctypes.c_void_p(source.pointer))
                case "packed":
                    values.append(ctypes.c_void_p(packed.ctypes.data))
                case "stride":
                    values.append(stride_value(argument, source))
                case _:
                    values.append(known[argument.name])
        status = self._pack(*values)
        if status:
            raise ArgumentError(
                f"the kernel refuses to pack {self.plan.packs} of {sizes} (code {status})"
            )
        return packed


def load(plan: Plan, library: Path, symbol: str) -> CpuKernel:
    """Load a library. Raises BuildError if it cannot be loaded on this machine."""
    try:
        return CpuKernel(plan, library, symbol)
    except OSError as error:
        raise BuildError(f"cannot load {library}: {error}") from None
