"""BLAS libraries from PyPI through their C interface: MKL (`mkl`) and OpenBLAS (`scipy-openblas32`)."""

from __future__ import annotations

import ctypes
import glob
import sysconfig
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilegen.bench.peers.base import CpuPeer
from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm
from tilegen.values import BF16, F32, F64

_ROW_MAJOR, _NO, _YES = 101, 111, 112


class Cblas(CpuPeer):
    """`cblas_sgemm` and `cblas_dgemm` of one library."""

    prefix = "cblas"
    mode = ctypes.DEFAULT_MODE

    @abstractmethod
    def library(self) -> str:
        """Path of the shared library. Raises ImportError if it is not installed."""

    def function(self, problem: Gemm) -> str:
        """Name of the function that computes the problem."""
        return f"{self.prefix}_{'s' if problem.dtype is F32 else 'd'}gemm"

    def knows(self, problem: Problem) -> bool:
        plain = isinstance(problem, Gemm) and problem.epilogue == "none" and not problem.batched
        return plain and problem.dtype in (F32, F64) and problem.out_dtype is problem.dtype

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        problem: Gemm = spec.problem
        library, name = self.library(), self.function(problem)
        try:
            function = getattr(ctypes.CDLL(library, mode=self.mode), name)
        except AttributeError:
            raise ImportError(f"{library} does not export {name}") from None
        real = ctypes.c_double if problem.dtype is F64 else ctypes.c_float
        m, n, k = (ctypes.c_int(sizes[s]) for s in "mnk")
        a, b, c = (arrays[name] for name in "abc")
        arguments = [
            ctypes.c_int(_ROW_MAJOR),
            ctypes.c_int(_NO if problem.layout.a == "t" else _YES),
            ctypes.c_int(_NO if problem.layout.b == "t" else _YES),
            *(m, n, k, real(1.0)),
            *(ctypes.c_void_p(a.ctypes.data), ctypes.c_int(a.shape[1])),
            *(ctypes.c_void_p(b.ctypes.data), ctypes.c_int(b.shape[1]), real(0.0)),
            *(ctypes.c_void_p(c.ctypes.data), ctypes.c_int(c.shape[1])),
        ]
        keep = (a, b, c)
        return lambda: function(*arguments) if keep else None


class Mkl(Cblas):
    """Intel MKL from the wheel `mkl`."""

    # Its dispatcher loads the parts that it needs by name and looks their symbols up globally.
    mode = ctypes.RTLD_GLOBAL

    def library(self) -> str:
        root = Path(sysconfig.get_path("data")) / "lib"
        found = sorted(glob.glob(str(root / "libmkl_rt.so*")))
        if not found:
            raise ImportError("libmkl_rt is not installed: pip install mkl")
        return found[0]


class MklBf16(Mkl):
    """MKL's product of bf16 matrices with float32 results, of the wheel `mkl` or the MKL inside PyTorch."""

    def library(self) -> str:
        try:
            return super().library()
        except ImportError:
            import torch

            return str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")

    def function(self, problem: Gemm) -> str:
        return "cblas_gemm_bf16bf16f32"

    def knows(self, problem: Problem) -> bool:
        plain = isinstance(problem, Gemm) and problem.epilogue == "none" and not problem.batched
        return plain and problem.dtype is BF16 and problem.out_dtype is F32


class OpenBlas(Cblas):
    """OpenBLAS from the wheel `scipy-openblas32`."""

    prefix = "scipy_cblas"

    def library(self) -> str:
        import scipy_openblas32

        found = sorted(glob.glob(scipy_openblas32.get_lib_dir() + "/libscipy_openblas*.so"))
        if not found:
            raise ImportError("scipy-openblas32 holds no library")
        return found[0]
