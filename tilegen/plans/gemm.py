"""What the plans of all GEMM schedules share."""

from __future__ import annotations

from tilegen.plans.base import Fact, Plan
from tilegen.problems.gemm import Gemm


def batch_offset(problem: Gemm, name: str) -> str:
    """C text that moves a pointer to the matrix of the current batch; empty without batches."""
    return f" + at.batch * shape.stride_{name}" if problem.batched else ""


def gemm_facts(plan: Plan, threads: int, shared: int, registers: int) -> list[Fact]:
    """Numbers that every CUDA GEMM has: threads, shared memory, occupancy, arithmetic intensity.

    Args:
        plan: a plan with block_m, block_n and block_k.
        threads: threads of a block.
        shared: shared memory of a block in bytes.
        registers: estimate of a thread's registers.
    """
    target, size = plan.target, plan.problem.storage.bytes
    by_threads = target.threads_sm // threads
    by_shared = target.shared_sm // (shared + target.shared_reserved)
    by_registers = target.registers_sm // (threads * -(-registers // 8) * 8)
    blocks = min(by_threads, by_shared, by_registers, target.blocks_sm)
    bm, bn, bk = plan.block_m, plan.block_n, plan.block_k
    flops, moved = 2 * bm * bn * bk, (bm + bn) * bk * size
    return [
        Fact("tile", f"{bm} x {bn} x {bk}", "elements of M, N and K that a block holds at once"),
        Fact("threads", str(threads), f"{threads // 32} warps; {target} allows 1024 in a block"),
        Fact(
            "shared memory", f"{shared} bytes", f"{target} allows {target.shared_block} in a block"
        ),
        Fact("registers", f"about {registers}", f"a thread, estimated; {target} allows 255"),
        Fact(
            "occupancy",
            f"{blocks} blocks, {blocks * threads} of {target.threads_sm} threads",
            f"by threads {by_threads}, by shared memory {by_shared}, by registers {by_registers}",
        ),
        Fact(
            "arithmetic intensity",
            f"{flops / moved:.1f} flop/byte",
            f"{flops} flops on {moved} bytes for each slice of K",
        ),
    ]
