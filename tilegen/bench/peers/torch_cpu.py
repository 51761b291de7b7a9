"""PyTorch on the CPU: its own dispatch (MKL, oneDNN), and oneDNN with plain and pre-packed weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.bench.peers.base import CpuPeer
from tilegen.bench.peers.torch_math import expressible, expression
from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm
from tilegen.values import BF16, E4M3, E5M2, F16, F32, I8, I32

# What oneDNN fuses into a linear layer, by our epilogue.
_FUSED = {"none": "none", "bias": "none", "bias_gelu": "gelu", "residual": "add"}
_FUSED |= {"relu": "relu", "bias_relu": "relu", "bias_silu": "swish"}


def tensor(array: np.ndarray) -> Any:
    """A PyTorch tensor over the same memory; what NumPy lacks through its bits."""
    import torch

    if array.dtype == BF16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    for kind, name in ((E4M3, "float8_e4m3fn"), (E5M2, "float8_e5m2")):
        if array.dtype == kind.numpy:
            return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, name))
    return torch.from_numpy(array)


def _threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
    torch.set_grad_enabled(False)


class TorchCpu(CpuPeer):
    """PyTorch eager."""

    def knows(self, problem: Problem) -> bool:
        return expressible(problem)

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        _threads(threads)
        function = expression(spec.problem)
        tensors = {name: tensor(a) for name, a in arrays.items()}
        return lambda: function(tensors, scalars)


class TorchInt8(CpuPeer):
    """PyTorch's product of int8 matrices with exact int32 sums, which is oneDNN's."""

    def knows(self, problem: Problem) -> bool:
        plain = isinstance(problem, Gemm) and problem.epilogue == "none" and not problem.batched
        return plain and problem.dtype is I8 and problem.out_dtype is I32

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        import torch

        _threads(threads)
        layout = spec.problem.layout
        a, b, c = (tensor(arrays[name]) for name in "abc")
        a, b = (a if layout.a == "t" else a.t()), (b if layout.b == "t" else b.t())
        return lambda: torch._int_mm(a, b, out=c)


class OneDnn(CpuPeer):
    """oneDNN's linear with plain weights, through PyTorch."""

    packed = False

    def knows(self, problem: Problem) -> bool:
        if not isinstance(problem, Gemm) or problem.batched or problem.layout.a != "t":
            return False
        return problem.epilogue in _FUSED and problem.dtype in (F32, BF16, F16)

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        import torch

        _threads(threads)
        x, w = tensor(arrays["a"]), tensor(arrays["b"])
        if spec.problem.layout.b == "t":
            w = w.t().contiguous()
        bias = tensor(arrays["bias"]) if "bias" in arrays else None
        if self.packed:
            w = torch.ops.mkldnn._reorder_linear_weight(w, x.shape[0])
        linear, function = torch.ops.mkldnn._linear_pointwise, _FUSED[spec.problem.epilogue]
        if function == "add":
            residual = tensor(arrays["residual"])
            return lambda: linear.binary(x, residual, w, bias, "add")
        return lambda: linear(x, w, bias, function, [], "none")


class OneDnnPrepacked(OneDnn):
    """oneDNN's linear with weights packed before the timing."""

    packed = True
