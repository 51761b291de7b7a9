"""What a peer has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilegen.problems.base import Problem
from tilegen.problems.formula import FormulaProblem
from tilegen.spec import KernelSpec

# Where large arrays begin in a page: there all do that NumPy has the system map by itself. In a process that has freed
# others they lie where there was room, one a few bytes further in its page than the next: by chance a slow place.
PAGE, FIRST_BYTE, LARGE_BYTES = 4096, 16, 1 << 17


def reads_only(problem: FormulaProblem) -> bool:
    """Whether a formula writes next to nothing: no output has every index, so that reading bounds it."""
    whole = len(problem.family.order)
    return all(len(t.dims) < whole for t in problem.tensors() if t.is_written)


def placed(array: np.ndarray) -> np.ndarray:
    """The same elements, of a large array at the place in a page where all large ones begin."""
    if array.nbytes < LARGE_BYTES or array.ctypes.data % PAGE == FIRST_BYTE:
        return array
    room = np.zeros(array.nbytes + PAGE, np.uint8)
    start = (FIRST_BYTE - room.ctypes.data) % PAGE
    moved = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


class CpuPeer(ABC):
    """A competitor on the CPU; it lives in a process of its own."""

    @abstractmethod
    def knows(self, problem: Problem) -> bool:
        """Whether it computes the problem at all."""

    @abstractmethod
    def prepare(
        self,
        spec: KernelSpec,
        sizes: Mapping[str, int],
        arrays: dict[str, np.ndarray],
        scalars: Mapping[str, float],
        threads: int,
    ) -> Callable[[], Any]:
        """A call that computes the problem on these arrays with this many threads.

        Raises:
            ImportError, OSError: its library is not installed.
        """


class GpuPeer(ABC):
    """A competitor on the GPU; all share one process and PyTorch's tensors."""

    @abstractmethod
    def knows(self, problem: Problem) -> bool:
        """Whether it computes the problem at all."""

    @abstractmethod
    def prepare(
        self,
        spec: KernelSpec,
        sizes: Mapping[str, int],
        sets: Sequence[dict[str, Any]],
        scalars: Mapping[str, float],
    ) -> Callable[[int], Any]:
        """A launch on the i-th set of tensors, on PyTorch's current stream."""
