"""What the plans of all attention schedules share."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.problems.attention import Attention
from tilegen.problems.attention_mask import reads_distance
from tilegen.values import F16

# Largest extent that 32-bit positions take, with room for a block past the end.
MOST = 1 << 30

# Longest sequence whose distances become floats by one addition.
LONGEST_DISTANCE = 1 << 21


# Sizes along a sequence and over heads, of each array.
_EXTENTS = {n: ("seq_q", "heads") for n in ("q", "o", "d_o", "dq")}
_EXTENTS |= {n: ("seq_k", "kv_heads") for n in ("k", "v", "dk", "dv")}


def head_refusals(problem: Attention) -> tuple[Refusal, ...]:
    """Calls whose heads do not divide, or whose sizes leave 32-bit positions."""
    tiles = "batch * heads"
    too_long = f"seq_pages > {MOST // problem.page}" if problem.page else f"seq_k > {MOST}"
    return (
        Refusal(
            4,
            "heads > 0 && (kv_heads == 0 || heads % kv_heads != 0)",
            "heads is no multiple of kv_heads",
        ),
        Refusal(
            5,
            f"batch > {MOST} || heads > {MOST} || seq_q > {MOST} || {too_long} || "
            f"(seq_q > 0 && {tiles} > {MOST} / seq_q)",
            f"a size, or batch * heads * seq_q, is above {MOST}",
        ),
    )


def distance_refusals(problem: Attention) -> tuple[Refusal, ...]:
    """Sequences whose distances leave the exact range of the short conversion to float."""
    if not reads_distance(problem):
        return ()
    keys = f"seq_k > {LONGEST_DISTANCE}"
    if problem.page:
        keys = f"seq_pages > {LONGEST_DISTANCE // problem.page}"
    condition = f"seq_q > {LONGEST_DISTANCE} || {keys}"
    reason = f"a sequence of more than {LONGEST_DISTANCE} whose positions become floats"
    return (Refusal(8, condition, reason),)


def alignment_refusals(
    problem: Attention, mover: str, names: Sequence[str] = ("q", "k", "v", "o")
) -> tuple[Refusal, ...]:
    """Calls whose arrays or strides are not whole units of 16 bytes; elements are 2 bytes."""
    pointers = " || ".join(f"reinterpret_cast<uintptr_t>({n}) % 16 != 0" for n in names)
    strides = []
    for name in names:
        seq, heads = _EXTENTS[name]
        if problem.page and name in ("k", "v"):
            strides += [f"(pages > 1 && {name}_stride_page % 8 != 0)"]
            strides += [f"{name}_stride_seq % 8 != 0"]
            strides += [f"(kv_heads > 1 && {name}_stride_head % 8 != 0)"]
            continue
        for dim, extent in (("batch", "batch"), ("seq", seq), ("head", heads)):
            strides.append(f"({extent} > 1 && {name}_stride_{dim} % 8 != 0)")
    return (
        Refusal(6, pointers, f"an array does not start on 16 bytes, the unit that {mover}"),
        Refusal(7, " || ".join(strides), "a stride is no multiple of 8 elements, 16 bytes"),
    )


def element_names(problem: Attention) -> dict[str, str]:
    """C names around an element of 16 bits: its type, a pair of them, how two floats become a pair."""
    half = problem.dtype is F16
    return {
        "element": problem.dtype.cuda,
        "element_pair": "__half2" if half else "__nv_bfloat162",
        "pack_function": "__floats2half2_rn" if half else "__floats2bfloat162_rn",
    }


def attention_facts(plan: Plan, shared: int, registers: int) -> list[Fact]:
    """Numbers that every CUDA attention has: tile, threads, shared memory, intensity."""
    target, problem = plan.target, plan.problem
    m, n = plan.schedule.tile
    flops = 2 * m * n * (problem.head_dim + problem.value_dim)
    moved = n * (problem.head_dim + problem.value_dim) * problem.dtype.bytes
    return [
        Fact("tile", f"{m} x {n}", "queries of a tile and keys of a block"),
        Fact(
            "threads",
            str(plan.threads),
            f"{plan.threads // 32} warps; {target} allows 1024 in a block",
        ),
        Fact(
            "shared memory", f"{shared} bytes", f"{target} allows {target.shared_block} in a block"
        ),
        Fact("registers", f"about {registers}", "a thread that multiplies"),
        Fact(
            "arithmetic intensity",
            f"{flops / moved:.1f} flop/byte",
            f"{flops} flops on {moved} bytes of keys and values a block",
        ),
    ]
