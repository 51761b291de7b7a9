"""The plan of PrepackedGemm."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Refusal
from tilegen.plans.gemm_amx import AmxGemmPlan
from tilegen.plans.gemm_packed import WIDE, PackedGemmPlan
from tilegen.plans.gemm_vnni import VnniGemmPlan
from tilegen.problems.base import Tensor
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_packed import MULTIPLIED
from tilegen.schedules.gemm_prepacked import PrepackedGemm
from tilegen.targets import CpuTarget
from tilegen.values import I32

# Rows of results that cost as much as bringing their columns of packed B from memory.
FETCH_ROWS = 8

_PLANS = {"packed": PackedGemmPlan, "vnni": VnniGemmPlan, "amx": AmxGemmPlan}


@dataclass(frozen=True)
class PrepackedGemmPlan(PackedGemmPlan):
    """Numbers of `templates/c_openmp/gemm_prepacked.c.j2`: those of the schedule that packs B itself."""

    like: PackedGemmPlan

    template: ClassVar[str] = "c_openmp/gemm_prepacked.c.j2"
    header: ClassVar[str] = "c_openmp/gemm_prepacked.h.j2"
    packs: ClassVar[str] = "b"
    hidden: ClassVar[frozenset[str]] = frozenset({"like", "panel_bytes"})

    @classmethod
    def make(cls, problem: Gemm, schedule: PrepackedGemm, target: CpuTarget) -> PrepackedGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        unpacked = schedule.unpacked(problem, target)
        like = _PLANS[unpacked.name].make(problem, unpacked, target)
        base = {f.name: getattr(like, f.name) for f in dataclasses.fields(like)}
        return cls(
            **base
            | {
                "schedule": schedule,
                "like": like,
                "prepacked": 1,
                "split": 0,
                "each_product": "",
                "plain": 0,
                "pack_rows": FETCH_ROWS,
                "fetch": int(like.micro_n >= WIDE and like.vectors > 0 and not like.in_words),
                "fetch_kind": "Factor",
                "fetch_rows": "block->next_depth",
                "fetch_row": "kMicroN",
                "fetch_stride": "kMicroN",
                "fetch_from": "call->packed_b + packed_place(call, n, k, block->next_depth)",
                "packed_span": "k" if problem.layout.b == "n" else "n",
                "call_arguments": ("m", "n", "a", "lda", "packed_b"),
            }
        )

    @property
    def includes(self) -> tuple[str, ...]:
        return self.like.includes

    @property
    def helpers(self) -> tuple[str, ...]:
        return self.like.helpers

    def tensors(self) -> tuple[Tensor, ...]:
        kind = I32 if self.in_words else MULTIPLIED[self.problem.dtype]
        doc = "what the function _pack below made of b, on a line of 64 bytes"
        packed = Tensor("packed_b", "input", kind, ("n", "k"), (), doc, packed=True)
        return tuple(packed if t.name == self.packs else t for t in self.problem.tensors())

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        reason = "packed_b does not start on a line of 64 bytes"
        return (*self.like.refusals, Refusal(6, "(uintptr_t)packed_b % kLine != 0", reason))

    def facts(self) -> list[Fact]:
        return [f for f in self.like.facts() if f.name != "memory of a thread"]
