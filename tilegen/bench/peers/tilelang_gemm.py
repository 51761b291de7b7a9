"""TileLang: a tiled product with the epilogue in the same kernel; of a few configurations the fastest is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.bench.peers.triton_gemm import TritonGemm
from tilegen.values import BF16

# Tile, stages, threads: for many rows, for few.
_LARGE = (((128, 256, 64), 3, 256), ((128, 128, 64), 4, 256))
_SMALL = (((64, 64, 128), 4, 128), ((64, 128, 64), 4, 128))


class TileLangGemm(TritonGemm):
    """TileLang with what the Triton peer has: bias, bias and GELU, or a residual tile in the epilogue."""

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        import torch
        from tilelang.profiler import do_bench

        from tilegen.bench.peers.tilelang_kernel import compiled

        epilogue = spec.problem.epilogue
        m, n, k = (sizes[name] for name in "mnk")
        element = "bfloat16" if spec.problem.dtype is BF16 else "float16"
        name = "residual" if epilogue == "residual" else "bias"
        # A kernel without an epilogue takes the operand too, and does not read it.
        spare = torch.empty(n, dtype=sets[0]["c"].dtype, device="cuda")
        given = [(t["a"], t["b"], t.get(name, spare), t["c"]) for t in sets]
        kernels = [
            compiled(m, n, k, element, epilogue, *config)
            for config in (_LARGE if m >= 128 else _SMALL)
        ]
        best = min(kernels, key=lambda kernel: do_bench(lambda: kernel(*given[0])))
        return lambda i: best(*given[i])
