"""Fields and C text that the plans of the packed GEMMs share: words, features, conversions, offsets."""

from __future__ import annotations

from typing import Any

from tilegen.plans.base import Refusal
from tilegen.problems.gemm import Gemm
from tilegen.targets import CpuTarget
from tilegen.values import BF16, F16, I32

PARTS = "c_openmp/parts"

# Elements of 4 bytes in a vector of AVX-512, which are transposed in squares.
SIDE = 16

# Features that these kernels use; a level's others are of no use to them.
USED_FEATURES = ("avx512vnni", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl")


def words_of(problem: Gemm) -> dict[str, Any]:
    """Fields of a plan whose K is walked in 32-bit words, packed by rows or by transposition."""
    size = problem.dtype.bytes
    by_columns = problem.layout.b == "n"
    return {
        "packed": "int32_t",
        "in_words": 1,
        "split": 0,
        "each_product": "call->batch" if problem.batched else "",
        "fetch": 0,
        "plain": 0,
        "side": SIDE,
        "word": 4 // size,
        "bits": f"uint{8 * size}_t",
        "later_rows": tuple(range(1, 4 // size)),
        "shifts": tuple(range(0, 32, 8 * size)),
        "exact": int(problem.accumulator is I32),
        "widen": "",
        "widen_end": "",
        "one_factor": "load_word(source + i * from + j * kWord)",
        "factor_step": " * kWord",
        "turned": int(by_columns),
        "lane_type": "int32_t",
        "quad_bytes": 16,
        "packed_bytes": 4,
        "quad_part": f"{PARTS}/quad_word.c.j2",
        "transpose_part": f"{PARTS}/transpose_vector.c.j2",
        "b_part": f"{PARTS}/words_of_b_{'columns' if by_columns else 'rows'}.c.j2",
    }


def fetched(problem: Gemm) -> dict[str, str]:
    """C text of what is fetched of B's next block at sliver j, K contiguous: rows, their length, stride, start."""
    b = f"call->b{batch_offset(problem, 'b')}"
    return {
        "fetch_kind": "Element",
        "fetch_rows": "smaller(kMicroN, block->next_cols - j)",
        "fetch_row": "block->next_depth",
        "fetch_stride": "call->ldb",
        "fetch_from": f"{b} + n * call->ldb + k",
    }


def side_of(target: CpuTarget, size: int) -> int:
    """Rows of the squares that are transposed in whole vectors; 0 where four elements at a time do."""
    return SIDE if target.vector_bytes // size == SIDE else 0


def features_of(target: CpuTarget) -> tuple[str, ...]:
    """The target's features that the kernels use, those left out that another one implies."""
    used = [name for name in target.features if name in USED_FEATURES]
    implied = ("avx2", "fma") if "avx512f" in used else ()
    return tuple(name for name in used if name not in implied)


def missing_features(target: CpuTarget) -> tuple[Refusal, ...]:
    """The refusal of a call on a processor that lacks what the kernel uses, told by feature bits."""
    used = features_of(target)
    if not used:
        return ()
    missing = " ||\n      ".join(f'!__builtin_cpu_supports("{name}")' for name in used)
    return (Refusal(4, missing, f"the processor lacks one of {', '.join(used)}"),)


def widening(problem: Gemm) -> tuple[str, str]:
    """C text before and after an element that turns it into the type that is multiplied."""
    if problem.dtype in (F16, BF16):
        return f"{problem.dtype}_to_f32(", ")"
    return "(float)", ""


def batch_offset(problem: Gemm, name: str) -> str:
    """C text that moves a pointer to the matrix of the block's batch; empty without batches."""
    return f" + block->batch * call->stride_{name}" if problem.batched else ""


def fold_orders(lanes: int) -> tuple[str, ...]:
    """Orders of a vector's elements, each half the last one's distance off, whose sums end in all elements' sum."""
    steps = [lanes >> i for i in range(1, lanes.bit_length())]
    return tuple(", ".join(str((lane + step) % lanes) for lane in range(lanes)) for step in steps)
