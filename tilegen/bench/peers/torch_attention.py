"""PyTorch's attention: one backend at a time on the GPU, its own choice on the CPU, FlexAttention for formulas."""

from __future__ import annotations

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
