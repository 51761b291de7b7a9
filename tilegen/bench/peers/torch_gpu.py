"""PyTorch on the GPU: eager (cuBLAS, cuDNN), torch.compile, and a plain copy as the memory ceiling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.bench.peers.base import GpuPeer
from tilegen.bench.peers.torch_math import expressible, expression
from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm
from tilegen.values import BF16, E4M3, F16, F32, TF32


class TorchEager(GpuPeer):
    """PyTorch eager; a GEMM is cuBLAS."""

    def knows(self, problem: Problem) -> bool:
        return expressible(problem)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        function = expression(spec.problem)
        return lambda i: function(sets[i], scalars)


class TorchTf32(GpuPeer):
    """cuBLAS on float32 matrices with the products of tf32."""

    def knows(self, problem: Problem) -> bool:
        return _plain(problem) and problem.dtype is TF32 and problem.out_dtype is F32

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = True
        pairs = [(t["a"], t["b"].transpose(-1, -2)) for t in sets]
        return lambda i: pairs[i][0] @ pairs[i][1]


class TorchFp8(GpuPeer):
    """PyTorch's scaled product of fp8 matrices, with one scale of 1."""

    def knows(self, problem: Problem) -> bool:
        return _plain(problem) and problem.dtype is E4M3 and problem.out_dtype in (BF16, F16)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        one = torch.ones((), device="cuda")
        kind = torch.bfloat16 if spec.problem.out_dtype is BF16 else torch.float16
        pairs = [(t["a"], t["b"].transpose(-1, -2)) for t in sets]
        return lambda i: torch._scaled_mm(*pairs[i], one, one, out_dtype=kind)


def _plain(problem: Problem) -> bool:
    """Whether a problem is a product of two matrices with K contiguous in both, and nothing else."""
    return (
        isinstance(problem, Gemm)
        and problem.epilogue == "none"
        and not problem.batched
        and str(problem.layout) == "tn"
    )


class TorchCompile(TorchEager):
    """The same expression through torch.compile."""

    def knows(self, problem: Problem) -> bool:
        plain = isinstance(problem, Gemm) and problem.epilogue == "none"
        return super().knows(problem) and not plain

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        compiled = torch.compile(expression(spec.problem), dynamic=False)
        return lambda i: compiled(sets[i], scalars)


class DeviceCopy(GpuPeer):
    """A device copy of as many bytes as the problem must move: half read, half written."""

    def knows(self, problem: Problem) -> bool:
        return not isinstance(problem, Gemm)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        count = max(16, spec.problem.bytes(sizes) // 2)
        pairs = []
        for _ in sets:
            source = torch.empty(count, dtype=torch.uint8, device="cuda")
            pairs.append((source, torch.empty_like(source)))
        return lambda i: pairs[i][1].copy_(pairs[i][0])
