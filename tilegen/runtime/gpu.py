"""Calls a built CUDA kernel through its host launcher, on PyCUDA's primary context."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.errors import ArgumentError, ToolMissing
from tilegen.plans.base import Plan
from tilegen.runtime.arguments import View, marshal, require_supported

# Values of cudaError_t that a launcher can return, and what each means for the caller.
_INVALID_VALUE, _NO_IMAGE, _OUT_OF_RESOURCES = 1, 209, 701
_ERRORS = {
    _INVALID_VALUE: "cudaErrorInvalidValue",
    9: "cudaErrorInvalidConfiguration",
    _NO_IMAGE: "cudaErrorNoKernelImageForDevice",
    700: "cudaErrorIllegalAddress",
    _OUT_OF_RESOURCES: "cudaErrorLaunchOutOfResources",
    715: "cudaErrorIllegalInstruction",
}


def driver() -> Any:
    """PyCUDA's driver module with the primary context current.

    Raises:
        ToolMissing: PyCUDA, the driver or a GPU is not there; the message says which.
    """
    try:
        import pycuda.driver
    except ImportError as error:
        raise ToolMissing(
            f"PyCUDA does not import: {error}",
            "Install it with: pip install 'tilegen[cuda]' (it needs the NVIDIA driver's libcuda.so.1).",
        ) from None
    try:
        import pycuda.autoprimaryctx  # noqa: F401
    except pycuda.driver.Error as error:
        raise ToolMissing(f"no usable GPU: {error}") from None
    return pycuda.driver


def device_name() -> str:
    """Name of the current GPU, such as `NVIDIA H200`. Raises ToolMissing without one."""
    driver()
    import pycuda.autoprimaryctx

    return pycuda.autoprimaryctx.device.name()


def compute_capability() -> int:
    """Compute capability of the current GPU times ten. Raises ToolMissing without one."""
    driver()
    import pycuda.autoprimaryctx

    major, minor = pycuda.autoprimaryctx.device.compute_capability()
    return 10 * major + minor


def launch_failure(status: int, built_for: Any, sizes: Mapping[str, int]) -> ArgumentError:
    """The error of a launch that did not happen.

    Args:
        status: the launcher's cudaError_t.
        built_for: the target that the kernel was compiled for.
        sizes: the sizes of the call, by name.
    """
    named = f"the launcher returned {status} ({_ERRORS.get(status, 'a cudaError_t')})"
    if status == _NO_IMAGE:
        return ArgumentError(
            f"{named}: it was built for {built_for}, and this GPU is sm_{compute_capability()}",
            "Build the kernel for this GPU: emit and build it with its --target.",
        )
    if status == _OUT_OF_RESOURCES:
        return ArgumentError(
            f"{named}: the registers of all threads of a block do not fit, for sizes {sizes}",
            "Shared memory is not the cause. Choose a smaller tile or fewer threads.",
        )
    return ArgumentError(f"{named} for sizes {sizes}")


class GpuKernel:
    """A CUDA kernel's host launcher, loaded from its shared library.

    Attributes:
        plan: what it was emitted from.
        library: path of the shared library.
    """

    def __init__(self, plan: Plan, library: Path, symbol: str) -> None:
        self.plan = plan
        self.library = library
        self._driver = driver()
        self._dll = ctypes.CDLL(str(library))
        self._launch = getattr(self._dll, symbol)
        self._launch.restype = ctypes.c_int
        self._supports = getattr(self._dll, f"{symbol}_supports")
        self._workspace = getattr(self._dll, f"{symbol}_workspace") if plan.uses_workspace else None

    def launch(
        self, arrays: Mapping[str, Any], scalars: Mapping[str, float], stream: int = 0
    ) -> None:
        """Enqueue the kernel on device arrays.

        Args:
            arrays: device arrays (`__cuda_array_interface__`) or Views by name, outputs included.
            scalars: every run-time scalar by name.
            stream: address of a CUDA stream, 0 for the default one.

        Raises:
            ArgumentError: the arrays do not fit, or the launcher returned an error.
        """
        with workspace(self.plan, self._workspace, arrays, scalars, stream) as space:
            values, sizes = marshal(self.plan, arrays, scalars, stream, space)
            require_supported(self.plan, self._supports, values)
            status = self._launch(*values)
        if status:
            raise launch_failure(status, self.plan.target, sizes)

    def run(self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> None:
        """Compute on NumPy arrays: copy them to the device, launch, copy written ones back.

        Raises:
            ArgumentError: as `launch`.
        """
        on_device(arrays, lambda views: self.launch(views, scalars))


@contextmanager
def workspace(
    plan: Plan,
    query: Callable[..., int] | None,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, float],
    stream: int = 0,
) -> Iterator[tuple[int, int]]:
    """Zeroed device memory of the size that a kernel's `_workspace` function asks for.

    Args:
        plan: what the kernel was emitted from.
        query: that function; None for a kernel that needs no workspace.
        arrays: device arrays by name, which give the sizes.
        scalars: every run-time scalar by name.
        stream: address of the stream that the kernel runs on.

    Yields:
        address and bytes; the memory is freed after the device has finished.
    """
    if query is None:
        yield 0, 0
        return
    cuda = driver()
    query.restype = ctypes.c_size_t
    _, sizes = marshal(plan, arrays, scalars, stream)
    count = max(1, query(*[ctypes.c_int64(sizes[s.name]) for s in plan.problem.sizes()]))
    memory = cuda.mem_alloc(count)
    try:
        cuda.memset_d8(memory, 0, count)
        yield int(memory), count
        cuda.Context.synchronize()
    finally:
        memory.free()


def on_device(arrays: Mapping[str, np.ndarray], call: Callable[[dict[str, View]], None]) -> None:
    """Copy arrays to the device, call with their device Views, copy them back.

    An array that is a view travels with the memory around it, so that strides, alignment and guard
    bands are the same on the device.
    """
    cuda = driver()
    device, views = {}, {}
    for name, array in arrays.items():
        base = _base(array)
        address = base.ctypes.data
        if address not in device:
            memory = cuda.mem_alloc(max(1, base.nbytes))
            cuda.memcpy_htod(memory, base.reshape(-1).view(np.uint8))
            device[address] = (memory, base)
        offset = array.ctypes.data - address
        pointer = int(device[address][0]) + offset
        views[name] = View(pointer, array.shape, array.strides, array.dtype)
    try:
        call(views)
        cuda.Context.synchronize()
        for memory, base in device.values():
            cuda.memcpy_dtoh(base.reshape(-1).view(np.uint8), memory)
    finally:
        for memory, _ in device.values():
            memory.free()


def _base(array: np.ndarray) -> np.ndarray:
    """The contiguous array that owns the memory, in the order of its bytes."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.flags.c_contiguous:
        return array
    if array.flags.f_contiguous:
        return array.T
    raise ArgumentError(
        "an array's memory is owned by something other than a NumPy array",
        "Pass a copy of it, or a device array.",
    )
