"""PyTorch's attention: one backend at a time on the GPU, its own choice on the CPU."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from tilegen.bench.peers.base import CpuPeer, GpuPeer
from tilegen.problems.attention import Attention
from tilegen.problems.base import Problem
from tilegen.values import F32


def _plain(problem: Problem) -> bool:
    """Whether scaled_dot_product_attention computes the problem: no formula, no log-sum-exp."""
    if not isinstance(problem, Attention) or problem.operator != "attention":
        return False
    return not (problem.formulas or problem.lse or problem.sinks)


def _call(problem: Attention, t: dict[str, Any], scale: float) -> Any:
    """One call on tensors in our layout, [batch][seq][head][dim], which PyTorch takes transposed."""
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (t[name].transpose(1, 2) for name in "qkv")
    if problem.causal and q.shape[2] != k.shape[2]:
        from torch.nn.attention.bias import causal_lower_right

        mask = causal_lower_right(q.shape[2], k.shape[2])
        grouped = q.shape[1] != k.shape[1]
        return scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=grouped)
    grouped = q.shape[1] != k.shape[1]
    return scaled_dot_product_attention(
        q, k, v, is_causal=problem.causal, scale=scale, enable_gqa=grouped
    )


class _Backend(GpuPeer):
    """scaled_dot_product_attention held to one backend."""

    name = ""

    def knows(self, problem: Problem) -> bool:
        return _plain(problem) and problem.dtype is not F32

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend, scale = getattr(SDPBackend, self.name), scalars["scale"]

        def launch(i: int) -> Any:
            with sdpa_kernel([backend]):
                return _call(spec.problem, sets[i], scale)

        return launch


class CudnnAttention(_Backend):
    """cuDNN's fused attention."""

    name = "CUDNN_ATTENTION"


class FlashAttention(_Backend):
    """The FlashAttention-2 kernels that come with PyTorch."""

    name = "FLASH_ATTENTION"


class _Backward(GpuPeer):
    """The gradient kernels behind scaled_dot_product_attention, after one forward pass a set."""

    operation = ""

    def knows(self, problem: Problem) -> bool:
        fits = problem.operator == "attention_backward" and problem.dtype is not F32
        return fits and not problem.formulas

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        causal = spec.problem.causal
        if sizes["heads"] != sizes["kv_heads"] or (causal and sizes["seq_q"] != sizes["seq_k"]):
            raise ValueError("heads or lengths that this peer does not take")
        forward = getattr(torch.ops.aten, self.operation)
        backward = getattr(torch.ops.aten, f"{self.operation}_backward")
        scale = scalars["scale"]
        calls = []
        for t in sets:
            q, k, v, d_o = (t[name].transpose(1, 2) for name in ("q", "k", "v", "d_o"))
            calls.append((d_o, q, k, v, *self._forward(forward, q, k, v, causal, scale)))
        return lambda i: self._backward(backward, calls[i], causal, scale)

    @abstractmethod
    def _forward(self, forward, q, k, v, causal: bool, scale: float) -> Any:
        """The rest of what `_backward` is given, after d_o, q, k and v."""

    @abstractmethod
    def _backward(self, backward, call, causal: bool, scale: float) -> Any:
        """The gradients for one set of tensors."""


class CudnnAttentionBackward(_Backward):
    """cuDNN's gradients of attention."""

    operation = "_scaled_dot_product_cudnn_attention"

    def _forward(self, forward, q, k, v, causal, scale):
        return forward(q, k, v, None, True, 0.0, causal, False, scale=scale)

    def _backward(self, backward, call, causal, scale):
        d_o, q, k, v, out, lse, starts_q, starts_k, most_q, most_k, seed, offset, _ = call
        lengths = (starts_q, starts_k, most_q, most_k)
        return backward(
            d_o, q, k, v, out, lse, seed, offset, None, *lengths, 0.0, causal, scale=scale
        )


class FlashAttentionBackward(_Backward):
    """The FlashAttention-2 gradients that come with PyTorch."""

    operation = "_scaled_dot_product_flash_attention"

    def _forward(self, forward, q, k, v, causal, scale):
        return forward(q, k, v, 0.0, causal, False, scale=scale)

    def _backward(self, backward, call, causal, scale):
        d_o, q, k, v, out, lse, starts_q, starts_k, most_q, most_k, seed, offset, _ = call
        lengths = (starts_q, starts_k, most_q, most_k)
        return backward(d_o, q, k, v, out, lse, *lengths, 0.0, causal, seed, offset, scale=scale)


class TorchCpuAttention(CpuPeer):
    """scaled_dot_product_attention on the CPU."""

    def knows(self, problem: Problem) -> bool:
        return _plain(problem)

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        import torch

        from tilegen.bench.peers.torch_cpu import tensor

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        tensors = {name: tensor(a) for name, a in arrays.items()}
        return lambda: _call(spec.problem, tensors, scalars["scale"])
