"""Problems as PyTorch expressions, for eager and compiled peers on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.problems.base import Problem
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.gated_gemm import SWIGLU, GatedGemm
from tilegen.problems.gemm import Gemm
from tilegen.problems.grouped_gemm import GroupedGemm
from tilegen.values import BF16

Function = Callable[[dict[str, Any], dict[str, float]], Any]


def expressible(problem: Problem) -> bool:
    """Whether `expression` has the problem; answers without importing PyTorch."""
    if isinstance(problem, Gemm):
        if problem.storage is not problem.dtype or problem.out_dtype is not problem.dtype:
            return False
        return problem.epilogue in _GEMM and not (problem.batched and "bias" in problem.epilogue)
    if isinstance(problem, GatedGemm):
        return problem.epilogue == SWIGLU and problem.out_dtype is problem.dtype
    if isinstance(problem, GroupedGemm):
        return problem.epilogue == "none" and problem.dtype is BF16 is problem.out_dtype
    return isinstance(problem, FormulaProblem) and problem.formula in _NAMED


def expression(problem: Problem) -> Function:
    """A function of tensors and scalars that computes an expressible problem with PyTorch."""
    if isinstance(problem, Gemm):
        return _gemm(problem)
    if isinstance(problem, GatedGemm):
        return _gated(problem)
    if isinstance(problem, GroupedGemm):
        return _grouped(problem)
    return _NAMED[problem.formula]


def compiled_for_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function through torch.compile, for the sizes of its first call.

    What was compiled before is dropped: dynamo compiles one code for eight sizes, and runs it eagerly for any more.
    """
    import torch

    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def _gemm(problem: Gemm) -> Function:
    function = _GEMM[problem.epilogue]

    def call(t: dict[str, Any], s: dict[str, float]) -> Any:
        a = t["a"] if problem.layout.a == "t" else t["a"].transpose(-1, -2)
        b = t["b"] if problem.layout.b == "t" else t["b"].transpose(-1, -2)
        return function(a, b, t)

    return call


def _gated(problem: GatedGemm) -> Function:
    product = _gemm(Gemm(problem.dtype, problem.out_dtype, problem.layout))
    return lambda t, s: _nn().silu(product({**t, "b": t["b_gate"]}, s)) * product(t, s)


def _grouped(problem: GroupedGemm) -> Function:
    def call(t: dict[str, Any], s: dict[str, float]) -> Any:
        import torch

        b = t["b"].transpose(-1, -2) if problem.layout.b == "n" else t["b"]
        return torch._grouped_mm(t["a"], b, offs=t["ends"])

    return call


def _nn() -> Any:
    import torch.nn.functional

    return torch.nn.functional


def _linear(a: Any, b: Any, t: dict[str, Any]) -> Any:
    return _nn().linear(a, b.transpose(-1, -2), t["bias"])


def _with_largest(d: Any) -> Any:
    return d, d.abs().amax(-1).float()


_GEMM: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "none": lambda a, b, t: a @ b,
    "bias": _linear,
    "relu": lambda a, b, t: (a @ b).relu(),
    "bias_relu": lambda a, b, t: _linear(a, b, t).relu(),
    "bias_gelu": lambda a, b, t: _nn().gelu(_linear(a, b, t)),
    "bias_silu": lambda a, b, t: _nn().silu(_linear(a, b, t)),
    "residual": lambda a, b, t: a @ b + t["residual"],
    "d[m,n] = gelu(acc + bias[n]); amax[m] = max(abs(d), n)": lambda a, b, t: _with_largest(
        _nn().gelu(_linear(a, b, t))
    ),
}


def _add_rmsnorm(t: dict[str, Any], s: dict[str, float]) -> Any:
    h = t["x"] + t["r"]
    return h, _nn().rms_norm(h, h.shape[-1:], t["w"], s["eps"])


def _layernorm(t: dict[str, Any], s: dict[str, float]) -> Any:
    return _nn().layer_norm(t["x"], t["x"].shape[-1:], t["w"], t["b"], s["eps"])


_NAMED: dict[str, Function] = {
    "softmax": lambda t, s: t["x"].softmax(-1),
    "log_softmax": lambda t, s: t["x"].log_softmax(-1),
    "layernorm": _layernorm,
    "rmsnorm": lambda t, s: _nn().rms_norm(t["x"], t["x"].shape[-1:], t["w"], s["eps"]),
    "add_rmsnorm": _add_rmsnorm,
    "transpose": lambda t, s: t["x"].t().contiguous(),
    "sum": lambda t, s: t["x"].sum(-1),
    "max": lambda t, s: t["x"].amax(-1),
    "column_sum": lambda t, s: t["x"].sum(0),
    "gelu": lambda t, s: _nn().gelu(t["x"]),
    "gelu_tanh": lambda t, s: _nn().gelu(t["x"], approximate="tanh"),
    "bias_gelu": lambda t, s: _nn().gelu(t["x"] + t["b"]) + t["r"],
    "swiglu": lambda t, s: _nn().silu(t["g"]) * t["u"],
}
