"""Peers: what else computes a problem. Each is a class in a module here, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tilegen.bench.peers.base import CpuPeer, GpuPeer
from tilegen.errors import UsageError
from tilegen.problems.base import Problem
from tilegen.values import nearest

# name: module:class; order is the order of tables.
_CPU = {
    "tilegen": "tilegen.bench.peers.own:OwnCpu",
    "numpy": "tilegen.bench.peers.numpy_peer:NumpyPeer",
    "openblas": "tilegen.bench.peers.cblas:OpenBlas",
    "mkl": "tilegen.bench.peers.cblas:Mkl",
    "mkl_bf16": "tilegen.bench.peers.cblas:MklBf16",
    "torch": "tilegen.bench.peers.torch_cpu:TorchCpu",
    "torch_int8": "tilegen.bench.peers.torch_cpu:TorchInt8",
    "onednn": "tilegen.bench.peers.torch_cpu:OneDnn",
    "onednn_prepacked": "tilegen.bench.peers.torch_cpu:OneDnnPrepacked",
    "copy": "tilegen.bench.peers.own:HostCopy",
    "read": "tilegen.bench.peers.own:HostRead",
    "torch_sdpa": "tilegen.bench.peers.torch_attention:TorchCpuAttention",
}
_GPU = {
    "tilegen": "tilegen.bench.peers.own:OwnGpu",
    "torch": "tilegen.bench.peers.torch_gpu:TorchEager",
    "torch_tf32": "tilegen.bench.peers.torch_gpu:TorchTf32",
    "torch_fp8": "tilegen.bench.peers.torch_gpu:TorchFp8",
    "torch_blocks": "tilegen.bench.peers.torch_gpu:TorchBlockScaled",
    "cublaslt": "tilegen.bench.peers.torch_fused:CublasLt",
    "torch_gated": "tilegen.bench.peers.torch_fused:TorchGated",
    "triton": "tilegen.bench.peers.triton_gemm:TritonGemm",
    "tilelang": "tilegen.bench.peers.tilelang_gemm:TileLangGemm",
    "torch.compile": "tilegen.bench.peers.torch_gpu:TorchCompile",
    "cudnn": "tilegen.bench.peers.torch_attention:CudnnAttention",
    "flash": "tilegen.bench.peers.torch_attention:FlashAttention",
    "flex": "tilegen.bench.peers.torch_flex:FlexAttention",
    "cudnn_backward": "tilegen.bench.peers.torch_attention:CudnnAttentionBackward",
    "flash_backward": "tilegen.bench.peers.torch_attention:FlashAttentionBackward",
    "copy": "tilegen.bench.peers.torch_gpu:DeviceCopy",
    "read": "tilegen.bench.peers.torch_gpu:DeviceRead",
    "without_score": "tilegen.bench.peers.own:WithoutScore",
}


def _require(table: dict[str, str], name: str) -> None:
    if name not in table:
        raise UsageError(
            f"unknown peer '{name}'{nearest(name, table)}", f"Peers: {', '.join(list(table)[1:])}"
        )


def _get(table: dict[str, str], name: str) -> type:
    _require(table, name)
    module, cls = table[name].split(":")
    return getattr(import_module(module), cls)


def require_known(backend: str, names: Sequence[str]) -> None:
    """Raise UsageError for a name that is no peer on the backend."""
    for name in names:
        _require(_GPU if backend == "cuda" else _CPU, name)


def cpu_peer(name: str) -> CpuPeer:
    """A CPU competitor by name. Raises UsageError for an unknown one."""
    return _get(_CPU, name)()


def gpu_peer(name: str) -> GpuPeer:
    """A GPU competitor by name. Raises UsageError for an unknown one."""
    return _get(_GPU, name)()


def peer_names(backend: str, problem: Problem) -> list[str]:
    """Peers of a backend that know the problem, ours left out."""
    table, find = (_GPU, gpu_peer) if backend == "cuda" else (_CPU, cpu_peer)
    return [n for n in table if n != "tilegen" and find(n).knows(problem)]
