"""Problems as PyTorch expressions, for eager and compiled peers on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm

Function = Callable[[dict[str, Any], dict[str, float]], Any]


def expression(problem: Problem) -> Function | None:
    """A function of tensors and scalars that computes the problem with PyTorch; None if there is none."""
    if isinstance(problem, Gemm):
        return _gemm(problem)
    return _named(problem.operator)


def _gemm(problem: Gemm) -> Function | None:
    import torch
    import torch.nn.functional as F

    def product(t: dict[str, Any]) -> Any:
        a = t["a"] if problem.layout.a == "t" else t["a"].transpose(-1, -2)
        b = t["b"] if problem.layout.b == "t" else t["b"].transpose(-1, -2)
        return a, b

    def linear(t: dict[str, Any]) -> Any:
        a, b = product(t)
        return F.linear(a, b.transpose(-1, -2), t["bias"])

    table: dict[str, Function] = {
        "none": lambda t, s: torch.matmul(*product(t)),
        "bias": lambda t, s: linear(t),
        "relu": lambda t, s: torch.relu(torch.matmul(*product(t))),
        "bias_relu": lambda t, s: torch.relu(linear(t)),
        "bias_gelu": lambda t, s: F.gelu(linear(t)),
        "bias_silu": lambda t, s: F.silu(linear(t)),
        "residual": lambda t, s: torch.matmul(*product(t)) + t["residual"],
    }
    if problem.storage is not problem.dtype or problem.out_dtype is not problem.dtype:
        return None
    return table.get(problem.epilogue)


def _named(operator: str) -> Function | None:
    import torch
    import torch.nn.functional as F

    def add_rmsnorm(t: dict[str, Any], s: dict[str, float]) -> Any:
        h = t["x"] + t["r"]
        return h, F.rms_norm(h, h.shape[-1:], t["w"], s["eps"])

    table: dict[str, Function] = {
        "softmax": lambda t, s: torch.softmax(t["x"], -1),
        "log_softmax": lambda t, s: torch.log_softmax(t["x"], -1),
        "layernorm": lambda t, s: F.layer_norm(t["x"], t["x"].shape[-1:], t["w"], t["b"], s["eps"]),
        "rmsnorm": lambda t, s: F.rms_norm(t["x"], t["x"].shape[-1:], t["w"], s["eps"]),
        "add_rmsnorm": add_rmsnorm,
        "transpose": lambda t, s: t["x"].t().contiguous(),
        "sum": lambda t, s: t["x"].sum(-1),
    }
    return table.get(operator)
