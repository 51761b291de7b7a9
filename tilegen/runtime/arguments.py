"""From arrays to the C arguments of a launcher: sizes, pointers and strides, all checked."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.emit.signature import Argument, arguments
from tilegen.errors import ArgumentError, CallRefused
from tilegen.plans.base import Plan
from tilegen.problems.base import Tensor

_SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32}
_SCALARS |= {"i64": ctypes.c_int64}

# Steps in which NumPy decides whether two strided arrays share an element; they count as sharing after that.
_SHARE_WORK = 10**5


@dataclass(frozen=True)
class View:
    """Where an array lies in memory, host or device.

    Attributes:
        pointer: address of its first element.
        shape: extents, outer first.
        strides: bytes from one element to the next along each dimension.
        dtype: NumPy element type.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, array: Any, name: str) -> View:
        """Look at a NumPy array or at anything with `__cuda_array_interface__`.

        Raises:
            ArgumentError: it is neither.
        """
        if isinstance(array, np.ndarray):
            return cls(array.ctypes.data, array.shape, array.strides, array.dtype)
        if isinstance(array, View):
            return array
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is None:
            raise ArgumentError(
                f"{name} is a {type(array).__name__}",
                "Pass a NumPy array, or a device array with __cuda_array_interface__.",
            )
        kind = np.dtype(interface["typestr"])
        shape = tuple(interface["shape"])
        strides = interface.get("strides")
        if strides is None:
            steps = [kind.itemsize]
            for extent in reversed(shape[1:]):
                steps.append(steps[-1] * extent)
            strides = tuple(reversed(steps[: len(shape)]))
        return cls(interface["data"][0], shape, tuple(strides), kind)

    @property
    def extent(self) -> tuple[int, int]:
        """First byte, and the byte past the last, of the memory it may touch; empty if no elements."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        return self.pointer, self.pointer + last + self.dtype.itemsize

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """For NumPy to compare addresses; nothing is read through it."""
        return {
            "version": 3,
            "data": (self.pointer, True),
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"|V{self.dtype.itemsize}",
        }

    def shares(self, other: View) -> bool:
        """Whether some byte belongs to both: parts of one array that lie between each other do not share."""
        (low, high), (first, last) = self.extent, other.extent
        if low >= last or first >= high:
            return False
        try:
            return np.shares_memory(np.asarray(self), np.asarray(other), max_work=_SHARE_WORK)
        except np.exceptions.TooHardError:
            return True


def _check_array(tensor: Tensor, view: View) -> None:
    want = tensor.dtype.numpy
    same_bits = view.dtype.itemsize == want.itemsize and view.dtype.kind == "u" and want.kind == "V"
    if view.dtype != want and not same_bits:
        raise ArgumentError(
            f"{tensor.name} has dtype {view.dtype}, the kernel takes {tensor.dtype}",
            f"Convert it with {tensor.name}.astype({want.name!r}), or emit the kernel for its dtype.",
        )
    if len(view.shape) != len(tensor.dims):
        dims = ",".join(tensor.dims)
        raise ArgumentError(
            f"{tensor.name} has {len(view.shape)} dimensions {view.shape}, the kernel takes [{dims}]"
        )
    if not view.shape or 0 in view.shape:
        return
    size = view.dtype.itemsize
    if view.shape[-1] > 1 and view.strides[-1] != size:
        raise ArgumentError(
            f"{tensor.name} is not contiguous along {tensor.dims[-1]}: its elements lie "
            f"{view.strides[-1]} bytes apart, {size} needed",
            f"Pass np.ascontiguousarray({tensor.name}), or emit a kernel for another layout.",
        )
    for dim, extent, stride in zip(tensor.dims[:-1], view.shape, view.strides):
        if extent > 1 and (stride < 0 or stride % size):
            raise ArgumentError(
                f"{tensor.name} has a stride of {stride} bytes along {dim}; the kernel takes multiples "
                f"of {size} from 0 up",
                f"Pass np.ascontiguousarray({tensor.name}).",
            )


def infer_sizes(plan: Plan, views: Mapping[str, View]) -> dict[str, int]:
    """Extents by size name, from the arrays' shapes.

    Raises:
        ArgumentError: an array is missing, or two arrays disagree about a size.
    """
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}
    names = {size.name for size in plan.problem.sizes()}
    for tensor in plan.problem.tensors():
        if tensor.name not in views:
            raise ArgumentError(
                f"{tensor.name} is missing: {tensor.doc}, [{','.join(tensor.dims)}]"
            )
        view = views[tensor.name]
        _check_array(tensor, view)
        for dim, extent in zip(tensor.dims, view.shape):
            if dim not in names:
                continue
            if sizes.setdefault(dim, extent) != extent:
                raise ArgumentError(
                    f"{dim} is {sizes[dim]} in {source[dim]} and {extent} in {tensor.name}",
                    f"{tensor.name} has shape {view.shape}; the kernel takes [{','.join(tensor.dims)}].",
                )
            source.setdefault(dim, tensor.name)
    for tensor in plan.problem.tensors():
        shape = views[tensor.name].shape
        if shape != tensor.shape(sizes):
            raise ArgumentError(
                f"{tensor.name} has shape {shape}; the kernel takes [{','.join(tensor.dims)}], "
                f"here {tensor.shape(sizes)}"
            )
    return sizes


def _check_overlap(plan: Plan, views: Mapping[str, View]) -> None:
    tensors = plan.problem.tensors()
    for written in (t for t in tensors if t.is_written):
        for other in tensors:
            if other.name != written.name and views[written.name].shares(views[other.name]):
                raise ArgumentError(
                    f"{written.name} overlaps {other.name} in memory",
                    "The kernel writes while others of its threads still read: pass a separate array.",
                )


def _strides(tensor: Tensor, view: View) -> list[int]:
    """Stride arguments in elements; a dimension of one element takes the smallest legal stride."""
    size = view.dtype.itemsize
    found: list[int] = []
    least = view.shape[-1] if view.shape else 1
    for position in range(len(tensor.strides) - 1, -1, -1):
        step = view.strides[position] // size
        if view.shape[position] <= 1 or 0 in view.shape:
            step = least
        found.append(step)
        least = max(least, step) * max(view.shape[position], 1)
    return found[::-1]


def marshal(
    plan: Plan,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, float],
    last: Any,
    workspace: tuple[int, int] = (0, 0),
    packed: int = 0,
) -> tuple[list[Any], dict[str, int]]:
    """The ctypes values of every argument, in C order.

    Args:
        plan: the kernel's plan.
        arrays: every array by name, or Views of them.
        scalars: every run-time scalar by name.
        last: the stream (address) or the number of threads.
        workspace: address and bytes.
        packed: address of the input that is packed ahead, where the kernel has one.

    Returns:
        The values, and the sizes that the arrays have.

    Raises:
        ArgumentError: a missing or unknown array or scalar, a wrong dtype, shape or stride, an overlap.
    """
    names = {t.name for t in plan.problem.tensors()}
    for name in arrays:
        if name not in names:
            raise ArgumentError(
                f"the kernel has no array '{name}'", f"Arrays: {', '.join(sorted(names))}"
            )
    views = {name: View.of(array, name) for name, array in arrays.items()}
    sizes = infer_sizes(plan, views)
    _check_overlap(plan, views)
    wanted = {s.name: s for s in plan.problem.scalars()}
    if set(scalars) != set(wanted):
        missing = ", ".join(sorted(set(wanted) - set(scalars))) or "none"
        unknown = ", ".join(sorted(set(scalars) - set(wanted))) or "none"
        raise ArgumentError(f"scalars missing: {missing}; unknown: {unknown}")
    values = []
    for argument in arguments(plan):
        if argument.role == "packed":
            values.append(ctypes.c_void_p(packed))
        else:
            values.append(_value(argument, views, sizes, scalars, wanted, last, workspace))
    return values, sizes


def _value(argument: Argument, views, sizes, scalars, wanted, last, workspace) -> Any:
    match argument.role:
        case "size":
            return ctypes.c_int64(sizes[argument.name])
        case "pointer":
            return ctypes.c_void_p(views[argument.name].pointer)
        case "stride":
            return stride_value(argument, views[argument.tensor.name])
        case "scalar":
            return _SCALARS[wanted[argument.name].dtype.name](scalars[argument.name])
        case "workspace":
            return ctypes.c_void_p(workspace[0])
        case "workspace_bytes":
            return ctypes.c_size_t(workspace[1])
        case "stream":
            return ctypes.c_void_p(last)
        case "threads":
            return ctypes.c_int(last)
    raise AssertionError(argument.role)


def stride_value(argument: Argument, view: View) -> ctypes.c_int64:
    """The value of a stride argument for an array that lies there."""
    strides = _strides(argument.tensor, view)
    return ctypes.c_int64(strides[argument.tensor.strides.index(argument.name)])


def require_supported(plan: Plan, function: Any, values: list[Any]) -> None:
    """Ask a kernel's `_supports` about a call.

    Args:
        plan: the kernel's plan.
        function: the C function `<symbol>_supports`.
        values: the call's arguments as `marshal` gave them.

    Raises:
        CallRefused: with the code and the reason from the header.
    """
    roles = [a.role for a in arguments(plan)]
    kept = [v for v, role in zip(values, roles) if role in ("size", "pointer", "packed", "stride")]
    function.restype = ctypes.c_int
    code = function(*kept)
    if code:
        reasons = {1: "a size is negative", 2: "a stride is smaller than what it must step over"}
        reasons |= {3: "an array that has elements has no address"}
        reasons |= {r.code: r.reason for r in plan.refusals}
        raise CallRefused(f"the kernel refuses the call: {reasons.get(code, code)}", code=code)
