"""SkinnyGemm: a GEMM of few rows in C with OpenMP, which reads B once and packs nothing of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule, Violation
from tilegen.schedules.gemm_packed import MULTIPLIED, WORKSPACE_BYTES, is_vector, lanes_of
from tilegen.schedules.rules import no_rows, tile_rank
from tilegen.targets import CpuTarget
from tilegen.values import I8, Tile

MICRO_ROWS = 16
MICRO_COLUMNS = 256


@dataclass(frozen=True)
class SkinnyGemm(Schedule):
    """Few rows by a matrix of weights: the time goes into reading the weights, which happens once.

    With K contiguous in B (layouts tn, nn) rows of A and of B are multiplied along K; with N contiguous
    (tt, nt) a few rows of B at a time pass through a wide strip of columns. Any number of rows is
    computed right; up to about 16 this is faster than packing, as measured.
    """

    tile: Tile = option(
        Tile((48, 252, 1024)),
        "Rows and depth of A that a thread holds, and columns of a strip, whose sums wait in L2.",
        kind=Tile,
        unit="M x N x K elements",
    )
    micro: Tile = option(
        Tile((8, 3)),
        "Micro tile of sums in registers: vectors along K (tn, nn), or elements (tt, nt).",
        kind=Tile,
        unit="M x N elements",
    )

    operator: ClassVar[str] = "gemm"
    backend: ClassVar[str] = "c_openmp"
    name: ClassVar[str] = "skinny"

    @classmethod
    def accepts(cls, problem: Gemm, target: CpuTarget) -> Violation | None:
        if problem.dtype not in MULTIPLIED or problem.dtype is I8:
            known = ", ".join(t.name for t in MULTIPLIED if t is not I8)
            return Violation(
                "dtype", f"the skinny schedule multiplies {known}, not {problem.dtype}"
            )
        if not is_vector(target):
            return Violation("target", f"the skinny schedule needs vectors, which {target} lacks")
        return no_rows(cls.name, problem)

    @classmethod
    def default(cls, problem: Gemm, target: CpuTarget) -> SkinnyGemm:
        """The largest micro tile that fits the registers; strips of 2048 columns where N is contiguous."""
        many = target.vector_registers >= 32
        if problem.layout.b == "n":
            # gcc for aarch64 spills the sums of 8 x 3 when elements are converted on the way.
            rows = (6 if target.machine == "aarch64" else 8) if many else 4
            return cls(micro=Tile((rows, 3)))
        lanes = lanes_of(problem, target)
        micro = Tile((6, 4 * lanes)) if many else Tile((6, 2 * lanes))
        return cls(Tile((48, 2048, 1024)), micro)

    def registers(self, problem: Gemm, target: CpuTarget) -> int:
        """Vector registers of the micro kernel: sums, B, and one of A."""
        vectors = self._vectors(problem, target)
        return self.micro[0] * vectors + vectors + 1

    def _vectors(self, problem: Gemm, target: CpuTarget) -> int:
        lanes = 1 if problem.layout.b == "n" else lanes_of(problem, target)
        return self.micro[1] // lanes

    def workspace_bytes(self, problem: Gemm) -> int:
        """Most bytes of a thread's memory: packed rows of A and the sums of a strip."""
        rows, cols, depth = self.tile
        return MULTIPLIED[problem.dtype].bytes * rows * (cols + depth)

    def violations(self, problem: Gemm, target: CpuTarget) -> list[Violation]:
        broken = tile_rank("tile", self.tile, 3) + tile_rank("micro", self.micro, 2)
        if broken:
            return broken
        rows, width = self.micro
        lanes = lanes_of(problem, target)
        if problem.layout.b == "t" and width % lanes:
            message = f"micro {self.micro}: {width} columns are no multiple of {lanes}, a vector of {target}"
            return [Violation("micro", message)]
        if rows > MICRO_ROWS or width > MICRO_COLUMNS:
            message = (
                f"micro {self.micro}: {MICRO_ROWS} rows and {MICRO_COLUMNS} columns are allowed"
            )
            broken.append(Violation("micro", message))
        elif self.registers(problem, target) > target.vector_registers:
            vectors = self._vectors(problem, target)
            broken.append(
                Violation(
                    "micro",
                    f"micro {self.micro} needs {self.registers(problem, target)} vector registers ({rows} x "
                    f"{vectors} sums, {vectors} of B, 1 of A); {target} has {target.vector_registers}",
                )
            )
        for axis, unit in ((0, rows), (1, width)):
            if self.tile[axis] % unit:
                broken.append(
                    Violation(
                        "tile",
                        f"tile {self.tile}: {'MN'[axis]} {self.tile[axis]} is no multiple of the micro "
                        f"tile's {unit}",
                    )
                )
        if self.tile[2] % lanes:
            message = f"tile {self.tile}: K {self.tile[2]} is no multiple of {lanes}, a vector of {target}"
            broken.append(Violation("tile", message))
        if self.workspace_bytes(problem) > WORKSPACE_BYTES:
            broken.append(
                Violation(
                    "tile",
                    f"tile {self.tile} needs {self.workspace_bytes(problem)} bytes of memory a thread; "
                    f"{WORKSPACE_BYTES} are allowed",
                )
            )
        return broken

    def tokens(self) -> list[str]:
        return ["skinny", str(self.tile), f"r{self.micro}"]

    def tile_extents(self) -> tuple[int, ...]:
        return self.tile.extents

    @classmethod
    def candidates(cls, problem: Gemm, target: CpuTarget) -> Iterator[SkinnyGemm]:
        lanes = 1 if problem.layout.b == "n" else lanes_of(problem, target)
        micros = [(rows, lanes * unit) for rows in (2, 4, 6, 8) for unit in (1, 2, 3, 4)]
        for (rows, width), cols, depth in itertools.product(micros, (256, 2048), (512, 1024, 2048)):
            yield cls(Tile((48, cols // width * width, depth)), Tile((rows, width)))
