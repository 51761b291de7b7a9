"""Triton: a tiled product with the epilogue in the same kernel; of a few configurations the fastest is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.bench.peers.base import GpuPeer
from tilegen.problems.base import Problem
from tilegen.problems.gemm import Gemm
from tilegen.values import BF16, F16

# Tile of M, N and K, warps, stages: for many rows, for few.
_LARGE = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 4))
_SMALL = ((64, 64, 128, 4, 4), (64, 128, 64, 4, 4))


class TritonGemm(GpuPeer):
    """Triton with bias, bias and GELU, or a residual tile in the epilogue."""

    def knows(self, problem: Problem) -> bool:
        return (
            isinstance(problem, Gemm)
            and problem.epilogue in ("none", "bias", "bias_gelu", "residual")
            and problem.dtype in (F16, BF16)
            and problem.out_dtype is problem.dtype
            and not problem.operands
            and not problem.batched
            and str(problem.layout) == "tn"
        )

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        from triton.testing import do_bench

        from tilegen.bench.peers.triton_kernel import product

        epilogue = spec.problem.epilogue
        m, n, k = (sizes[name] for name in "mnk")
        name = "residual" if epilogue == "residual" else "bias"
        added = [t.get(name, t["c"]) for t in sets]

        def launcher(config: tuple[int, ...]) -> Callable[[int], Any]:
            bm, bn, bk, warps, stages = config
            grid = (-(-m // bm) * -(-n // bn),)

            def launch(i: int) -> None:
                t = sets[i]
                product[grid](
                    *(t["a"], t["b"], added[i], t["c"], m, n, k),
                    *(t["a"].stride(0), t["b"].stride(0), t["c"].stride(0), epilogue),
                    *(bm, bn, bk),
                    num_warps=warps,
                    num_stages=stages,
                )

            return launch

        launches = [launcher(c) for c in (_LARGE if m >= 128 else _SMALL)]
        return min(launches, key=lambda launch: do_bench(lambda: launch(0), warmup=5, rep=20))
