"""AmxAttention: attention of bf16 in C with OpenMP, on the tile registers of AMX."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_blocked import STACK
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import whole_pages
from tilegen.targets import CpuTarget
from tilegen.values import BF16

# Elements of a row of a tile register; keys, and elements of a head, are multiplied so many at once.
DEPTH = 32

# Queries of a tile: two tile registers side by side.
QUERIES = 32

# Places between rows of turned values beyond the keys of a block.
PITCH = 32


@dataclass(frozen=True)
class AmxAttention(Schedule):
    """Scores and outputs on tile registers, queries in their columns; the softmax on vectors.

    Linux has to permit a process the tile registers, which a kernel asks for.
    """

    block: int = option(
        256,
        "Keys of a block, which is brought side by side for several tiles.",
        kind=int,
        unit="keys",
    )
    tiles: int = option(
        8,
        "Tiles of queries that pass a block together; more gather keys less often, fewer make more tasks.",
        kind=int,
        unit="tiles",
    )

    operator: ClassVar[str] = "attention"
    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "amx"

    @classmethod
    def accepts(cls, problem: Attention, target: CpuTarget) -> Violation | None:
        """None for bf16 on a target with AMX, heads and pages of whole tile registers."""
        if problem.dtype is not BF16:
            return Violation("dtype", f"the amx schedule multiplies bf16, not {problem.dtype}")
        if "amx-tile" not in target.features:
            return Violation("target", f"the amx schedule needs amx-tile, which {target} lacks")
        for field in ("head_dim", "value_dim", "page"):
            if getattr(problem, field) % DEPTH:
                message = f"{field} {getattr(problem, field)} is no multiple of {DEPTH}, which tile registers hold"
                return Violation(field, message)
        return None

    @classmethod
    def default(cls, problem: Attention, target: CpuTarget) -> AmxAttention:
        """8 or at least 4 tiles that fit a stack past the longest block, up to 256 keys, that divides a page."""
        blocks = [math.gcd(most, problem.page) if problem.page else most for most in (256, 128)]
        choices = [cls(block, n) for block in blocks for n in (8, 4)]
        fits = (c for c in choices if c.stack_bytes(problem) <= STACK)
        return next(fits, cls(blocks[-1], 1))

    def stack_bytes(self, problem: Attention) -> int:
        """Memory of a thread in bytes: words and outputs of its tiles, a block, scores and weights."""
        tile = QUERIES * (2 * problem.head_dim + 4 * problem.value_dim + 8) + 64
        block = 2 * self.block * problem.head_dim + 2 * problem.value_dim * (self.block + PITCH)
        return self.tiles * tile + block + 6 * self.block * QUERIES

    def violations(self, problem: Attention, target: CpuTarget) -> list[Violation]:
        broken = []
        if not DEPTH <= self.block <= 512 or self.block % DEPTH:
            message = f"a block has 32 to 512 keys, a multiple of {DEPTH}, not {self.block}"
            broken.append(Violation("block", message))
        if not 1 <= self.tiles <= 64:
            broken.append(Violation("tiles", f"1 to 64 tiles go together, not {self.tiles}"))
        broken += whole_pages("block", max(1, self.block), problem.page)
        stack = self.stack_bytes(problem)
        if stack > STACK:
            broken.append(
                Violation("block", f"a thread needs {stack} bytes of stack; {STACK} are sure")
            )
        return broken

    def tokens(self) -> list[str]:
        return [f"b{self.block}", f"g{self.tiles}"]

    def tile_extents(self) -> tuple[int, ...]:
        return (QUERIES, self.block)

    @classmethod
    def candidates(cls, problem: Attention, target: CpuTarget) -> Iterator[AmxAttention]:
        for block in (64, 128, 256):
            for tiles in (4, 8, 16):
                yield cls(block, tiles)
