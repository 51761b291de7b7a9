"""The plan of MmaGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.plans.gemm import batch_offset, gemm_facts
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_mma import CHUNK, MMA_BYTES, MMA_M, MMA_N, STAGING_PAD, MmaGemm
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, I8, TF32, U8

# Types of mma.sync: result, A, B, accumulator.
_MMA_TYPES = {
    F16: "f32.f16.f16.f32",
    BF16: "f32.bf16.bf16.f32",
    TF32: "f32.tf32.tf32.f32",
    I8: "s32.s8.s8.s32",
    U8: "s32.u8.u8.s32",
}

# C type and PTX type of an element that is narrower than the narrowest cp.async.
_NARROW = {1: ("uint8_t", "u8"), 2: ("uint16_t", "u16"), 4: ("", "")}


@dataclass(frozen=True)
class MmaGemmPlan(Plan):
    """Numbers of `templates/cuda/gemm_mma.cu.j2`; sizes in elements unless the name says bytes.

    Attributes:
        wider: bytes of a copy for which there is a main loop, widest first, but for the narrowest.
        narrowest: bytes of the narrowest copy: one element, or 4.
        rounds: 1 if operands are rounded before they are multiplied.
    """

    block_m: int
    block_n: int
    block_k: int
    stages: int
    warps_m: int
    warps_n: int
    group_m: int
    resident: int
    threads: int
    warp_m: int
    warp_n: int
    fragments_m: int
    fragments_n: int
    size: int
    steps: int
    mma_m: int
    mma_n: int
    chunk: int
    a_slice_bytes: int
    b_slice_bytes: int
    staging_bytes: int
    staging_pad: int
    vector: int
    element: str
    mma_shape: str
    mma_types: str
    sum_register: str
    narrow_type: str
    narrow_suffix: str
    copy_function: str
    rounds: int
    wider: tuple[int, ...]
    narrowest: int
    ldmatrix_suffixes: tuple[str, ...]
    a_part: str
    b_part: str
    a_batch: str
    b_batch: str
    reduces: int
    row_part_columns: int
    overlaps: int

    template: ClassVar[str] = "cuda/gemm_mma.cu.j2"
    epilogue_vector: ClassVar[int] = 4

    @classmethod
    def make(cls, problem: Gemm, schedule: MmaGemm, target: CudaTarget) -> MmaGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        bm, bn, bk = schedule.tile
        warp_m, warp_n = schedule.warp_tile
        size = problem.storage.bytes
        orders = (problem.layout.a_dims[1] == "k", problem.layout.b_dims[1] == "k")
        widths = tuple(w for w in (16, 8, 4) if w >= size) + ((size,) if size < 4 else ())
        narrow_type, narrow_suffix = _NARROW[size]
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            block_m=bm,
            block_n=bn,
            block_k=bk,
            stages=schedule.stages,
            warps_m=schedule.warps[0],
            warps_n=schedule.warps[1],
            group_m=schedule.group,
            resident=schedule.resident(size, target),
            threads=schedule.threads,
            warp_m=warp_m,
            warp_n=warp_n,
            fragments_m=warp_m // MMA_M,
            fragments_n=warp_n // MMA_N,
            size=size,
            steps=bk * size // MMA_BYTES,
            mma_m=MMA_M,
            mma_n=MMA_N,
            chunk=CHUNK,
            a_slice_bytes=bm * bk * size,
            b_slice_bytes=bn * bk * size,
            staging_bytes=schedule.staging_bytes,
            staging_pad=STAGING_PAD,
            vector=cls.epilogue_vector,
            element=problem.storage.cuda,
            mma_shape=f"m{MMA_M}n{MMA_N}k{MMA_BYTES // size}",
            mma_types=_MMA_TYPES[problem.dtype],
            sum_register="f" if problem.accumulator.is_float else "r",
            narrow_type=narrow_type,
            narrow_suffix=narrow_suffix,
            copy_function="copy_slice" if narrow_type else "copy_pieces",
            rounds=int(problem.dtype is TF32),
            wider=widths[:-1],
            narrowest=widths[-1],
            ldmatrix_suffixes=tuple(
                text for text, used in (("", any(orders)), (".trans", not all(orders))) if used
            ),
            a_part=_part(orders[0]),
            b_part=_part(orders[1]),
            a_batch=batch_offset(problem, "a"),
            b_batch=batch_offset(problem, "b"),
            reduces=int(bool(problem.row_reductions)),
            row_part_columns=warp_n,
            overlaps=0,
        )

    @property
    def uses_workspace(self) -> bool:
        """Whether parts of rows meet in memory."""
        return bool(self.reduces)

    def parts(self) -> tuple[str, ...]:
        return (self.a_part, self.b_part)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        tiles = f"((m + {self.block_m - 1}) / {self.block_m}) * ((n + {self.block_n - 1}) / {self.block_n})"
        if self.problem.batched:
            tiles += " * batch"
        reason = f"the result has more than 2147483647 tiles of {self.block_m} x {self.block_n}"
        return (Refusal(4, f"{tiles} > 2147483647", reason),)

    @property
    def shared_bytes(self) -> int:
        return self.schedule.shared_bytes(self.size)

    def facts(self) -> list[Fact]:
        ring = self.schedule.ring_bytes(self.size)
        shared = self.schedule.shared_bytes(self.size)
        return gemm_facts(self, self.threads, shared, self.schedule.registers()) + [
            Fact(
                "shared memory of A",
                f"{self.stages * self.a_slice_bytes} bytes",
                f"{self.stages} stages of {self.a_slice_bytes}",
            ),
            Fact(
                "shared memory of B",
                f"{self.stages * self.b_slice_bytes} bytes",
                f"{self.stages} stages of {self.b_slice_bytes}",
            ),
            Fact(
                "shared memory of the epilogue",
                f"{self.staging_bytes} bytes",
                f"{MMA_M} rows a warp, in place of the {ring} bytes above",
            ),
            Fact("part of a warp", f"{self.warp_m} x {self.warp_n}", "results in registers"),
            Fact(
                "copies",
                ", ".join(str(w) for w in (*self.wider, self.narrowest)) + " bytes",
                "chosen at launch by strides and pointers",
            ),
        ]


def _part(k_contiguous: bool) -> str:
    order = "k_contiguous" if k_contiguous else "k_strided"
    return f"cuda/parts/mma_{order}.cuh.j2"
