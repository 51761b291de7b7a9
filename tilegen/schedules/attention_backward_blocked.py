"""BlockedAttentionBackward: gradients of attention in C with OpenMP, a tile in the lanes of vector registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.attention_backward import AttentionBackward
from tilegen.schedules.attention_blocked import STACK
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CpuTarget
from tilegen.values import F32, Tile


@dataclass(frozen=True)
class BlockedAttentionBackward(Schedule):
    """A thread takes a tile of keys past all queries for dk and dv, or one of queries past keys for dq."""

    micro: Tile = option(
        Tile((8, 3)),
        "Rows that a micro kernel multiplies at once, and vector registers of the tile.",
        kind=Tile,
        unit="rows x registers",
    )
    block: int = option(
        32, "Rows of a block; their weights stay in the first cache.", kind=int, unit="rows"
    )

    operator: ClassVar[str] = "attention_backward"
    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "blocked"

    @classmethod
    def accepts(cls, problem: AttentionBackward, target: CpuTarget) -> Violation | None:
        return None

    @classmethod
    def default(cls, problem: AttentionBackward, target: CpuTarget) -> BlockedAttentionBackward:
        return cls() if target.vector_registers >= 32 else cls(Tile((4, 3)))

    def lanes(self, target: CpuTarget) -> int:
        """Floats of a vector register."""
        return target.vector_bytes // 4

    def stack_bytes(self, problem: AttentionBackward, target: CpuTarget) -> int:
        """Memory of a thread in bytes: the tile and its sums, weights, and converted rows."""
        columns = self.lanes(target) * self.micro[1]
        total = 4 * columns * (2 * (problem.head_dim + problem.value_dim) + 2 * self.block + 2)
        if problem.dtype is not F32:
            total += 4 * self.block * (problem.head_dim + problem.value_dim)
        return total

    def violations(self, problem: AttentionBackward, target: CpuTarget) -> list[Violation]:
        broken = tile_rank("micro", self.micro, 2)
        if broken:
            return broken
        rows, vectors = self.micro
        registers = rows * vectors + vectors + 1
        if registers > target.vector_registers:
            broken.append(
                Violation(
                    "micro",
                    f"micro {self.micro} needs {registers} vector registers; {target} has "
                    f"{target.vector_registers}",
                )
            )
        if problem.head_dim % rows or problem.value_dim % rows or self.block % rows:
            broken.append(
                Violation(
                    "micro",
                    f"{rows} rows do not divide head dims {problem.head_dim} and {problem.value_dim} and a "
                    f"block of {self.block}",
                )
            )
        if not 1 <= self.block <= 512:
            broken.append(Violation("block", f"a block has 1 to 512 rows, not {self.block}"))
        stack = self.stack_bytes(problem, target)
        if stack > STACK:
            broken.append(
                Violation("block", f"a thread needs {stack} bytes of stack; {STACK} are sure")
            )
        return broken

    def tokens(self) -> list[str]:
        return [f"b{self.block}", f"m{self.micro}"]

    def tile_extents(self) -> tuple[int, ...]:
        # Verification probes the edges of the widest tile, which narrower targets divide.
        return (48, self.block)

    @classmethod
    def candidates(
        cls, problem: AttentionBackward, target: CpuTarget
    ) -> Iterator[BlockedAttentionBackward]:
        for micro in ((8, 3), (4, 3), (4, 4), (8, 2), (4, 2), (2, 2)):
            for block in (32, 64, 16):
                yield cls(Tile(micro), block)
