"""WgmmaAttentionBackward: gradients of attention on Hopper's warpgroup products, loads by the copy engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.problems.attention_mask import Linear, key_range
from tilegen.schedules.attention_wgmma import (
    REGISTERS,
    SPAN,
    WARPGROUP_M,
    formula_registers,
)
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, Tile

CONSUMERS = 2
# Registers of addresses, descriptors and the loop, beside accumulators and a left side (ptxas 13.0).
OVERHEAD = 24
# Registers for the keys that a query sees, where both ends of them move with the query.
BOUNDS = 8
ROWS_OF_WARP = 16
HEAD_DIMS = (64, 128)


def _moves(bounds: tuple[Linear, ...]) -> bool:
    """Whether a bound of the keys moves with the query."""
    return any(name == "i" or name.endswith("i]") for term in bounds for name in term)


@dataclass(frozen=True)
class WgmmaAttentionBackward(Schedule):
    """A tile of keys walks the queries: five products, dk and dv in registers, dq summed in the workspace."""

    tile: Tile = option(
        Tile((128, 64)),
        "Keys of a tile, 64 a consumer, and queries of a block.",
        kind=Tile,
        unit="M x N elements",
    )
    stages: int = option(
        3, "Blocks of queries, and of d_o, in flight in shared memory.", kind=int, unit="blocks"
    )
    head_group: int = option(
        16,
        "Heads of keys whose tiles run together; fewer keep queries and dq in L2.",
        kind=int,
        unit="heads",
    )
    ordered: bool = option(
        True,
        "Tiles of keys add to dq in their order: the same bits in every run; false: as they come.",
        kind=bool,
    )

    operator: ClassVar[str] = "attention_backward"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "wgmma"

    @classmethod
    def accepts(cls, problem: AttentionBackward, target: CudaTarget) -> Violation | None:
        if "wgmma" not in target.features:
            return Violation("target", f"wgmma needs sm_90a, not {target}")
        if problem.dtype not in (F16, BF16):
            return Violation("dtype", f"the wgmma schedule takes f16 and bf16, not {problem.dtype}")
        for name in ("head_dim", "value_dim"):
            extent = getattr(problem, name)
            if extent not in HEAD_DIMS:
                return Violation(
                    name, f"{name} {extent}: the wgmma schedule takes 64 and 128; mma takes others"
                )
        needed, allowed = cls().registers(problem), REGISTERS[CONSUMERS][1]
        if needed > allowed:
            return Violation(
                "mask",
                f"the mask takes registers to about {needed} a thread, and two consumers have {allowed}; "
                f"mma takes any mask",
            )
        return None

    @classmethod
    def default(cls, problem: AttentionBackward, target: CudaTarget) -> WgmmaAttentionBackward:
        # A mask shortens the walks of most tiles: more heads at once even them out.
        return cls(head_group=16 if problem.causal or problem.mask else 8)

    def registers(self, problem: AttentionBackward) -> int:
        """Registers of a consumer thread: dk and dv, weights, their gradients or dq, a left side, the rest."""
        n = self.tile[1]
        sums = (problem.head_dim + problem.value_dim) // 2
        rest = OVERHEAD + formula_registers(problem)
        keys = key_range(problem)
        if _moves(keys.ends) and _moves(keys.firsts):
            rest += BOUNDS
        return sums + n // 2 + n // 2 + n // 4 + rest

    def shared_bytes(self, problem: AttentionBackward) -> dict[str, int]:
        """Shared memory of a block in bytes, by what it holds."""
        m, n = self.tile
        head, value = problem.head_dim * 2, problem.value_dim * 2
        return {
            "k": m * head,
            "v": m * value,
            "q": self.stages * n * head,
            "d_o": self.stages * n * value,
            "ds": 2 * m * n * 2,
            "dq": n * problem.head_dim * 4,
            "rows": self.stages * n * 8,
            "barriers": 256,
        }

    def violations(self, problem: AttentionBackward, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 2)
        if broken:
            return broken
        m, n = self.tile
        if m != CONSUMERS * WARPGROUP_M:
            broken.append(Violation("tile", f"{m} keys: two consumers have 64 each, 128"))
        if n != SPAN:
            broken.append(
                Violation("tile", f"{n} queries in a block: registers and wgmma's rows allow 64")
            )
        if self.stages < 2:
            broken.append(
                Violation("stages", f"{self.stages} stage: the next queries need one of their own")
            )
        if self.head_group < 1:
            broken.append(
                Violation("head_group", f"head_group {self.head_group} must be at least 1")
            )
        shared = sum(self.shared_bytes(problem).values())
        if shared > target.shared_block:
            broken.append(
                Violation(
                    "stages",
                    f"tile {self.tile} with {self.stages} stages needs {shared} bytes of shared memory; "
                    f"{target} allows {target.shared_block} in a block",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = [str(self.tile), f"s{self.stages}"]
        if self.head_group != 16:
            words.append(f"g{self.head_group}")
        if not self.ordered:
            words.append("any")
        return words

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(
        cls, problem: AttentionBackward, target: CudaTarget
    ) -> Iterator[WgmmaAttentionBackward]:
        for stages in (2, 3):
            for group in (16, 8, 32):
                yield cls(Tile((128, 64)), stages, group)
