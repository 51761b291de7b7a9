"""The plan of WgmmaGroupedGemm: that of a plain product, and where the groups come in."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Refusal
from tilegen.plans.gemm import gemm_facts
from tilegen.plans.gemm_wgmma import WgmmaGemmPlan
from tilegen.problems.grouped_gemm import GroupedGemm
from tilegen.schedules.gemm_wgmma_grouped import WgmmaGroupedGemm
from tilegen.targets import CudaTarget


@dataclass(frozen=True)
class WgmmaGroupedGemmPlan(WgmmaGemmPlan):
    """Numbers and names of `templates/cuda/gemm_wgmma_grouped.cu.j2`; sizes in elements unless they say bytes."""

    template: ClassVar[str] = "cuda/gemm_wgmma_grouped.cu.j2"

    # What only tiles of a cluster, the walk of a plain product, or its copies of operands use.
    hidden: ClassVar[frozenset[str]] = WgmmaGemmPlan.hidden | {
        "cluster_dims",
        "ahead",
        "cluster_lies",
        "cluster_m",
        "cluster_n",
        "columns_of_cluster",
        "prefetch_b",
        "consume_part",
        "gated",
        "scaled",
        "repacked_extent",
        "rows_of_cluster",
        "tile_m",
        "resident_factor",
        "tile_n",
        "x_index",
        "y_index",
    }

    @classmethod
    def make(
        cls, problem: GroupedGemm, schedule: WgmmaGroupedGemm, target: CudaTarget
    ) -> WgmmaGroupedGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        plain = WgmmaGemmPlan.make(problem.one, schedule.like, target)
        values = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
        # Rows of a group begin anywhere: the copy engine moves boxes of three dimensions.
        values |= {"problem": problem, "schedule": schedule, "rank": 3, "repacks": ()}
        values |= {"group_m": 0, "blocks": 0}
        batch = {"tma_load": "tma_load_batch"}
        values["tma_primitives"] = tuple(batch.get(n, n) for n in plain.tma_primitives)
        return cls(**values)

    @property
    def uses_workspace(self) -> bool:
        """Whether parts of rows meet in memory; operands are not copied."""
        return bool(self.reduces)

    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in super().parts() if part != self.consume_part)

    @property
    def unit(self) -> int:
        """Elements in the 16 bytes that the copy engine aligns to."""
        return 16 // self.problem.storage.bytes

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        largest = 2**31 - 1024
        sizes = " || ".join(f"{s.name} > {largest}" for s in self.problem.sizes())
        checks = []
        for t in self.problem.tensors()[:2]:
            checks.append(f"reinterpret_cast<uintptr_t>({t.name}) % 16 != 0")
            checks += [
                f"({d} > 1 && {s} % {16 // t.dtype.bytes} != 0)" for d, s in zip(t.dims, t.strides)
            ]
        reason = "a, b: an address or a stride that is no multiple of 16 bytes, as TMA needs"
        return (
            Refusal(
                4, sizes, f"a size is above {largest}, the reach of the copy engine's coordinates"
            ),
            Refusal(5, " || ".join(checks), reason),
            Refusal(6, "groups == 0 && m > 0", "rows, but no group that they belong to"),
        )

    def facts(self) -> list[Fact]:
        shared = self.schedule.like.shared_bytes(self.problem.one, self.buffers)
        return gemm_facts(self, self.threads, shared, self.entry_registers)
