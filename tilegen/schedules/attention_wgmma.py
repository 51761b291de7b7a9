"""WgmmaAttention: attention on Hopper's warpgroup products, loads by the copy engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen import formula as fl
from tilegen.fields import option
from tilegen.problems.attention import Attention
from tilegen.problems.attention_score import CappedScore, short_score
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import BF16, F16, Tile

WARPGROUP_M = 64
SPAN = 64
# Registers a thread that setmaxnreg gives, by number of consumers: producer, consumer. A thread starts with
# 255, 168 or 128 of them, which the producer may not be above nor a consumer below.
REGISTERS = {1: (56, 256), 2: (24, 240), 3: (32, 160)}
# Shared memory of a block in bytes on sm_90.
SHARED = 232448
# Registers of addresses, row statistics and the loop, beside the operands (measured with ptxas 13.0).
OVERHEAD = 44


def formula_registers(problem: Attention) -> int:
    """Registers beside the rest that formulas take: loads of operands by key run ahead of their use."""
    if isinstance(short_score(problem), CappedScore) and not problem.mask:
        return 0  # one instruction more, in place
    names = [f.typed.formula.operands for f in problem.formulas]
    by_key = sum("j" in indices for operands in names for indices in operands.values())
    statements = [s for f in problem.formulas for s in f.typed.statements]
    calls = any(isinstance(n, fl.Call) for s in statements for n in fl.walk(s.value))
    return 4 * len(problem.formulas) + 48 * by_key + 16 * calls


@dataclass(frozen=True)
class WgmmaAttention(Schedule):
    """A persistent producer and ping-pong consumers; queries and weights are operands in registers."""

    tile: Tile = option(
        Tile((128, 128)),
        "Queries of a tile and keys of a block; 64 queries a consumer.",
        kind=Tile,
        unit="M x N elements",
    )
    stages: int = option(
        2, "Blocks of keys, and of values, in flight in shared memory.", kind=int, unit="blocks"
    )
    query_stages: int = option(
        0,
        "Tiles of queries in shared memory that products read there; 0: queries are taken into registers.",
        kind=int,
        unit="tiles",
    )
    head_group: int = option(
        16,
        "Most heads whose tiles run together; fewer where their keys and values would not stay in L2.",
        kind=int,
        unit="heads",
    )

    operator: ClassVar[str] = "attention"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "wgmma"

    @classmethod
    def accepts(cls, problem: Attention, target: CudaTarget) -> Violation | None:
        if "wgmma" not in target.features:
            return Violation("target", f"wgmma needs sm_90a, not {target}")
        if problem.dtype not in (F16, BF16):
            return Violation("dtype", f"the wgmma schedule takes f16 and bf16, not {problem.dtype}")
        if problem.page:
            return Violation(
                "page",
                "the wgmma schedule copies blocks of keys in one piece, which pages cut: mma and decode take pages",
            )
        for name in ("head_dim", "value_dim"):
            extent = getattr(problem, name)
            if extent % 16 or extent > 256:
                return Violation(
                    name,
                    f"{name} {extent} is no multiple of 16 up to 256, what its registers hold; "
                    "decode shares wider values among blocks of threads, 576/512 for one",
                )
        least = cls(Tile((128, 16)), query_stages=1)
        if least.registers(problem) > REGISTERS[2][1]:
            return Violation(
                "head_dim",
                f"head dims {problem.head_dim} and {problem.value_dim} need {least.registers(problem)} "
                f"registers a thread even with blocks of 16 keys; a consumer has {REGISTERS[2][1]}",
            )
        return None

    @classmethod
    def default(cls, problem: Attention, target: CudaTarget) -> WgmmaAttention:
        # Narrow heads leave registers for longer blocks, which pay where no mask cuts them.
        most = 176 if problem.value_dim <= 64 and not (problem.causal or problem.mask) else 128
        for query_stages in (0, 1):
            least = 96 if query_stages == 0 else 16
            for keys in range(most, least - 16, -16):
                found = cls(Tile((128, keys)), query_stages=query_stages)
                if not found.violations(problem, target):
                    return found
        return cls(Tile((128, 16)), query_stages=1)

    @property
    def consumers(self) -> int:
        """Consumer warpgroups."""
        return self.tile[0] // WARPGROUP_M

    def registers(self, problem: Attention) -> int:
        """Registers of a consumer thread: scores, weights, output, queries, and the rest."""
        keys = self.tile[1]
        operands = keys // 2 + keys // 4 + problem.value_dim // 2
        if not self.query_stages:
            operands += problem.head_dim // 4
        return operands + OVERHEAD + formula_registers(problem)

    def shared_bytes(self, problem: Attention) -> dict[str, int]:
        """Shared memory of a block in bytes, by what it holds; heads fill whole rows of 128 bytes.

        Outputs that do not fit beside the rest pass through room for one slice of 64 columns.
        """
        m, n = self.tile
        row, value_row = (
            -(-extent // SPAN) * SPAN * 2 for extent in (problem.head_dim, problem.value_dim)
        )
        queries = max(1, self.query_stages)
        needed = {
            "q": queries * m * row,
            "k": self.stages * n * row,
            "v": self.stages * n * value_row,
            "o": m * value_row,
            "barriers": queries * 48 + self.stages * 32,
        }
        if sum(needed.values()) > SHARED:
            needed["o"] = m * SPAN * 2
        return needed

    def violations(self, problem: Attention, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 2)
        if broken:
            return broken
        m, n = self.tile
        if m % WARPGROUP_M or self.consumers not in REGISTERS:
            broken.append(
                Violation("tile", f"{m} queries: 64, 128 or 192 are 1 to 3 consumers of 64")
            )
            return broken
        if n % 16 or n > 256:
            broken.append(
                Violation(
                    "tile", f"{n} keys in a block: wgmma takes multiples of 16 up to 256 here"
                )
            )
        if self.stages < 2:
            broken.append(
                Violation(
                    "stages", f"{self.stages} stage: the next block's keys need one of their own"
                )
            )
        if not 0 <= self.query_stages <= 2:
            broken.append(
                Violation(
                    "query_stages",
                    f"{self.query_stages} tiles of queries: 0 for registers, or 1 or 2 in shared memory",
                )
            )
        if self.head_group < 1:
            broken.append(
                Violation("head_group", f"head_group {self.head_group} must be at least 1")
            )
        needed, allowed = self.registers(problem), REGISTERS[self.consumers][1]
        if needed > allowed:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} with head dims {problem.head_dim} and {problem.value_dim} needs "
                    f"about {needed} registers a thread; {self.consumers} consumers have {allowed}",
                )
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
        if self.query_stages:
            words.append(f"q{self.query_stages}")
        if self.head_group != 16:
            words.append(f"g{self.head_group}")
        return words

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Attention, target: CudaTarget) -> Iterator[WgmmaAttention]:
        for m in (128, 192, 64):
            for n in (128, 64, 96, 80, 112, 144, 160, 176, 192, 32, 48):
                for stages, query_stages in ((2, 0), (3, 0), (2, 1), (2, 2)):
                    for group in (16, 8, 32):
                        yield cls(Tile((m, n)), stages, query_stages, group)
