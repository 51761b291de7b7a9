"""PrepackedGemm: GEMMs in C by weights that a function of the kernel's own has packed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilegen.fields import option
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Violation
from tilegen.schedules.gemm_amx import AmxGemm
from tilegen.schedules.gemm_packed import PackedGemm
from tilegen.schedules.gemm_vnni import VnniGemm
from tilegen.targets import CpuTarget
from tilegen.values import Tile


@dataclass(frozen=True)
class PrepackedGemm(PackedGemm):
    """PackedGemm, VnniGemm or AmxGemm for constant weights: B is packed once, ahead of the calls.

    Beside the kernel stand `_packed_bytes(n, k)` and `_pack(...)`. Packed weights hold f32 for f32, f16
    and bf16 (bf16 on AMX), and lie in slivers of the micro tile's columns with K outermost, so that a
    kernel with another micro tile cannot read them.
    """

    tile: Tile = option(
        Tile((2400, 256, 512)),
        "Cache block: N x K of packed B stay in L2 while M rows of A pass by.",
        kind=Tile,
        unit="M x N x K elements",
    )

    name: ClassVar[str] = "prepacked"
    by_name_only: ClassVar[bool] = True

    @classmethod
    def accepts(cls, problem: Gemm, target: CpuTarget) -> Violation | None:
        if problem.batched:
            return Violation("batched", "the prepacked schedule packs one matrix of weights")
        return PackedGemm.accepts(problem, target)

    @classmethod
    def default(cls, problem: Gemm, target: CpuTarget) -> PrepackedGemm:
        """The default of the schedule that would pack the weights itself."""
        like = _kind(problem, target).default(problem, target)
        return cls(like.tile, like.micro, like.unroll)

    def unpacked(self, problem: Gemm, target: CpuTarget) -> PackedGemm:
        """The schedule with these numbers that packs the weights in every call."""
        return _kind(problem, target)(self.tile, self.micro, self.unroll)

    def violations(self, problem: Gemm, target: CpuTarget) -> list[Violation]:
        return self.unpacked(problem, target).violations(problem, target)

    def registers(self, problem: Gemm, target: CpuTarget) -> int:
        return self.unpacked(problem, target).registers(problem, target)

    def tokens(self) -> list[str]:
        return ["prepacked", *super().tokens()]

    @classmethod
    def candidates(cls, problem: Gemm, target: CpuTarget) -> Iterator[PrepackedGemm]:
        for like in _kind(problem, target).candidates(problem, target):
            yield cls(**{f.name: getattr(like, f.name) for f in dataclasses.fields(like)})


def _kind(problem: Gemm, target: CpuTarget) -> type[PackedGemm]:
    """The schedule whose micro kernel multiplies the packed weights."""
    kinds = (AmxGemm, VnniGemm, PackedGemm)
    return next(kind for kind in kinds if kind.accepts(problem, target) is None)
