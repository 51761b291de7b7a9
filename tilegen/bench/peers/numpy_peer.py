"""NumPy with the BLAS that its wheel carries (OpenBLAS)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.bench.peers.base import CpuPeer
from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm
from tilegen.values import F32, F64


class NumpyPeer(CpuPeer):
    """`np.matmul` for a GEMM without an epilogue."""

    def knows(self, problem: Problem) -> bool:
        plain = isinstance(problem, Gemm) and problem.epilogue == "none"
        return plain and problem.dtype in (F32, F64) and problem.out_dtype is problem.dtype

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        layout = spec.problem.layout
        a = arrays["a"] if layout.a == "t" else np.swapaxes(arrays["a"], -1, -2)
        b = arrays["b"] if layout.b == "t" else np.swapaxes(arrays["b"], -1, -2)
        return lambda: np.matmul(a, b, out=arrays["c"])
