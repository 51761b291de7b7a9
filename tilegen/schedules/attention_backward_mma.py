"""MmaAttentionBackward: gradients of attention with mma.sync and cp.async, for sm_80 and newer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.schedules.attention_mma import PAD, WARP_M
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, Tile

# Registers of addresses, fragments and row statistics, beside accumulators (ptxas 13.0).
OVERHEAD = 64


@dataclass(frozen=True)
class MmaAttentionBackward(Schedule):
    """One kernel for dk and dv, one for dq, nothing summed by atomics: the same bits in every run."""

    tile: Tile = option(
        Tile((64, 32)),
        "Rows of a tile, 16 a warp: keys for dk and dv, queries for dq; and columns of a block.",
        kind=Tile,
        unit="M x N elements",
    )

    operator: ClassVar[str] = "attention_backward"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "mma"

    @classmethod
    def accepts(cls, problem: AttentionBackward, target: CudaTarget) -> Violation | None:
        if "cp_async" not in target.features:
            return Violation("target", f"cp.async needs sm_80 or newer, not {target}")
        if problem.dtype not in (F16, BF16):
            return Violation("dtype", f"the mma schedule takes f16 and bf16, not {problem.dtype}")
        for name in ("head_dim", "value_dim"):
            extent = getattr(problem, name)
            if extent % 16:
                return Violation(name, f"{name} {extent} is no multiple of 16")
        least = cls(Tile((16, 16))).registers(problem)
        if least > target.registers_thread:
            return Violation(
                "head_dim",
                f"head dims {problem.head_dim} and {problem.value_dim} need about {least} registers a "
                f"thread for dk and dv; {target} has {target.registers_thread}",
            )
        return None

    @classmethod
    def default(cls, problem: AttentionBackward, target: CudaTarget) -> MmaAttentionBackward:
        for found in cls.candidates(problem, target):
            if not found.violations(problem, target):
                return found
        return cls(Tile((16, 16)))

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.tile[0] // WARP_M

    def registers(self, problem: AttentionBackward) -> int:
        """Registers of a thread: dk and dv, scores and their gradients, and the rest."""
        return (problem.head_dim + problem.value_dim) // 2 + self.tile[1] + OVERHEAD

    def shared_bytes(self, problem: AttentionBackward) -> dict[str, int]:
        """Shared memory of a block in bytes: its tile, and two blocks; rows are padded by 16 bytes."""
        m, n = self.tile
        row = (problem.head_dim + problem.value_dim + 2 * PAD) * 2
        return {"tile": m * row, "blocks": 2 * n * (row + 8)}

    def violations(self, problem: AttentionBackward, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 2)
        if broken:
            return broken
        m, n = self.tile
        if m % WARP_M or not 1 <= self.warps <= 8:
            broken.append(Violation("tile", f"{m} rows: multiples of 16 up to 128, one warp each"))
        if n % 16 or n > 64:
            broken.append(Violation("tile", f"{n} columns in a block: 16, 32, 48 or 64"))
        if broken:
            return broken
        needed = self.registers(problem)
        allowed = min(target.registers_thread, target.registers_sm // (32 * self.warps))
        if needed > allowed:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} with head dims {problem.head_dim} and {problem.value_dim} needs "
                    f"about {needed} registers a thread; {target} gives {allowed}",
                )
            )
        shared = sum(self.shared_bytes(problem).values())
        if shared > target.shared_block:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} with head dims {problem.head_dim} and {problem.value_dim} needs "
                    f"{shared} bytes of shared memory; {target} allows {target.shared_block} in a block",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        return [str(self.tile)]

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(
        cls, problem: AttentionBackward, target: CudaTarget
    ) -> Iterator[MmaAttentionBackward]:
        for m in (64, 128, 32):
            for n in (32, 64, 16):
                yield cls(Tile((m, n)))
