"""What every problem knows: its arguments in C order, its float64 meaning, its flops and bytes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilegen.values import DType


@dataclass(frozen=True)
class Size:
    """A run-time extent, `int64_t` in C.

    Attributes:
        name: the argument's name, also the index name it bounds.
        doc: what it counts.
    """

    name: str
    doc: str


_BLOCKS = re.compile(r"\((\w+) \+ \d+\) / (\d+)")


def blocks(size: str, length: int) -> str:
    """The dimension of an array that has one element for each `length` of a size, as C writes it."""
    return f"({size} + {length - 1}) / {length}"


def extent(dim: str, sizes: Mapping[str, int]) -> int:
    """Extent of a dimension: a number, a size, or a size in `blocks`, the last of which may be partial."""
    if found := _BLOCKS.fullmatch(dim):
        return -(-sizes[found[1]] // int(found[2]))
    return int(dim) if dim.isdigit() else sizes[dim]


def counted(dim: str) -> str:
    """What a dimension counts, in words: `n`, or `block of n`."""
    found = _BLOCKS.fullmatch(dim)
    return f"block of {found[1]}" if found else dim


@dataclass(frozen=True)
class Tensor:
    """An array argument.

    Attributes:
        name: the argument's name.
        role: `input`, `output` or `inout`.
        dtype: element type.
        dims: sizes of the array, outer dimension first; the innermost is contiguous. A number is a size
            that the kernel fixes; `blocks` gives a dimension that follows from a size.
        strides: names of the stride arguments in elements, one for each dimension but the last.
        doc: what it holds.
        any_order: whether the outer dimensions may lie in memory in any order, as batch, sequence and
            head do in the layouts of attention.
        packed: whether its elements lie in an order of the kernel's own instead.
    """

    name: str
    role: str
    dtype: DType
    dims: tuple[str, ...]
    strides: tuple[str, ...]
    doc: str
    any_order: bool = False
    packed: bool = False

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Extents of the array for the given sizes."""
        return tuple(extent(d, sizes) for d in self.dims)

    @property
    def is_written(self) -> bool:
        return self.role != "input"

    @property
    def is_read(self) -> bool:
        return self.role != "output"


@dataclass(frozen=True)
class Scalar:
    """A run-time scalar argument, passed by value.

    Attributes:
        name: the argument's name.
        dtype: f32, f64, i32 or i64.
        doc: what it is.
    """

    name: str
    dtype: DType
    doc: str


@dataclass(frozen=True)
class Expected:
    """A float64 result and the error a right kernel may have, element by element.

    Attributes:
        value: the exact result, float64 (or integers for integer outputs).
        bound: largest allowed absolute difference, same shape; 0 demands equality.
    """

    value: np.ndarray
    bound: np.ndarray


Sizes = Mapping[str, int]
Arrays = Mapping[str, np.ndarray]


class Problem(ABC):
    """What is computed. Subclasses are frozen dataclasses whose options are declared with `option`."""

    operator: ClassVar[str]

    @abstractmethod
    def title(self) -> str:
        """The computation in one line of mathematics, for banners and listings."""

    def head(self) -> tuple[str, frozenset[str]]:
        """What stands after `tilegen emit`, and the options that it says."""
        return self.operator, frozenset()

    @abstractmethod
    def tokens(self) -> list[str]:
        """Words of the stem that name this problem, defaults omitted: `["f16", "tn"]`."""

    @abstractmethod
    def sizes(self) -> tuple[Size, ...]:
        """Run-time extents in C order."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Array arguments in C order: inputs first, then in-out arrays and outputs."""

    @abstractmethod
    def scalars(self) -> tuple[Scalar, ...]:
        """Run-time scalars in C order."""

    @abstractmethod
    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """The float64 meaning of every output.

        Args:
            sizes: extent of every size by name.
            arrays: inputs and in-out arrays (their values before the call), shaped by `dims`.
            scalars: value of every run-time scalar.
        """

    @abstractmethod
    def flops(self, sizes: Sizes) -> int:
        """Floating-point operations of one call (a multiply-add counts two)."""

    def bytes(self, sizes: Sizes) -> int:
        """Fewest bytes of memory traffic of one call: inputs read once, outputs written once."""
        total = 0
        for tensor in self.tensors():
            count = int(np.prod(tensor.shape(sizes), dtype=np.int64))
            total += count * tensor.dtype.bytes * (2 if tensor.role == "inout" else 1)
        return total

    def requirements(self) -> list[str]:
        """Sentences of the header's Requires paragraph beyond the argument list."""
        return []

    def draw(self, sizes: Sizes, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Random inputs: standard normal for floats, small integers for integers; dense arrays."""
        arrays = {}
        for tensor in self.tensors():
            if tensor.is_read:
                arrays[tensor.name] = random_array(tensor.dtype, tensor.shape(sizes), rng)
        return arrays | self.places(sizes, rng)

    def places(self, sizes: Sizes, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Inputs that say where others lie or end, such as the ends of groups: not any integers will do."""
        return {}

    def draw_scalars(self, rng: np.random.Generator) -> dict[str, float]:
        """Random values of the run-time scalars, away from 0."""
        return {
            s.name: float(np.float32(rng.uniform(0.5, 2.0))) if s.dtype.is_float else 1
            for s in self.scalars()
        }

    @abstractmethod
    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        """Sizes that verification tries, given the schedule's tile: 0, 1, primes, tile edges."""


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw an array of the given type: N(0,1) rounded, integers in [-8, 8], or coin flips."""
    if dtype.is_float:
        return rng.standard_normal(shape, dtype=np.float64).astype(dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(dtype.numpy)
    low = 0 if dtype.name.startswith("u") else -8
    return rng.integers(low, 9, shape).astype(dtype.numpy)
