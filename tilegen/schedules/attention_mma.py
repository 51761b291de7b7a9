"""MmaAttention: attention with mma.sync and cp.async, for sm_80 and newer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention import Attention
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank, whole_pages
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, Tile

WARP_M = 16
PAD = 8
# Registers of addresses, fragments and row statistics, beside scores and output (ptxas 13.0).
OVERHEAD = 76


@dataclass(frozen=True)
class MmaAttention(Schedule):
    """A block of warps, 16 queries each; one block of keys and one of values in shared memory."""

    tile: Tile = option(
        Tile((128, 64)),
        "Queries of a tile and keys of a block; 16 queries a warp.",
        kind=Tile,
        unit="M x N elements",
    )

    operator: ClassVar[str] = "attention"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "mma"

    @classmethod
    def accepts(cls, problem: Attention, target: CudaTarget) -> Violation | None:
        if "cp_async" not in target.features:
            return Violation("target", f"cp.async needs sm_80 or newer, not {target}")
        if problem.dtype not in (F16, BF16):
            return Violation("dtype", f"the mma schedule takes f16 and bf16, not {problem.dtype}")
        for name in ("head_dim", "value_dim"):
            extent = getattr(problem, name)
            if extent % 16 or extent > 256:
                return Violation(name, f"{name} {extent} is no multiple of 16 up to 256")
        if problem.value_dim > problem.head_dim:
            return Violation(
                "value_dim",
                f"value_dim {problem.value_dim} is above head_dim {problem.head_dim}: outputs pass "
                "through the space of the queries",
            )
        return None

    @classmethod
    def default(cls, problem: Attention, target: CudaTarget) -> MmaAttention:
        for found in cls.candidates(problem, target):
            if not found.violations(problem, target):
                return found
        return cls(Tile((16, 16)))

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.tile[0] // WARP_M

    def registers(self, problem: Attention) -> int:
        """Registers of a thread: scores, output, and the rest."""
        return self.tile[1] // 2 + problem.value_dim // 2 + OVERHEAD

    def shared_bytes(self, problem: Attention) -> dict[str, int]:
        """Shared memory of a block in bytes, by what it holds; rows are padded by 16 bytes."""
        m, n = self.tile
        return {
            "q": m * (problem.head_dim + PAD) * 2,
            "k": n * (problem.head_dim + PAD) * 2,
            "v": n * (problem.value_dim + PAD) * 2,
        }

    def violations(self, problem: Attention, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 2)
        if broken:
            return broken
        m, n = self.tile
        if m % WARP_M or not 1 <= self.warps <= 16:
            broken.append(
                Violation("tile", f"{m} queries: multiples of 16 up to 256, one warp each")
            )
        if n % 16 or n > 128:
            broken.append(Violation("tile", f"{n} keys in a block: multiples of 16 up to 128"))
        if broken:
            return broken
        broken += whole_pages("tile", n, problem.page)
        needed = self.registers(problem)
        allowed = min(target.registers_thread, target.registers_sm // (32 * self.warps))
        if needed > allowed:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} with value_dim {problem.value_dim} needs about {needed} registers "
                    f"a thread; {target} gives {allowed} to each of {32 * self.warps} threads",
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
    def candidates(cls, problem: Attention, target: CudaTarget) -> Iterator[MmaAttention]:
        for m in (128, 64, 96, 32, 16):
            for n in (64, 32, 128, 48, 16):
                yield cls(Tile((m, n)))
