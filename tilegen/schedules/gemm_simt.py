"""SimtGemm: a GEMM on the ordinary arithmetic units of any GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.rules import no_rows, tile_rank
from tilegen.targets import CudaTarget
from tilegen.values import F32, F64, Tile

QUAD = 4


@dataclass(frozen=True)
class SimtGemm(Schedule):
    """A block computes a tile out of two slices of shared memory; a thread a square in registers."""

    tile: Tile = option(
        Tile((128, 128, 16)),
        "Block of the result and depth of a slice; larger reuses more and fills fewer processors.",
        kind=Tile,
        unit="M x N x K elements",
    )
    thread_tile: Tile = option(
        Tile((8, 8)),
        "Square of the tile that a thread keeps in registers; larger reads shared memory less.",
        kind=Tile,
        unit="M x N elements",
    )
    group: int = option(
        8, "Rows of tiles that run together, so that they share B in L2.", kind=int, unit="tiles"
    )

    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "cuda"
    name: ClassVar[str] = "simt"

    @classmethod
    def accepts(cls, problem: Gemm, target: CudaTarget) -> Violation | None:
        if problem.dtype not in (F32, F64):
            return Violation(
                "dtype", f"the simt schedule multiplies f32 and f64, not {problem.dtype}"
            )
        return no_rows(cls.name, problem)

    @classmethod
    def default(cls, problem: Gemm, target: CudaTarget) -> SimtGemm:
        if problem.dtype is F64:
            return cls(Tile((64, 64, 16)), Tile((4, 4)))
        return cls()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.tile[0] // self.thread_tile[0]) * (self.tile[1] // self.thread_tile[1])

    def shared_bytes(self, element: int) -> int:
        """Shared memory of a block in bytes: two slices of A and of B, rows padded by 16 bytes."""
        pad = 16 // element
        return 2 * self.tile[2] * (self.tile[0] + self.tile[1] + 2 * pad) * element

    def registers(self, element: int) -> int:
        """Estimate of a thread's registers: accumulators, fragments, addresses, and the next slice.

        Each element of the next slice takes four: itself, where it comes from, and whether it is inside.
        """
        tm, tn = self.thread_tile
        fetch = (self.tile[0] + self.tile[1]) * self.tile[2] // max(1, self.threads)
        return (tm * tn + tm + tn) * element // 4 + fetch * (element // 4 + 3) + 32

    def violations(self, problem: Gemm, target: CudaTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3) + tile_rank("thread_tile", self.thread_tile, 2)
        if broken:
            return broken
        element = problem.dtype.bytes
        for axis, (block, own) in enumerate(zip(self.tile, self.thread_tile)):
            if own % QUAD or block % own:
                broken.append(
                    Violation(
                        "thread_tile",
                        f"thread_tile {self.thread_tile} does not tile {self.tile}: {'MN'[axis]} needs a "
                        f"multiple of {QUAD} that divides {block}, not {own}",
                    )
                )
        if broken:
            return broken
        if not 32 <= self.threads <= target.threads_block or self.threads % target.warp:
            broken.append(
                Violation(
                    "thread_tile",
                    f"tile {self.tile} with thread_tile {self.thread_tile} needs {self.threads} threads; "
                    f"{target} runs 32 to {target.threads_block} in a block, in warps of 32",
                )
            )
            return broken
        wide = 16 // element
        if self.tile[2] % wide or self.tile[2] > 64:
            broken.append(
                Violation(
                    "tile",
                    f"depth {self.tile[2]} must be a multiple of {wide} ({problem.dtype} in 16 bytes), "
                    f"at most 64",
                )
            )
        for axis in (0, 1):
            chunks = self.tile[axis] * self.tile[2]
            if chunks % (self.threads * wide):
                broken.append(
                    Violation(
                        "tile",
                        f"{self.threads} threads cannot share a slice of {self.tile[axis]} x {self.tile[2]} "
                        f"elements in chunks of {wide}: {chunks} is no multiple of {self.threads * wide}",
                    )
                )
        shared = self.shared_bytes(element)
        if shared > target.shared_default:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {shared} bytes of static shared memory; a block may have "
                    f"{target.shared_default}",
                )
            )
        registers = self.registers(element)
        allowed = min(target.registers_thread, target.registers_sm // self.threads)
        if registers > allowed:
            broken.append(
                Violation(
                    "thread_tile",
                    f"thread_tile {self.thread_tile} needs about {registers} registers a thread; {target} "
                    f"gives {allowed} to each of {self.threads} threads",
                )
            )
        if self.group < 1:
            broken.append(Violation("group", f"group {self.group} must be at least 1"))
        return broken

    def tokens(self) -> list[str]:
        words = [str(self.tile)]
        if self.thread_tile != Tile((8, 8)):
            words.append(f"t{self.thread_tile}")
        if self.group != 8:
            words.append(f"g{self.group}")
        return words

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Gemm, target: CudaTarget) -> Iterator[SimtGemm]:
        blocks = [(32, 32), (64, 32), (64, 64), (128, 64), (64, 128), (128, 128), (128, 256)]
        squares = [(4, 4), (8, 4), (4, 8), (8, 8), (16, 8)]
        for (bm, bn), bk, own in itertools.product(blocks, (8, 16, 32), squares):
            yield cls(Tile((bm, bn, bk)), Tile(own))
