"""VnniGemm: the packed GEMM of int8 in C, four products an instruction."""

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
from tilegen.values import I8, Tile

# Elements that one instruction multiplies and adds to a 32-bit sum.
WORD = 4


@dataclass(frozen=True)
class VnniGemm(PackedGemm):
    """PackedGemm for int8 on AVX-512 VNNI: K is walked in words of four elements, sums are exact int32.

    The instruction multiplies unsigned by signed bytes. So B is packed with 128 added, and the sum of
    a result starts from -128 times the sum of its row of A.
    """

    tile: Tile = option(
        Tile((2400, 256, 2048)),
        "Cache block: N x K of B are packed at a time and should fit L2; M rows share them.",
        kind=Tile,
        unit="M x N x K elements",
    )
    micro: Tile = option(
        Tile((6, 64)),
        "Micro tile of sums in registers; N is a multiple of a vector and divides the block's.",
        kind=Tile,
        unit="M x N elements",
    )

    name: ClassVar[str] = "vnni"

    @classmethod
    def accepts(cls, problem: Gemm, target: CpuTarget) -> Violation | None:
        if problem.dtype is not I8:
            message = f"the vnni schedule multiplies i8, not {problem.dtype}"
            return Violation("dtype", message)
        if "avx512vnni" not in target.features:
            return Violation("target", f"the vnni schedule needs avx512vnni, which {target} lacks")
        return None

    @classmethod
    def default(cls, problem: Gemm, target: CpuTarget) -> VnniGemm:
        """Half of L2 for the packed block of B, as PackedGemm, four elements a word."""
        return cls()

    def workspace_bytes(self, problem: Gemm) -> int:
        """Most bytes of a thread's workspace: the packed block of B and a block of sums."""
        block_m, block_n, block_k = self.tile
        return block_n * (block_k + 4 * block_m)

    def _block_violations(self, problem: Gemm) -> list[Violation]:
        broken = []
        if self.tile[0] < self.micro[0]:
            message = (
                f"tile {self.tile}: M {self.tile[0]} is below the micro tile's {self.micro[0]} rows"
            )
            broken.append(Violation("tile", message))
        if self.tile[2] % WORD:
            message = f"tile {self.tile}: K {self.tile[2]} is no multiple of {WORD}, the elements of a word"
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
        return ["vnni", *super().tokens()]

    @classmethod
    def candidates(cls, problem: Gemm, target: CpuTarget) -> Iterator[VnniGemm]:
        micros = [(rows, 16 * vectors) for rows in (4, 6, 8, 12) for vectors in (1, 2, 3, 4)]
        for (rows, width), depth, cols in itertools.product(
            micros, (1024, 1536, 2048), (192, 256, 384)
        ):
            yield cls(Tile((400 * rows, cols // width * width, depth)), Tile((rows, width)))
