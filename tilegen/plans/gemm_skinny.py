"""The plan of SkinnyGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan, Refusal, ceil_div
from tilegen.plans.gemm_packed import THREAD_COST
from tilegen.plans.gemm_packed_text import PARTS, batch_offset, features_of, fold_orders
from tilegen.plans.gemm_packed_text import missing_features, widening
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_packed import MULTIPLIED, lanes_of
from tilegen.schedules.gemm_skinny import SkinnyGemm
from tilegen.targets import CpuTarget
from tilegen.values import BF16, F16

# Rows of B that pass through a strip together: with 64 columns of float32 they take 8 KiB of L1.
STEP_K = 32

STRIPS_PER_THREAD = 4


@dataclass(frozen=True)
class SkinnyGemmPlan(Plan):
    """Numbers of `templates/c_openmp/gemm_skinny.c.j2`; sizes in elements unless the name says bytes."""

    block_m: int
    block_n: int
    block_k: int
    micro_m: int
    micro_n: int
    step_k: int
    lines: int
    group_n: int
    thread_cost: int
    strips_per_thread: int
    store_lanes: int
    lanes: int
    vectors: int
    vector_counts: tuple[int, ...]
    row_counts: tuple[int, ...]
    col_counts: tuple[int, ...]
    fold_orders: tuple[str, ...]
    vector_bytes: int
    half_bytes: int
    element_bytes: int
    lane_type: str
    element: str
    packed: str
    widen: str
    widen_end: str
    features: str
    target_name: str
    load_part: str
    block_part: str
    batched: int
    a_batch: str
    b_batch: str
    a_source: str
    a_step: str
    call_arguments: tuple[str, ...]
    group_bytes: int
    sums_bytes: int

    template: ClassVar[str] = "c_openmp/gemm_skinny.c.j2"
    includes: ClassVar[tuple[str, ...]] = ("<errno.h>", "<stdlib.h>", "<string.h>")

    @classmethod
    def make(cls, problem: Gemm, schedule: SkinnyGemm, target: CpuTarget) -> SkinnyGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        block_m, block_n, block_k = schedule.tile
        micro_m, micro_n = schedule.micro
        multiplied = MULTIPLIED[problem.dtype]
        lanes = lanes_of(problem, target)
        converted = problem.dtype is not multiplied
        along_k = problem.layout.b == "n"
        widen = widening(problem) if converted else ("", "")
        a, b = problem.tensors()[:2]
        sizes = [s.name for s in problem.sizes() if s.name != "k"]
        k_contiguous = problem.layout.a == "t"
        return cls(
            problem,
            schedule,
            target,
            block_m=block_m,
            block_n=block_n,
            block_k=block_k,
            micro_m=micro_m,
            micro_n=micro_n,
            step_k=0 if along_k else STEP_K,
            lines=ceil_div(micro_n * problem.dtype.bytes, 64),
            group_n=_group(schedule, problem, target) if along_k else 0,
            thread_cost=THREAD_COST,
            strips_per_thread=STRIPS_PER_THREAD,
            store_lanes=0,
            lanes=lanes,
            vectors=micro_n if along_k else micro_n // lanes,
            vector_counts=tuple(range(1, micro_n // lanes + 1)),
            row_counts=tuple(range(1, micro_m + 1)),
            col_counts=tuple(range(1, micro_n + 1)),
            fold_orders=fold_orders(lanes),
            vector_bytes=target.vector_bytes,
            half_bytes=target.vector_bytes // 2,
            element_bytes=problem.dtype.bytes,
            lane_type=f"int{multiplied.bits}_t",
            element=problem.dtype.c,
            packed=multiplied.c,
            widen=widen[0],
            widen_end=widen[1],
            features=",".join(features_of(target)),
            target_name=target.name,
            load_part=f"{PARTS}/vector_{problem.dtype if converted else 'same'}.c.j2",
            block_part=f"{PARTS}/skinny_{'dot' if along_k else 'rows'}.c.j2",
            batched=int(problem.batched),
            a_batch=batch_offset(problem, "a"),
            b_batch=batch_offset(problem, "b"),
            a_source=(
                "(block->m + i) * call->lda + block->k"
                if k_contiguous
                else "block->k * call->lda + block->m + i"
            ),
            a_step="" if k_contiguous else " * call->lda",
            call_arguments=(*sizes, "a", *a.strides, "b", *b.strides),
            group_bytes=block_m * (block_k + lanes) * multiplied.bytes,
            sums_bytes=block_m * block_n * multiplied.bytes,
        )

    def parts(self) -> tuple[str, ...]:
        return (self.load_part, self.block_part)

    @property
    def helpers(self) -> tuple[str, ...]:
        return (self.widen[:-1],) if self.problem.dtype in (F16, BF16) else ()

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return missing_features(self.target)

    def facts(self) -> list[Fact]:
        registers = self.schedule.registers(self.problem, self.target)
        per_byte = 2 * self.block_m / self.problem.dtype.bytes
        return [
            Fact("tile", str(self.schedule.tile), "rows, columns and depth of a thread's block"),
            Fact("packed A", f"{self.group_bytes} bytes", f"{self.block_m} x {self.block_k}"),
            Fact("sums", f"{self.sums_bytes} bytes", f"{self.block_m} x {self.block_n}"),
            Fact("vector registers", f"{registers} of {self.target.vector_registers}", "at once"),
            Fact(
                "arithmetic intensity",
                f"{per_byte:g} flop/byte",
                f"{self.block_m} rows meet each element of B, which is read once",
            ),
        ]


def _group(schedule: SkinnyGemm, problem: Gemm, target: CpuTarget) -> int:
    """Columns, whole micro tiles of them, whose rows of B are a quarter of L2."""
    row = schedule.tile[2] * problem.dtype.bytes
    width = schedule.micro[1]
    return max(1, target.l2_bytes // 4 // row // width) * width
