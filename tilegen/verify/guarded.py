"""Arrays inside memory that shows every stray write, and outputs that show every missing one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilegen.values import DType

# Bytes of every guard: a quiet NaN in each float format, a conspicuous integer elsewhere.
POISON = 0xFF
GUARD_BYTES = 256


@dataclass
class Guarded:
    """An array with guard bands before, after and between its rows.

    Attributes:
        array: the view that the kernel gets.
        memory: all bytes, guards included.
        inside: mask over `memory` of the bytes that belong to elements.
    """

    array: np.ndarray
    memory: np.ndarray
    inside: np.ndarray

    def strays(self) -> int:
        """Number of guard bytes that changed."""
        return int(np.count_nonzero(self.memory[~self.inside] != POISON))


def guarded(dtype: DType, shape: tuple[int, ...], *, row_pad: int = 0, offset: int = 0) -> Guarded:
    """Allocate a poisoned array.

    Args:
        dtype: element type.
        shape: extents, outer first.
        row_pad: elements between one row's end and the next row's start.
        offset: elements by which the first one is displaced from a 256-byte boundary.
    """
    size = dtype.bytes
    pitch = (shape[-1] if shape else 1) + (row_pad if len(shape) > 1 else 0)
    rows = int(np.prod(shape[:-1], dtype=np.int64)) if shape else 1
    memory = np.full(2 * GUARD_BYTES + (rows * pitch + offset) * size + 256, POISON, np.uint8)
    lead = -memory.ctypes.data % 256
    start = lead + GUARD_BYTES + offset * size
    steps = [size]
    for extent in reversed(shape[1:]):
        steps.append(steps[-1] * (extent if len(steps) > 1 else pitch))
    strides = tuple(reversed(steps[: len(shape)]))
    inside = np.zeros(memory.shape, bool)
    mask = np.ndarray((*shape, size), bool, inside[start:].data, 0, (*strides, 1))
    mask[...] = True
    view = np.ndarray(shape, dtype.numpy, memory, start, strides)
    return Guarded(view, memory, inside)


def fill(target: Guarded, values: np.ndarray) -> None:
    """Write the elements, leaving the guards."""
    target.array[...] = values
