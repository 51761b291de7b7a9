"""Ours: the emitted kernel, built and called through its launcher."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.bench.peers.base import CpuPeer, GpuPeer, placed, reads_only
from tilegen.emit.render import render
from tilegen.errors import BuildError
from tilegen.plans import Plan, make_plan
from tilegen.problems.attention import Attention
from tilegen.problems.base import Problem
from tilegen.problems.formula import FormulaProblem
from tilegen.runtime import cpu, gpu
from tilegen.runtime.arguments import View, marshal
from tilegen.spec import KernelSpec
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.values import DTYPES


@dataclass(frozen=True)
class Built:
    """A kernel of ours with its library.

    Attributes:
        plan: what it was emitted from.
        library: path of the shared library.
        symbol: name of its launcher.
    """

    plan: Plan
    library: Path
    symbol: str

    @classmethod
    def of(cls, spec: KernelSpec, library: Path, symbol: str) -> Built:
        """The library of a kernel in words."""
        return cls(make_plan(spec), library, symbol)

    def bound(self, arrays: Any, scalars: Any, threads: int) -> Callable[[], None]:
        """A call of the C kernel on these arrays."""
        return cpu.load(self.plan, self.library, self.symbol).bound(arrays, scalars, threads)

    def runner(self) -> Callable[..., None]:
        """Runs the kernel on NumPy arrays, wherever it belongs."""
        if isinstance(self.plan.target, CudaTarget):
            return gpu.GpuKernel(self.plan, self.library, self.symbol).run
        return cpu.load(self.plan, self.library, self.symbol).run


class OwnCpu(CpuPeer):
    """The emitted C kernel."""

    def knows(self, problem: Problem) -> bool:
        return True

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        kernel = render(spec)
        built = Built(kernel.plan, build.library(kernel), kernel.symbol)
        return built.bound(arrays, scalars, threads)


class HostCopy(CpuPeer):
    """A ceiling: a copy of as many bytes as the problem must move, half read, half written, past the caches when large."""

    formula = "y[i] = x[i]"

    def knows(self, problem: Problem) -> bool:
        return isinstance(problem, FormulaProblem) and not reads_only(problem)

    def prepare(self, spec, sizes, arrays, scalars, threads) -> Callable[[], Any]:
        made = KernelSpec.make(self.formula, spec.target, {"dtype": "f32"})
        arrays_each = 8 if "y[i]" in self.formula else 4
        count = max(1, spec.problem.bytes(sizes) // arrays_each)
        x = placed(np.random.default_rng(0).standard_normal(count, np.float32))
        y = placed(np.zeros_like(x)) if arrays_each == 8 else np.zeros((), np.float32)
        kernel = render(made)
        built = Built(kernel.plan, build.library(kernel), kernel.symbol)
        return built.bound({"x": x, "y": y}, {}, threads)


class HostRead(HostCopy):
    """A ceiling: a sum over as many bytes as the problem must read."""

    formula = "y = sum(x[i], i)"

    def knows(self, problem: Problem) -> bool:
        if isinstance(problem, Attention):
            return True
        return isinstance(problem, FormulaProblem) and reads_only(problem)


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
        built = Built(kernel.plan, build.library(kernel, arch=arch), kernel.symbol)
        return gpu_launch(built, sizes, sets, scalars)


class WithoutScore(OwnGpu):
    """A ceiling: our kernel of the same attention without the formula of its score."""

    def knows(self, problem: Problem) -> bool:
        return isinstance(problem, Attention) and bool(problem.score) and not problem.mask

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        problem = dataclasses.replace(spec.problem, score="", operands="")
        arrays = [t.name for t in problem.tensors()]
        kept = [{name: given[name] for name in arrays} for given in sets]
        numbers = {s.name: scalars[s.name] for s in problem.scalars()}
        return super().prepare(dataclasses.replace(spec, problem=problem), sizes, kept, numbers)


def gpu_launch(
    built: Built,
    sizes: Mapping[str, int],
    sets: Sequence[dict[str, Any]],
    scalars: Mapping[str, float],
) -> Callable[[int], Any]:
    """A launch on the i-th set of PyTorch tensors, on PyTorch's current stream."""
    import torch

    dll = ctypes.CDLL(str(built.library))
    function = getattr(dll, built.symbol)
    space = _workspace(dll, built, sizes)
    address = (space.data_ptr(), space.nbytes) if space is not None else (0, 0)
    calls = []
    for tensors in sets:
        views = {name: view(t) for name, t in tensors.items()}
        calls.append(marshal(built.plan, views, scalars, 0, address)[0])
    keep = (sets, space)

    def launch(i: int) -> None:
        values = calls[i]
        values[-1] = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = function(*values)
        if status:
            raise BuildError(f"{built.symbol} returned {status} for {dict(sizes)}")
        assert keep

    return launch


def _workspace(dll: ctypes.CDLL, built: Built, sizes: Mapping[str, int]) -> Any:
    import torch

    if not built.plan.uses_workspace:
        return None
    count = getattr(dll, f"{built.symbol}_workspace")
    count.restype = ctypes.c_size_t
    needed = count(*[ctypes.c_int64(sizes[s.name]) for s in built.plan.problem.sizes()])
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
