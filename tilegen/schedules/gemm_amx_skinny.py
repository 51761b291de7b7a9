"""AmxSkinnyGemm: few rows by a matrix of weights on the tile registers of AMX, with the weights read in place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.gemm_amx import AmxGemm, word
from tilegen.schedules.gemm_packed import WORKSPACE_BYTES
from tilegen.schedules.rules import no_rows, tile_rank
from tilegen.targets import CpuTarget
from tilegen.values import Tile

# Words of A along K that a thread holds: of 32 rows half a MiB.
DEPTH = 4096


@dataclass(frozen=True)
class AmxSkinnyGemm(Schedule):
    """Few rows on AMX: the transposed product, in which rows of B are what tile registers load as they lie.

    The other side of an instruction wants its words interleaved; that is A, of which there is little. So
    weights are read once, where they lie, and nothing of them is packed. K must be contiguous in both.
    Any number of rows is computed right; up to about 64 this is faster than packing.
    """

    tile: Tile = option(
        Tile((32, 128, 8192)),
        "Rows and depth of A that a thread holds, and columns of a strip, whose sums wait in L1.",
        kind=Tile,
        unit="M x N x K elements",
    )
    ahead: int = option(
        8, "Steps of K, a line of each row, by which B is fetched before its use.", kind=int
    )

    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "amx_skinny"

    @classmethod
    def accepts(cls, problem: Gemm, target: CpuTarget) -> Violation | None:
        refused = AmxGemm.accepts(problem, target)
        if refused is not None:
            return Violation(refused.field, refused.message.replace(" amx ", " amx_skinny ", 1))
        if str(problem.layout) != "tn":
            message = (
                f"the amx_skinny schedule reads A and B along K, layout tn, not {problem.layout}"
            )
            return Violation("layout", message)
        return no_rows(cls.name, problem)

    @classmethod
    def default(cls, problem: Gemm, target: CpuTarget) -> AmxSkinnyGemm:
        """Two tile registers of rows, 4096 words of K: half a MiB of A."""
        return cls(Tile((32, 128, DEPTH * word(problem))))

    def workspace_bytes(self, problem: Gemm) -> int:
        """Most bytes of a thread's memory: packed rows of A and the sums of a strip."""
        rows, cols, depth = self.tile
        return rows * (depth * problem.dtype.bytes + 4 * cols)

    def violations(self, problem: Gemm, target: CpuTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3)
        if broken:
            return broken
        if self.tile[0] != 32:
            message = (
                f"tile {self.tile}: M {self.tile[0]} must be 32, the rows of two tile registers"
            )
            broken.append(Violation("tile", message))
        for axis, unit in ((1, 32), (2, 16 * word(problem))):
            if self.tile[axis] % unit:
                message = (
                    f"tile {self.tile}: {'MNK'[axis]} {self.tile[axis]} is no multiple of {unit}, "
                    f"which tile registers hold"
                )
                broken.append(Violation("tile", message))
        if not 0 <= self.ahead <= 64:
            broken.append(Violation("ahead", f"ahead {self.ahead} must be 0 to 64"))
        if self.workspace_bytes(problem) > WORKSPACE_BYTES:
            message = (
                f"tile {self.tile} needs {self.workspace_bytes(problem)} bytes of memory a thread; "
                f"{WORKSPACE_BYTES} are allowed"
            )
            broken.append(Violation("tile", message))
        return broken

    def tokens(self) -> list[str]:
        return ["skinny", str(self.tile), *([] if self.ahead == 8 else [f"p{self.ahead}"])]

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Gemm, target: CpuTarget) -> Iterator[AmxSkinnyGemm]:
        for cols, depth, ahead in itertools.product((64, 128, 256), (2048, 4096), (0, 4, 8, 16)):
            yield cls(Tile((32, cols, depth * word(problem))), ahead)
