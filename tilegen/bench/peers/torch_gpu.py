"""PyTorch on the GPU: eager (cuBLAS, cuDNN) and torch.compile; a plain copy and a plain read as ceilings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilegen.bench.peers.base import GpuPeer, reads_only
from tilegen.bench.peers.torch_math import compiled_for_sizes, expressible, expression
from tilegen.errors import BuildError
from tilegen.formula import Name, walk
from tilegen.formula.nodes import Binary, Cast, Operand
from tilegen.problems.attention import Attention
from tilegen.problems.base import Problem
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.gemm import Gemm
from tilegen.problems.grouped_gemm import GroupedGemm
from tilegen.problems.scaled_gemm import ScaledGemm
from tilegen.targets import CudaTarget
from tilegen.toolchain.build import LIBRARY, run_compiler
from tilegen.toolchain.cache import cached, digest
from tilegen.toolchain.find import find_nvcc
from tilegen.values import BF16, E4M3, F16, F32, TF32


class TorchEager(GpuPeer):
    """PyTorch eager; a GEMM is cuBLAS."""

    def knows(self, problem: Problem) -> bool:
        return expressible(problem)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        function = expression(spec.problem)
        return lambda i: function(sets[i], scalars)


class TorchTf32(GpuPeer):
    """cuBLAS on float32 matrices with the products of tf32."""

    def knows(self, problem: Problem) -> bool:
        return _plain(problem) and problem.dtype is TF32 and problem.out_dtype is F32

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = True
        pairs = [(t["a"], t["b"].transpose(-1, -2)) for t in sets]
        return lambda i: pairs[i][0] @ pairs[i][1]


class TorchFp8(GpuPeer):
    """PyTorch's scaled product of fp8 matrices: with one scale of 1, or a scale a row of A and of B."""

    def knows(self, problem: Problem) -> bool:
        if not isinstance(problem, Gemm) or problem.dtype is not E4M3:
            return False
        if _scales(problem):
            return problem.out_dtype is BF16
        return _plain(problem) and problem.out_dtype in (BF16, F16)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        pairs = [(t["a"], t["b"].transpose(-1, -2)) for t in sets]
        named = _scales(spec.problem)
        if named:
            rows, columns = named
            scales = [(t[rows].unsqueeze(1), t[columns].unsqueeze(0)) for t in sets]
        else:
            one = torch.ones((), device="cuda")
            scales = [(one, one)] * len(sets)
        kind = torch.bfloat16 if spec.problem.out_dtype is BF16 else torch.float16
        return lambda i: torch._scaled_mm(*pairs[i], *scales[i], out_dtype=kind)


class TorchBlockScaled(GpuPeer):
    """PyTorch's scaled product with the scales of blocks: A's lie column by column, as cublasLt wants them."""

    def knows(self, problem: Problem) -> bool:
        return (
            isinstance(problem, ScaledGemm)
            and problem.epilogue == "none"
            and (problem.dtype, problem.out_dtype) == (E4M3, BF16)
        )

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        given = [
            (
                *(t["a"], t["b"].transpose(-1, -2)),
                *(t["a_scale"].t().contiguous().t(), t["b_scale"].t()),
            )
            for t in sets
        ]
        return lambda i: torch._scaled_mm(*given[i], out_dtype=torch.bfloat16)


def _scales(problem: Gemm) -> tuple[str, str] | None:
    """Names of the float32 factors of rows and columns, where a problem is a product times both."""
    operands = {dims: name for name, dims in problem.formula.operands.items()}
    if problem.batched or str(problem.layout) != "tn" or set(operands) != {("m",), ("n",)}:
        return None
    if any(problem.typed.operands[name] is not F32 for name in operands.values()):
        return None
    leaves = []
    for statement in problem.typed.statements:
        for node in walk(statement.value):
            if isinstance(node, (Name, Operand)):
                leaves.append(node.name)
            elif not isinstance(node, Cast) and not (isinstance(node, Binary) and node.op == "*"):
                return None
    rows, columns = operands[("m",)], operands[("n",)]
    return (rows, columns) if sorted(leaves) == sorted(["acc", rows, columns]) else None


def _plain(problem: Problem) -> bool:
    """Whether a problem is a product of two matrices with K contiguous in both, and nothing else."""
    return (
        isinstance(problem, Gemm)
        and problem.epilogue == "none"
        and not problem.batched
        and str(problem.layout) == "tn"
    )


class TorchCompile(TorchEager):
    """The same expression through torch.compile."""

    def knows(self, problem: Problem) -> bool:
        plain = isinstance(problem, (Gemm, GroupedGemm)) and problem.epilogue == "none"
        return super().knows(problem) and not plain

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        compiled = compiled_for_sizes(expression(spec.problem))
        return lambda i: compiled(sets[i], scalars)


class DeviceCopy(GpuPeer):
    """A ceiling: a device copy of as many bytes as the problem must move, half read, half written."""

    def knows(self, problem: Problem) -> bool:
        return isinstance(problem, FormulaProblem) and not reads_only(problem)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        count = -(-spec.problem.bytes(sizes) // 2 // 4096) * 4096
        pairs = []
        for _ in sets:
            source = torch.empty(count, dtype=torch.uint8, device="cuda")
            pairs.append((source, torch.empty_like(source)))
        return lambda i: pairs[i][1].copy_(pairs[i][0])


class DeviceRead(GpuPeer):
    """A ceiling: a kernel that reads as many bytes as the problem does and keeps nothing."""

    def knows(self, problem: Problem) -> bool:
        if isinstance(problem, Attention):
            return problem.operator == "attention"
        return isinstance(problem, FormulaProblem) and reads_only(problem)

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch

        read_all = ctypes.CDLL(str(_read_library(spec.target))).read_all
        never = torch.zeros(1, dtype=torch.int32, device="cuda")
        bytes_ = spec.problem.bytes(sizes) // 16 * 16
        arrays = [
            torch.randint(1 << 31, (bytes_ // 4,), device="cuda", dtype=torch.int32) for _ in sets
        ]

        def launch(i: int) -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            addresses = (ctypes.c_void_p(arrays[i].data_ptr()), ctypes.c_int64(bytes_))
            status = read_all(*addresses, ctypes.c_void_p(never.data_ptr()), stream)
            if status:
                raise BuildError(f"read_all returned {status}")

        return launch


def _read_library(target: CudaTarget) -> Path:
    """The kernel of `read_only.cu`, built."""
    source = Path(__file__).with_name("read_only.cu")
    nvcc = find_nvcc()
    flags = [*nvcc.flags, target.gencode, "-O3", "-shared", "-Xcompiler", "-fPIC"]

    def make(folder: Path) -> None:
        command = [nvcc.path, *flags, str(source), "-o", str(folder / LIBRARY)]
        run_compiler(command, source.name)

    key = digest([source.read_text(encoding="utf-8"), nvcc.version, *flags])
    return cached("ceiling", key, (LIBRARY,), make) / LIBRARY
