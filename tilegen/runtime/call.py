"""A built kernel called like a function: arrays and scalars by place or by name, outputs made where missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilegen.errors import ArgumentError
from tilegen.problems.base import Problem, Tensor
from tilegen.runtime.arguments import View
from tilegen.values import nearest


def call(problem: Problem, loaded: Any, inputs: Sequence[Any], named: dict[str, Any]) -> Any:
    """Compute.

    Args:
        problem: says which arrays and scalars there are.
        loaded: the kernel, with `run` for NumPy arrays and `launch` for device arrays.
        inputs: the input arrays in C order.
        named: arrays and scalars by name; `out` or an output's name gives its array, `num_threads` (C) or
            `stream` (CUDA) where it runs.

    Returns:
        The result, or a tuple of them in C order.

    Raises:
        ArgumentError: the arrays do not fit the kernel; the message names the array and numbers.
    """
    tensors = problem.tensors()
    scalar_names = {s.name for s in problem.scalars()}
    reads = [t.name for t in tensors if t.role == "input"]
    writes = [t for t in tensors if t.is_written]
    options = {k: named.pop(k) for k in ("num_threads", "stream") if k in named}
    if "out" in named and len(writes) == 1:
        named[writes[0].name] = named.pop("out")
    if len(inputs) > len(reads):
        raise ArgumentError(f"{len(inputs)} arrays given, the kernel takes {len(reads)}: {reads}")
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
    _allocate(tensors, arrays, writes, on_host)
    if on_host:
        loaded.run(arrays, scalars, **options)
    else:
        loaded.launch(arrays, scalars, **options)
    results = tuple(arrays[t.name] for t in writes)
    return results[0] if len(results) == 1 else results


def _allocate(
    tensors: Sequence[Tensor], arrays: dict[str, Any], writes: Sequence[Tensor], on_host: bool
) -> None:
    missing = [t for t in writes if t.name not in arrays]
    if missing and not on_host:
        raise ArgumentError(f"{missing[0].name} is missing: give a device array to compute into")
    sizes: dict[str, int] = {}
    for tensor in tensors:
        if tensor.name in arrays:
            sizes.update(zip(tensor.dims, arrays[tensor.name].shape))
    for tensor in missing:
        unknown = [d for d in tensor.dims if not d.isdigit() and d not in sizes]
        if tensor.role == "inout" or unknown:
            raise ArgumentError(
                f"{tensor.name} is missing: {tensor.doc}, [{','.join(tensor.dims)}]"
            )
        arrays[tensor.name] = np.empty(tensor.shape(sizes), tensor.dtype.numpy)
