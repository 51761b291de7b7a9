"""PyTorch where a GEMM and what follows it are one call, or where one product serves two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.bench.peers.base import GpuPeer
from tilegen.bench.peers.torch_math import compiled_for_sizes
from tilegen.problems.base import Problem
from tilegen.problems.gated_gemm import SWIGLU, GatedGemm
from tilegen.problems.gemm import Gemm
from tilegen.values import BF16, F16


class CublasLt(GpuPeer):
    """The fused epilogues of cublasLt, as PyTorch calls them; its GELU is the one by tanh."""

    def knows(self, problem: Problem) -> bool:
        return (
            isinstance(problem, Gemm)
            and problem.epilogue in ("bias", "bias_relu", "bias_gelu", "residual")
            and problem.dtype in (F16, BF16)
            and problem.out_dtype is problem.dtype
            and not problem.operands
            and not problem.batched
        )

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        layout, epilogue = spec.problem.layout, spec.problem.epilogue
        pairs = [
            (t["a"] if layout.a == "t" else t["a"].T, t["b"] if layout.b == "t" else t["b"].T)
            for t in sets
        ]
        added = [t["residual" if epilogue == "residual" else "bias"] for t in sets]
        if epilogue in ("bias", "residual"):
            return lambda i: torch.addmm(added[i], *pairs[i])
        gelu = epilogue == "bias_gelu"
        return lambda i: torch._addmm_activation(added[i], *pairs[i], use_gelu=gelu)


class TorchGated(GpuPeer):
    """SwiGLU by one cuBLAS product with both matrices side by side, and a compiled kernel that joins the halves."""

    def knows(self, problem: Problem) -> bool:
        return isinstance(problem, GatedGemm) and problem.epilogue == SWIGLU

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        columns = sizes["n"]
        stored_k = spec.problem.layout.b == "n"
        pairs = []
        for t in sets:
            both = torch.cat([t["b_gate"], t["b"]], dim=0 if stored_k else 1)
            pairs.append((t["a"] if spec.problem.layout.a == "t" else t["a"].T, both))

        def join(y: Any) -> Any:
            return torch.nn.functional.silu(y[:, :columns]) * y[:, columns:]

        compiled = compiled_for_sizes(join)
        return lambda i: compiled(pairs[i][0] @ (pairs[i][1].T if stored_k else pairs[i][1]))
