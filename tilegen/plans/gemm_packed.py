"""The plan of PackedGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.plans.gemm_packed_text import PARTS, batch_offset, features_of, fetched
from tilegen.plans.gemm_packed_text import missing_features, side_of, widening
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_packed import MULTIPLIED, PackedGemm, is_vector, lanes_of
from tilegen.targets import CpuTarget
from tilegen.values import BF16, F16, I32

# Micro tiles of rows of A that are packed together: whole cache lines when K is not contiguous.
GROUP_TILES = 8

# Costs in multiply-adds of a core that does some 10^10 of them a second.
THREAD_COST = 96**3
CELL_COST = 20000
PACK_ROWS = 24
READ_COLS = 8
CELLS_PER_THREAD = 8

# Rows whose blocks of A stay in a near cache, so that B may pass a sliver at a time.
FEW_ROWS = 256

# Columns of a sliver that make it cheap to read A anew for each.
WIDE = 64

# Micro tiles of rows that read B from L2 as it lies, rather than have it packed.
PLAIN_TILES = 16

# Micro tiles that keep many threads busy; with fewer, K is cut into parts of so many elements at least.
FEW_TILES, LEAST_PART = 48, 2048

# Memory that a call takes from its stack instead of fetching it: what 64 x 64 x 64 f32 need.
SMALL_BYTES = 24576


@dataclass(frozen=True)
class PackedGemmPlan(Plan):
    """Numbers of `templates/c_openmp/gemm_packed.c.j2`; sizes in elements unless the name says bytes."""

    block_m: int
    block_n: int
    block_k: int
    micro_m: int
    micro_n: int
    unroll: int
    lanes: int
    vectors: int
    vector_counts: tuple[int, ...]
    row_counts: tuple[int, ...]
    vector_bytes: int
    quad_bytes: int
    packed_bytes: int
    lane_type: str
    group_m: int
    group_tiles: int
    k_unit: int
    thread_cost: int
    cell_cost: int
    cells_per_thread: int
    small_bytes: int
    store_lanes: int
    pack_rows: int
    read_cols: int
    plain: int
    plain_rows: int
    near_bytes: int
    fetch: int
    few_rows: int
    fetch_kind: str
    fetch_rows: str
    fetch_row: str
    fetch_stride: str
    fetch_from: str
    element: str
    packed: str
    sum: str
    exact: int
    in_words: int
    word: int
    offset: int
    bits: str
    later_rows: tuple[int, ...]
    shifts: tuple[int, ...]
    tiles: int
    step: int
    dot: str
    split: int
    few_tiles: int
    least_part: int
    part_of_a: str
    part_of_b: str
    each_product: str
    prepacked: int
    packed_span: str
    left: str
    group_row: str
    sliver_depth: str
    a_source: str
    a_step: str
    widen: str
    widen_end: str
    one_factor: str
    factor_step: str
    features: str
    target_name: str
    turned: int
    side: int
    a_k_contiguous: int
    transpose_part: str
    quad_part: str
    tile_part: str
    b_part: str
    a_part: str
    batched: int
    a_batch: str
    b_batch: str
    call_arguments: tuple[str, ...]
    panel_bytes: int
    group_bytes: int
    sums_bytes: int

    template: ClassVar[str] = "c_openmp/gemm_packed.c.j2"
    hidden: ClassVar[frozenset[str]] = frozenset(
        "bits later_rows shifts dot packed_span a_source a_step".split()
    )
    includes: ClassVar[tuple[str, ...]] = ("<assert.h>", "<errno.h>", "<stdlib.h>", "<string.h>")

    @classmethod
    def make(cls, problem: Gemm, schedule: PackedGemm, target: CpuTarget) -> PackedGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        block_m, block_n, block_k = schedule.tile
        micro_m, micro_n = schedule.micro
        multiplied = MULTIPLIED[problem.dtype]
        vector = is_vector(target)
        lanes = lanes_of(problem, target)
        converted = problem.dtype is not multiplied
        a_in_place = problem.layout.a == "t" and not converted
        widen = widening(problem) if converted else ("", "")
        group_m = 0 if a_in_place else GROUP_TILES * micro_m
        style = "vector" if vector else "scalar"
        a, b = problem.tensors()[:2]
        sizes = [s.name for s in problem.sizes() if s.name != "k"]
        return cls(
            problem,
            schedule,
            target,
            block_m=block_m,
            block_n=block_n,
            block_k=block_k,
            micro_m=micro_m,
            micro_n=micro_n,
            unroll=schedule.unroll,
            lanes=lanes,
            vectors=micro_n // lanes if vector else 0,
            vector_counts=tuple(range(1, micro_n // lanes + 1)),
            row_counts=tuple(range(1, micro_m + 1)),
            vector_bytes=target.vector_bytes,
            quad_bytes=4 * multiplied.bytes,
            packed_bytes=multiplied.bytes,
            lane_type=f"int{multiplied.bits}_t",
            group_m=group_m,
            group_tiles=GROUP_TILES,
            k_unit=16 if block_k % 16 == 0 else 1,
            thread_cost=THREAD_COST,
            cell_cost=CELL_COST,
            cells_per_thread=CELLS_PER_THREAD,
            small_bytes=SMALL_BYTES,
            store_lanes=lanes if vector else 0,
            pack_rows=PACK_ROWS,
            read_cols=READ_COLS,
            plain=int(vector and problem.layout.b == "t" and not converted),
            plain_rows=PLAIN_TILES * micro_m,
            near_bytes=target.l2_bytes,
            few_rows=FEW_ROWS,
            **(
                fetched(problem)
                | {"fetch": int(vector and micro_n >= WIDE and problem.layout.b == "n")}
            ),
            element=problem.dtype.c,
            packed=multiplied.c,
            sum=problem.accumulator.c,
            exact=int(problem.accumulator is I32),
            in_words=0,
            word=0,
            offset=0,
            bits="",
            later_rows=(),
            shifts=(),
            tiles=0,
            step=0,
            dot="",
            split=int(not problem.batched),
            few_tiles=FEW_TILES,
            least_part=LEAST_PART,
            part_of_a="k" if problem.layout.a == "t" else "k * call->lda",
            part_of_b="k" if problem.layout.b == "n" else "k * call->ldb",
            each_product="call->batch" if problem.batched else "call->parts",
            prepacked=0,
            packed_span="",
            left="Factor",
            group_row="depth",
            sliver_depth="block->depth",
            a_source="",
            a_step="",
            widen=widen[0],
            widen_end=widen[1],
            one_factor=f"{widen[0]}source[i * from + j]{widen[1]}",
            factor_step="",
            features=",".join(features_of(target)),
            target_name=target.name,
            turned=int(problem.layout.a == "n" or problem.layout.b == "n"),
            side=side_of(target, multiplied.bytes),
            a_k_contiguous=int(problem.layout.a == "t"),
            transpose_part=f"{PARTS}/transpose_{style}.c.j2",
            quad_part=f"{PARTS}/quad_{problem.dtype if converted else 'same'}.c.j2",
            tile_part=f"{PARTS}/gemm_tile_{style}.c.j2",
            b_part=f"{PARTS}/gemm_pack_b_{'columns' if problem.layout.b == 'n' else 'rows'}.c.j2",
            a_part=f"{PARTS}/gemm_a_{'in_place' if a_in_place else 'packed'}.c.j2",
            batched=int(problem.batched),
            a_batch=batch_offset(problem, "a"),
            b_batch=batch_offset(problem, "b"),
            call_arguments=(*sizes, "a", *a.strides, "b", *b.strides),
            panel_bytes=block_n * block_k * multiplied.bytes,
            group_bytes=group_m * block_k * multiplied.bytes,
            sums_bytes=-(-block_m // micro_m) * micro_m * block_n * problem.accumulator.bytes,
        )

    def parts(self) -> tuple[str, ...]:
        return (self.transpose_part, self.quad_part, self.tile_part, self.b_part, self.a_part)

    @property
    def helpers(self) -> tuple[str, ...]:
        return (self.widen[:-1],) if self.problem.dtype in (F16, BF16) and self.widen else ()

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return missing_features(self.target)

    def facts(self) -> list[Fact]:
        size, lanes = self.packed_bytes, self.lanes
        m, n, l2 = self.micro_m, self.micro_n, self.target.l2_bytes
        memory = self.panel_bytes + self.group_bytes + self.sums_bytes
        found = [
            Fact("tile", str(self.schedule.tile), "rows, columns and depth of a block of products"),
            Fact(
                "packed B", f"{self.panel_bytes} bytes", f"{self.block_n} x {self.block_k} x {size}"
            ),
            Fact("share of L2", f"{self.panel_bytes / l2:.0%}", f"packed B in {l2} bytes"),
            Fact("sums", f"{self.sums_bytes} bytes", f"{self.block_m} x {self.block_n} that wait"),
            Fact("memory of a thread", f"{memory} bytes", "at most; small sizes take less"),
            Fact(
                "micro kernel",
                f"{m * n / (m + n):.1f} multiply-adds a load",
                f"{m} x {n} sums of {m} elements of A and {n} of B",
            ),
        ]
        if self.vectors:
            registers = self.schedule.registers(self.problem, self.target)
            found.append(
                Fact(
                    "vector registers",
                    f"{registers} of {self.target.vector_registers}",
                    f"{m} x {self.vectors} sums, {self.vectors} of B, 1 of A; {lanes} elements each",
                )
            )
        return found
