"""The machine that a launcher asks about: the target's limits, and the size of one card that has it."""

from __future__ import annotations

from tilegen.targets import CudaTarget

# Compute capability -> multiprocessors and bytes of L2 of one card: T4, A100, A10, L4, H200.
_CARDS = {
    75: (40, 4 << 20),
    80: (108, 40 << 20),
    86: (72, 6 << 20),
    89: (58, 48 << 20),
    90: (132, 60 << 20),
}


def machine(target: CudaTarget, multiprocessors: int | None = None) -> dict[str, int]:
    """Limits by the names that the recorder reads.

    `multiprocessors` makes the machine smaller: a persistent kernel then runs more tiles a block, and cheaper.
    """
    count, l2_bytes = _CARDS[target.cc]
    return {
        "compute_capability": target.cc,
        "multiprocessors": multiprocessors or count,
        "l2_bytes": l2_bytes,
        "shared_block": target.shared_block,
        "shared_sm": target.shared_sm,
        "shared_default": target.shared_default,
        "shared_reserved": target.shared_reserved if target.cc >= 80 else 0,
        "threads_sm": target.threads_sm,
        "blocks_sm": target.blocks_sm,
        "registers_sm": target.registers_sm,
    }
