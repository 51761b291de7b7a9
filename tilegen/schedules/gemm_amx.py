"""AmxGemm: the packed GEMM of bf16 and int8 in C, on the tile registers of AMX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Violation
from tilegen.schedules.gemm_packed import WORKSPACE_BYTES, PackedGemm
from tilegen.targets import CpuTarget
from tilegen.values import BF16, I8, Tile

# Rows of a tile register, and 32-bit words of each of its rows.
TILE = 16

# Two by two tile registers of sums; the other four hold what they are made of.
MICRO = Tile((2 * TILE, 2 * TILE))

# Words of K in a block of the default: a block of B fills half of a 2 MiB L2.
DEPTH = 512


def word(problem: Gemm) -> int:
    """Elements of a 32-bit word, which one instruction multiplies and adds to one sum."""
    return 4 // problem.dtype.bytes


@dataclass(frozen=True)
class AmxGemm(PackedGemm):
    """PackedGemm for bf16 and int8 on AMX: 16 x 16 sums, 16 words deep, an instruction.

    A is packed a micro tile of rows at a time. Sums are float32 (bf16; subnormal elements count as
    0) or exact int32 (int8). Linux has to permit a process the tile registers, which a kernel asks for.
    """

    tile: Tile = option(
        Tile((1024, 512, 1024)),
        "Cache block: N x K of B are packed at a time and should fit L2; M rows share them.",
        kind=Tile,
        unit="M x N x K elements",
    )
    micro: Tile = option(
        MICRO,
        "Micro tile of sums: two by two tile registers, the only one that there is.",
        kind=Tile,
        unit="M x N elements",
    )
    unroll: int = option(2, "Tile registers along K written out in the micro kernel.", kind=int)

    name: ClassVar[str] = "amx"

    @classmethod
    def accepts(cls, problem: Gemm, target: CpuTarget) -> Violation | None:
        if problem.dtype not in (BF16, I8):
            return Violation("dtype", f"the amx schedule multiplies bf16, i8, not {problem.dtype}")
        if "amx-tile" not in target.features:
            return Violation("target", f"the amx schedule needs amx-tile, which {target} lacks")
        return None

    @classmethod
    def default(cls, problem: Gemm, target: CpuTarget) -> AmxGemm:
        """512 columns and 512 words of K: half of a 2 MiB L2 for the packed block of B."""
        return cls(Tile((1024, 512, DEPTH * word(problem))))

    def workspace_bytes(self, problem: Gemm) -> int:
        """Most bytes of a thread's workspace: the packed block of B and a block of sums."""
        block_m, block_n, block_k = self.tile
        return block_n * (block_k * problem.dtype.bytes + 4 * block_m)

    def _micro_violations(self, problem: Gemm, target: CpuTarget) -> list[Violation]:
        broken = []
        if self.micro != MICRO:
            message = f"micro {self.micro}: tile registers of {target} hold {MICRO} sums"
            broken.append(Violation("micro", message))
        if not 1 <= self.unroll <= 16:
            broken.append(Violation("unroll", f"unroll {self.unroll} must be 1 to 16"))
        return broken

    def _block_violations(self, problem: Gemm) -> list[Violation]:
        broken = []
        units = (MICRO[0], MICRO[1], TILE * word(problem))
        for axis, extent, unit in zip("MNK", self.tile, units):
            if extent % unit:
                message = f"tile {self.tile}: {axis} {extent} is no multiple of {unit}, which tile registers hold"
                broken.append(Violation("tile", message))
        if self.workspace_bytes(problem) > WORKSPACE_BYTES:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {self.workspace_bytes(problem)} bytes of workspace a thread; "
                    f"{WORKSPACE_BYTES} are allowed",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        words = ["amx", str(self.tile)]
        if self.unroll != 2:
            words.append(f"u{self.unroll}")
        return words

    @classmethod
    def candidates(cls, problem: Gemm, target: CpuTarget) -> Iterator[AmxGemm]:
        size = word(problem)
        for rows, cols, depth in itertools.product((512, 1024), (256, 512), (256, 512, 1024)):
            yield cls(Tile((rows, cols, depth * size)))
