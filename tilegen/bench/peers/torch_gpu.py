"""PyTorch on the GPU: eager (cuBLAS, cuDNN), torch.compile, and a plain copy as the memory ceiling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.bench.peers.base import GpuPeer
from tilegen.bench.peers.torch_math import expressible, expression
from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm


class TorchEager(GpuPeer):
    """PyTorch eager; a GEMM is cuBLAS."""

    def knows(self, problem: Problem) -> bool:
        return expressible(problem)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        function = expression(spec.problem)
        return lambda i: function(sets[i], scalars)


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
