"""The plan of DecodeAttention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.attention import (
    alignment_refusals,
    distance_refusals,
    element_names,
    head_refusals,
)
from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.problems.attention import Attention
from tilegen.schedules.attention_decode import (
    MMA_ROWS,
    MOST_SPLITS,
    SPAN,
    SWIZZLE_BYTES,
    DecodeAttention,
    in_boxes,
    value_slices,
)
from tilegen.schedules.attention_mma import PAD
from tilegen.targets import CudaTarget

# Threads that merge the splits of a row, at least; columns of one of them.
MERGE_THREADS = 128
MERGE_COLUMNS = 4


@dataclass(frozen=True)
class DecodeAttentionPlan(Plan):
    """Numbers of `templates/cuda/attention_decode.cu.j2`; sizes in elements unless the name says bytes."""

    head_dim: int
    value_dim: int
    slices: int  # blocks of threads that share a value
    slice_dim: int  # elements of it for each
    output_extent: str  # C name of the elements of a value
    column_of_output: str  # C text of where a column of a slice is in the output
    slice_factor: str
    boxes: int  # whether the copy engine moves blocks of keys and values, else cp.async
    blocks_part: str
    head_slices: int  # of 128 bytes, of a key
    value_slices: int  # and of the value that a block of threads reads
    first_slice: str  # C text of the first of these
    box_rows: str  # C text of the extents that a box moves along: keys, and what heads lie in
    box_outer: str
    alignment: int  # of shared memory, bytes
    map_type: str
    rows: int
    mma_tiles: int
    block_n: int
    stages: int
    warps: int
    threads: int
    blocks: int
    most_splits: int
    pitch: int
    value_pitch: int
    merge_groups: int
    merge_threads: int
    blocks_per_processor: int
    overlaps: int  # whether a kernel may start while the one before it ends
    q_bytes: int
    block_bytes: int
    element: str
    element_pair: str
    pack_function: str
    mma_types: str

    template: ClassVar[str] = "cuda/attention_decode.cu.j2"
    uses_workspace: ClassVar[bool] = True
    unit: ClassVar[int] = 8  # elements in the 16 bytes that cp.async moves

    @classmethod
    def make(
        cls, problem: Attention, schedule: DecodeAttention, target: CudaTarget
    ) -> DecodeAttentionPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        shared = schedule.shared_bytes(problem, target)
        boxes = in_boxes(problem, target)
        resident = target.shared_sm // (sum(shared.values()) + target.shared_reserved)
        # Registers: so many blocks that a thread keeps what it needs.
        fits = target.registers_sm // (32 * schedule.warps * schedule.registers(problem))
        kind = problem.dtype.name
        slices = value_slices(problem.value_dim)
        groups = max(1, -(-MERGE_THREADS // (problem.value_dim // MERGE_COLUMNS)))
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            head_dim=problem.head_dim,
            value_dim=problem.value_dim,
            slices=slices,
            slice_dim=problem.value_dim // slices,
            output_extent="kOutputDim" if slices > 1 else "kValueDim",
            column_of_output="tile.first_column + column" if slices > 1 else "column",
            slice_factor=" * kSlices" if slices > 1 else "",
            boxes=int(boxes),
            blocks_part=f"cuda/parts/attention_decode_{'boxes' if boxes else 'copies'}.cuh.j2",
            head_slices=problem.head_dim // SPAN,
            value_slices=problem.value_dim // slices // SPAN,
            first_slice="tile.first_column / kSpan" if slices > 1 else "0",
            box_rows="kPage" if problem.page else "seq_k",
            box_outer="pages" if problem.page else "batch",
            alignment=SWIZZLE_BYTES if boxes else 16,
            map_type="FLOAT16" if kind == "f16" else "BFLOAT16",
            rows=schedule.rows,
            mma_tiles=schedule.rows // MMA_ROWS,
            block_n=schedule.block,
            stages=schedule.stages,
            warps=schedule.warps,
            threads=32 * schedule.warps,
            blocks=schedule.blocks,
            most_splits=MOST_SPLITS,
            pitch=problem.head_dim + PAD,
            value_pitch=problem.value_dim // slices + PAD,
            merge_groups=groups,
            merge_threads=groups * problem.value_dim // MERGE_COLUMNS,
            blocks_per_processor=max(1, min(resident, fits, 4)),
            overlaps=int("tma" in target.features),
            q_bytes=shared["q"],
            block_bytes=shared["blocks"],
            mma_types=f"f32.{kind}.{kind}.f32",
            **element_names(problem),
        )

    def parts(self) -> tuple[str, ...]:
        return (self.blocks_part,)

    @property
    def shared_bytes(self) -> int:
        return self.q_bytes + self.block_bytes

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return (
            head_refusals(self.problem)
            + alignment_refusals(
                self.problem, "the copy engine moves" if self.boxes else "cp.async moves"
            )
            + distance_refusals(self.problem)
        )

    @property
    def requirements(self) -> tuple[str, ...]:
        return ("workspace starts on 16 bytes.",)

    def facts(self) -> list[Fact]:
        target, schedule = self.target, self.schedule
        in_flight = schedule.warps * (schedule.stages - 1) * schedule.block
        row = (self.problem.head_dim + self.slice_dim) * self.problem.dtype.bytes
        return [
            Fact("rows", str(self.rows), "queries of all heads that share keys, in one tile"),
            Fact(
                "threads",
                str(self.threads),
                f"{self.warps} warps; {target} allows 1024 in a block",
            ),
            Fact(
                "shared memory",
                f"{self.shared_bytes} bytes",
                f"{target} allows {target.shared_block} in a block",
            ),
            Fact("registers", f"about {schedule.registers(self.problem)}", "a thread"),
            Fact(
                "in flight",
                f"{in_flight * row} bytes",
                f"{in_flight} keys with their values a block of threads, while others are in work",
            ),
            Fact(
                "splits",
                f"up to {MOST_SPLITS}",
                f"of a head's keys, towards {schedule.blocks} thread blocks in all",
            ),
            Fact("slices", str(self.slices), f"of {self.slice_dim} columns of a value"),
        ]
