"""BlockedAttention: attention in C with OpenMP, queries in the lanes of vector registers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention import Attention
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank, whole_pages
from tilegen.targets import CpuTarget
from tilegen.values import Tile

# Stack that a thread surely has.
STACK = 1 << 20


@dataclass(frozen=True)
class BlockedAttention(Schedule):
    """A thread takes a tile of queries past blocks of keys and values that are read in place."""

    micro: Tile = option(
        Tile((8, 3)),
        "Keys that a micro kernel multiplies at once, and vector registers of queries.",
        kind=Tile,
        unit="rows x registers",
    )
    block: int = option(
        64, "Keys of a block; their weights stay in the first cache.", kind=int, unit="keys"
    )
    tiles: int = option(
        4,
        "Tiles of queries that pass a block together; more gather keys less often, fewer make more tasks.",
        kind=int,
        unit="tiles",
    )

    operator: ClassVar[str] = "attention"
    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "blocked"

    @classmethod
    def accepts(cls, problem: Attention, target: CpuTarget) -> Violation | None:
        return None

    @classmethod
    def default(cls, problem: Attention, target: CpuTarget) -> BlockedAttention:
        micro = Tile((8, 3)) if target.vector_registers >= 32 else Tile((4, 3))
        # The longest block up to 64 keys that divides a page.
        block = math.gcd(64, problem.page) if problem.page else 64
        # As many tiles, up to 4, as a stack has room for.
        fits = (n for n in (4, 3, 2) if cls(micro, block, n).stack_bytes(problem, target) <= STACK)
        return cls(micro, block, next(fits, 1))

    def lanes(self, target: CpuTarget) -> int:
        """Floats of a vector register."""
        return target.vector_bytes // 4

    def stack_bytes(self, problem: Attention, target: CpuTarget) -> int:
        """Memory of a thread in bytes: queries and outputs of its tiles, a block and its scores."""
        queries = self.lanes(target) * self.micro[1]
        dims = problem.head_dim + problem.value_dim
        return 4 * (self.tiles * queries * (dims + 2) + self.block * (dims + queries))

    def registers(self) -> int:
        """Vector registers of a micro kernel: sums, one row of queries, a broadcast."""
        rows, vectors = self.micro
        return rows * vectors + vectors + 1

    def violations(self, problem: Attention, target: CpuTarget) -> list[Violation]:
        broken = tile_rank("micro", self.micro, 2)
        if broken:
            return broken
        rows, vectors = self.micro
        if self.registers() > target.vector_registers:
            broken.append(
                Violation(
                    "micro",
                    f"micro {self.micro} needs {self.registers()} vector registers; {target} has "
                    f"{target.vector_registers}",
                )
            )
        if problem.value_dim % rows or self.block % rows:
            broken.append(
                Violation(
                    "micro",
                    f"{rows} rows divide neither value_dim {problem.value_dim} nor a block of "
                    f"{self.block} keys without rest",
                )
            )
        if not 1 <= self.block <= 512:
            broken.append(Violation("block", f"a block has 1 to 512 keys, not {self.block}"))
        if not 1 <= self.tiles <= 64:
            broken.append(Violation("tiles", f"1 to 64 tiles go together, not {self.tiles}"))
        broken += whole_pages("block", max(1, self.block), problem.page)
        stack = self.stack_bytes(problem, target)
        if stack > STACK:
            broken.append(
                Violation("block", f"a thread needs {stack} bytes of stack; {STACK} are sure")
            )
        return broken

    def tokens(self) -> list[str]:
        words = [f"b{self.block}", f"m{self.micro}"]
        return words + ([f"g{self.tiles}"] if self.tiles != 4 else [])

    def tile_extents(self) -> tuple[int, ...]:
        # Verification probes the edges of the widest tile, which narrower targets divide.
        return (48, self.block)

    @classmethod
    def candidates(cls, problem: Attention, target: CpuTarget) -> Iterator[BlockedAttention]:
        for micro in ((8, 3), (4, 4), (4, 6), (4, 3), (8, 2), (4, 2)):
            for block, tiles in ((64, 4), (128, 4), (32, 4), (64, 2), (64, 8), (64, 1)):
                yield cls(Tile(micro), block, tiles)
