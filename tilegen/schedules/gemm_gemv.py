"""GemvGemm: a product with very few rows, at the speed at which B can be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import no_rows
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, F32

# Bytes that a lane reads with one access.
VECTOR_BYTES = 16


@dataclass(frozen=True)
class GemvGemm(Schedule):
    """A warp sums a few columns of the result for a few rows: B streams past once, A stays in L1."""

    vectors: int = option(
        1, "Rows of A that are multiplied in one pass over B.", kind=int, unit="rows of M"
    )
    columns: int = option(
        2,
        "Columns of the result that a warp sums; more read A less often and leave fewer warps.",
        kind=int,
        unit="columns of N",
    )
    warps: int = option(8, "Warps of a block.", kind=int, unit="warps")
    split: int = option(
        1,
        "Warps of a block that share the sums of a column, each a part of K; for small N.",
        kind=int,
        unit="warps",
    )
    unroll: int = option(
        4,
        "Vectors of each column of B that a lane has on their way at any time.",
        kind=int,
        unit="16-byte reads",
    )
    ahead: int = option(
        0,
        "Vectors of each column of B that a lane asks L2 for while it waits for the kernel in front of it "
        "to end.",
        kind=int,
        unit="16-byte reads",
    )
    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "gemv"

    @classmethod
    def accepts(cls, problem: Gemm, target: CudaTarget) -> Violation | None:
        if problem.dtype not in (F16, BF16, F32):
            return Violation(
                "dtype", f"the gemv schedule multiplies f16, bf16 and f32, not {problem.dtype}"
            )
        if str(problem.layout) != "tn":
            return Violation(
                "layout",
                f"the gemv schedule reads along K, contiguous in A and B (tn), not {problem.layout}",
            )
        if problem.batched:
            return Violation("batched", "the gemv schedule has no batches")
        return no_rows(cls.name, problem)

    @classmethod
    def default(cls, problem: Gemm, target: CudaTarget) -> GemvGemm:
        return cls()

    def registers(self, problem: Gemm) -> int:
        """Estimate of a thread's registers: vectors on their way, of A and as numbers, sums, addresses."""
        chunk = VECTOR_BYTES // problem.dtype.bytes
        streams = self.columns * self.unroll * (chunk + 3)
        return 24 + streams + self.columns * self.vectors + 4 * self.vectors

    def violations(self, problem: Gemm, target: CudaTarget) -> list[Violation]:
        broken = []
        for name, low, high in (
            ("vectors", 1, 16),
            ("columns", 1, 16),
            ("warps", 1, 32),
            ("unroll", 1, 16),
            ("ahead", 0, 64),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                broken.append(Violation(name, f"{name} {value} must lie from {low} to {high}"))
        if self.ahead and "tma" not in target.features:
            reason = "launches overlap from sm_90 on"
            broken.append(
                Violation("ahead", f"{target} starts a kernel after the last one: {reason}")
            )
        if self.split < 1 or self.warps % self.split:
            broken.append(
                Violation("split", f"{self.split} warps a column do not divide {self.warps} warps")
            )
        allowed = min(target.registers_thread, target.registers_sm // (32 * max(1, self.warps)))
        if not broken and self.registers(problem) > allowed:
            broken.append(
                Violation(
                    "unroll",
                    f"{self.columns} columns of {self.unroll} vectors and {self.vectors} rows need about "
                    f"{self.registers(problem)} registers a thread; {target} gives {allowed}",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = ["gemv", f"m{self.vectors}", f"n{self.columns}", f"w{self.warps}"]
        words += [f"k{self.split}"] if self.split != 1 else []
        words += [f"u{self.unroll}"] if self.unroll != 4 else []
        words += [f"a{self.ahead}"] if self.ahead else []
        return words

    def tile_extents(self) -> tuple[int, ...]:
        chunk = 32 * VECTOR_BYTES // 2
        return (self.vectors, self.columns * self.warps // self.split, chunk * self.split)

    @classmethod
    def candidates(cls, problem: Gemm, target: CudaTarget) -> Iterator[GemvGemm]:
        for vectors, columns, warps, split, unroll in itertools.product(
            (1, 2, 4, 8), (1, 2, 4), (4, 8, 16), (1, 2, 4, 8), (2, 4, 8)
        ):
            yield cls(vectors, columns, warps, split, unroll)
