"""The plan of AmxSkinnyGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.plans.gemm_amx import PERMISSION
from tilegen.plans.gemm_packed_text import batch_offset, fold_orders, words_of
from tilegen.plans.gemm_skinny import STRIPS_PER_THREAD
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_amx import TILE, word
from tilegen.schedules.gemm_amx_skinny import AmxSkinnyGemm
from tilegen.targets import CpuTarget
from tilegen.values import BF16, I8

# Words of B that are worth starting a thread: 128 KiB, some 10 us.
THREAD_COST = 32768

# Rows that vectors multiply, rows of B that they meet together, and steps of K, a line of each, fetched ahead.
FEW_M = 2
FEW_N = 4
FEW_AHEAD = 16


@dataclass(frozen=True)
class AmxSkinnyGemmPlan(Plan):
    """Numbers of `templates/c_openmp/gemm_amx_skinny.c.j2`; K in words of elements."""

    block_m: int
    block_n: int
    block_k: int
    ahead: int
    thread_cost: int
    strips_per_thread: int
    few_m: int
    few_n: int
    few_ahead: int
    few_counts: tuple[int, ...]
    fold_orders: tuple[str, ...]
    word: int
    step: int
    exact: int
    in_words: int
    offset: int
    dot: str
    element: str
    packed: str
    sum: str
    lane_type: str
    quad_bytes: int
    packed_bytes: int
    one_factor: str
    factor_step: str
    features: str
    target_name: str
    transpose_part: str
    quad_part: str
    side: int
    batched: int
    a_batch: str
    b_batch: str
    call_arguments: tuple[str, ...]
    group_bytes: int
    sums_bytes: int

    template: ClassVar[str] = "c_openmp/gemm_amx_skinny.c.j2"
    includes: ClassVar[tuple[str, ...]] = (
        "<errno.h>",
        "<stdlib.h>",
        "<string.h>",
        "<cpuid.h>",
        "<immintrin.h>",
    )

    @classmethod
    def make(cls, problem: Gemm, schedule: AmxSkinnyGemm, target: CpuTarget) -> AmxSkinnyGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        block_m, block_n, depth = schedule.tile
        kind = "amx-int8" if problem.dtype is I8 else "amx-bf16"
        few = FEW_M if problem.dtype is BF16 else 0
        a, b = problem.tensors()[:2]
        sizes = [s.name for s in problem.sizes() if s.name != "k"]
        words = words_of(problem)
        shared = "word exact in_words packed lane_type quad_bytes packed_bytes one_factor"
        shared += " factor_step transpose_part quad_part side"
        return cls(
            problem,
            schedule,
            target,
            **{name: words[name] for name in shared.split()},
            block_m=block_m,
            block_n=block_n,
            block_k=depth // word(problem),
            ahead=schedule.ahead,
            thread_cost=THREAD_COST,
            strips_per_thread=STRIPS_PER_THREAD,
            few_m=few,
            few_n=FEW_N,
            few_ahead=FEW_AHEAD,
            few_counts=tuple(range(1, few + 1)),
            fold_orders=fold_orders(TILE),
            step=TILE * word(problem),
            offset=0,
            dot="_tile_dpbssd" if problem.dtype is I8 else "_tile_dpbf16ps",
            element=problem.dtype.c,
            sum=problem.accumulator.c,
            features=f"amx-tile,{kind},avx512bw,avx512dq,avx512vl",
            target_name=target.name,
            batched=int(problem.batched),
            a_batch=batch_offset(problem, "a"),
            b_batch=batch_offset(problem, "b"),
            call_arguments=(*sizes, "a", *a.strides, "b", *b.strides),
            group_bytes=block_m * depth * problem.dtype.bytes,
            sums_bytes=block_m * block_n * 4,
        )

    def parts(self) -> tuple[str, ...]:
        return (self.transpose_part, self.quad_part)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return PERMISSION

    def facts(self) -> list[Fact]:
        per_byte = 2 * self.block_m / self.problem.dtype.bytes
        return [
            Fact("tile", str(self.schedule.tile), "rows, columns and depth of a thread's block"),
            Fact("packed A", f"{self.group_bytes} bytes", f"{self.block_m} rows, whole words of K"),
            Fact("sums", f"{self.sums_bytes} bytes", f"{self.block_n} x {self.block_m}"),
            Fact(
                "arithmetic intensity",
                f"{per_byte:g} flop/byte",
                f"{self.block_m} rows meet each element of B, which is read once",
            ),
        ]
