"""Ours: the emitted kernel, built and called through its launcher."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilegen.bench.peers.base import CpuPeer, GpuPeer
from tilegen.emit.render import render
from tilegen.errors import BuildError
from tilegen.problems.base import Problem
from tilegen.runtime import cpu
from tilegen.runtime.arguments import View, marshal
from tilegen.spec import KernelSpec
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.values import DTYPES


class OwnCpu(CpuPeer):
    """The emitted C kernel."""

    def knows(self, problem: Problem) -> bool:
        return True

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        kernel = render(spec)
        loaded = cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
        return loaded.bound(arrays, scalars, threads)


class OwnGpu(GpuPeer):
    """The emitted CUDA kernel on PyTorch's tensors."""

    def knows(self, problem: Problem) -> bool:
        return True

    def prepare(
        self,
        spec: KernelSpec,
        sizes: Mapping[str, int],
        sets: Sequence[dict[str, Any]],
        scalars: Mapping[str, float],
    ) -> Callable[[int], Any]:
        import torch

        major, minor = torch.cuda.get_device_capability()
        here, own = 10 * major + minor, spec.target
        kernel = render(spec)
        arch = None if here == own.cc else CudaTarget(f"sm_{here}", here, own.shared_block)
        dll = ctypes.CDLL(str(build.library(kernel, arch=arch)))
        function = getattr(dll, kernel.symbol)
        space = _workspace(dll, kernel, sizes)
        calls = []
        for tensors in sets:
            views = {name: view(t) for name, t in tensors.items()}
            address = (space.data_ptr(), space.nbytes) if space is not None else (0, 0)
            calls.append(marshal(kernel.plan, views, scalars, 0, address)[0])
        keep = (sets, space)

        def launch(i: int) -> None:
            values = calls[i]
            values[-1] = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            status = function(*values)
            if status:
                raise BuildError(f"{kernel.symbol} returned {status} for {dict(sizes)}")
            assert keep

        return launch


def _workspace(dll: ctypes.CDLL, kernel: Any, sizes: Mapping[str, int]) -> Any:
    import torch

    if not kernel.plan.uses_workspace:
        return None
    count = getattr(dll, f"{kernel.symbol}_workspace")
    count.restype = ctypes.c_size_t
    needed = count(*[ctypes.c_int64(sizes[s.name]) for s in kernel.plan.problem.sizes()])
    return torch.zeros(max(1, needed), dtype=torch.uint8, device="cuda")


def view(tensor: Any) -> View:
    """Where a PyTorch tensor lies."""
    name = str(tensor.dtype).removeprefix("torch.")
    names = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
    names |= {"int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64", "bool": "bool"}
    names |= {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
    kind: np.dtype = DTYPES[names[name]].numpy
    strides = tuple(s * tensor.element_size() for s in tensor.stride())
    return View(tensor.data_ptr(), tuple(tensor.shape), strides, kind)
