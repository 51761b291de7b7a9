"""DecodeAttention: few queries against long keys; the keys are split over the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_mma import PAD
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import whole_pages
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16

# Rows of one mma.
MMA_ROWS = 16
# Most splits of a head's keys: what merges them waits for so many reads.
MOST_SPLITS = 64
# Registers of addresses, fragments and row statistics, beside scores and output (ptxas 13.0).
OVERHEAD = 72
# Elements of a value whose sums fit a warp's registers; blocks of threads share wider ones.
WIDEST_SLICE = 256
# Longest keys and values: those of latent attention, 512 and 64 for positions.
MOST_DIMS = {"head_dim": 576, "value_dim": 512}


# Elements in the 128 bytes that the copy engine swizzles together; bytes it wants such rows to start on.
SPAN = 64
SWIZZLE_BYTES = 1024


def in_boxes(problem: Attention, target: CudaTarget) -> bool:
    """Whether the copy engine moves keys and values: it does where rows are whole spans of 128 bytes."""
    columns = problem.value_dim // value_slices(problem.value_dim)
    return "tma" in target.features and not (problem.head_dim % SPAN or columns % SPAN)


def value_slices(value_dim: int) -> int:
    """How many blocks of threads share a value: as few as leave each whole products it has registers for."""
    units = value_dim // 16
    return next(n for n in range(1, units + 1) if units % n == 0 and value_dim <= n * WIDEST_SLICE)


@dataclass(frozen=True)
class DecodeAttention(Schedule):
    """Every warp streams its own keys and values past packed rows of queries; a second kernel merges."""

    rows: int = option(
        16,
        "Rows of a tile: queries of all heads that share keys; more than there are cost time.",
        kind=int,
        unit="queries",
    )
    block: int = option(
        16,
        "Keys of a block, which a warp takes at a time; more cost shared memory and save steps.",
        kind=int,
        unit="keys",
    )
    stages: int = option(
        3,
        "Blocks of keys with their values in flight for each warp; more hide more latency.",
        kind=int,
        unit="blocks",
    )
    warps: int = option(4, "Warps of a thread block; each has blocks of its own.", kind=int)
    blocks: int = option(
        132,
        "Thread blocks that a call is split into while its keys allow; one for each processor of an H200.",
        kind=int,
        unit="thread blocks",
    )

    operator: ClassVar[str] = "attention"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "decode"

    @classmethod
    def accepts(cls, problem: Attention, target: CudaTarget) -> Violation | None:
        if "cp_async" not in target.features:
            return Violation("target", f"cp.async needs sm_80 or newer, not {target}")
        if problem.dtype not in (F16, BF16):
            return Violation(
                "dtype", f"the decode schedule takes f16 and bf16, not {problem.dtype}"
            )
        for name, most in MOST_DIMS.items():
            extent = getattr(problem, name)
            if extent % 16 or extent > most:
                return Violation(name, f"{name} {extent} is no multiple of 16 up to {most}")
        return None

    @classmethod
    def default(cls, problem: Attention, target: CudaTarget) -> DecodeAttention:
        # One block of threads a processor with all of its shared memory in flight: fewer streams at a time
        # leave more of a page of memory to each.
        wide = 64 if problem.head_dim + problem.value_dim <= 128 else 32
        for block in (wide, wide // 2, 16):
            for stages in (6, 5, 4, 3):
                found = cls(16, block, stages)
                if not found.violations(problem, target):
                    return found
        return next(
            (c for c in cls.candidates(problem, target) if not c.violations(problem, target)), cls()
        )

    def registers(self, problem: Attention) -> int:
        """Registers of a thread: scores, output, and the rest."""
        columns = problem.value_dim // value_slices(problem.value_dim)
        return self.rows // MMA_ROWS * (columns // 2 + 8) + self.block // 2 + OVERHEAD - 8

    def shared_bytes(self, problem: Attention, target: CudaTarget) -> dict[str, int]:
        """Shared memory of a block in bytes, by what it holds; rows that cp.async writes are padded by 16 bytes.

        The warps' results, which are merged at the end, lie where keys and values were. Boxes have a barrier for
        each block, beside the queries, and start on whole swizzles.
        """
        boxes = in_boxes(problem, target)
        pad = 0 if boxes else 2 * PAD
        columns = problem.value_dim // value_slices(problem.value_dim)
        blocks = self.warps * self.stages
        ring = blocks * self.block * (problem.head_dim + columns + pad) * 2
        parts = self.warps * self.rows * (columns + 2) * 4
        queries = self.rows * (problem.head_dim + PAD) * 2 + (8 * blocks if boxes else 0)
        unit = SWIZZLE_BYTES if boxes else 16
        return {"q": -(-queries // unit) * unit, "blocks": -(-max(ring, parts) // unit) * unit}

    def violations(self, problem: Attention, target: CudaTarget) -> list[Violation]:
        broken = []
        if self.rows not in (16, 32, 48, 64):
            broken.append(Violation("rows", f"{self.rows} rows of a tile: 16, 32, 48 or 64"))
        if self.block % 16 or not 16 <= self.block <= 64:
            broken.append(Violation("block", f"{self.block} keys in a block: 16, 32, 48 or 64"))
        if not 2 <= self.stages <= 8:
            broken.append(Violation("stages", f"{self.stages} stages: 2 to 8 blocks in flight"))
        if self.warps not in (1, 2, 4, 8):
            broken.append(Violation("warps", f"{self.warps} warps: 1, 2, 4 or 8"))
        if not 1 <= self.blocks <= 1 << 16:
            broken.append(Violation("blocks", f"{self.blocks} thread blocks: 1 to 65536"))
        if broken:
            return broken
        broken += whole_pages("block", self.block, problem.page)
        needed = self.registers(problem)
        allowed = min(target.registers_thread, target.registers_sm // (32 * self.warps))
        if needed > allowed:
            broken.append(
                Violation(
                    "rows",
                    f"{self.rows} rows and blocks of {self.block} keys with value_dim "
                    f"{problem.value_dim} need about {needed} "
                    f"registers a thread; {target} gives {allowed}",
                )
            )
        shared = sum(self.shared_bytes(problem, target).values())
        if shared > target.shared_block:
            broken.append(
                Violation(
                    "stages",
                    f"{self.warps} warps with {self.stages} blocks of {self.block} keys and head dims "
                    f"{problem.head_dim} and {problem.value_dim} need {shared} bytes of shared memory; "
                    f"{target} allows {target.shared_block} in a block",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = ["decode", f"{self.rows}x{self.block}", f"s{self.stages}", f"w{self.warps}"]
        return words + ([f"b{self.blocks}"] if self.blocks != 132 else [])

    def tile_extents(self) -> tuple[int, ...]:
        return (self.rows, self.block * self.warps)

    @classmethod
    def candidates(cls, problem: Attention, target: CudaTarget) -> Iterator[DecodeAttention]:
        for rows in (16, 32):
            for warps in (4, 8, 2, 1):
                for block in (16, 32):
                    for stages in (3, 4, 2):
                        for blocks in (132, 264, 528):
                            yield cls(rows, block, stages, warps, blocks)
