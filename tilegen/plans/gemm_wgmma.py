"""The plan of WgmmaGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans import gemm_wgmma_names as names
from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.plans.gemm import gemm_facts
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_wgmma import MMA_M, SPAN_BYTES, WgmmaGemm
from tilegen.schedules.gemm_wgmma_rules import LEAST_SHARE
from tilegen.targets import CudaTarget

# Sums that a thread requests from the workspace at once.
SUMS_IN_FLIGHT = 64


@dataclass(frozen=True)
class WgmmaGemmPlan(Plan):
    """Numbers and names of `templates/cuda/gemm_wgmma.cu.j2`; sizes in elements unless they say bytes."""

    block_m: int
    block_n: int
    block_k: int
    stages: int
    consumers: int
    part: int
    part_of: str
    x: str
    y: str
    x_index: str
    y_rows: str
    right_rows: str
    gated: int
    scaled: int
    sums: int
    staging_rows: str
    piece: int
    chunks_expression: str
    cluster: int
    split: int
    parts_of_k: int
    stream: int
    least_share: int
    few_steps: int
    join_steps: int
    skew: int
    fours: int
    sums_ahead: int
    resident: int
    resident_factor: str
    blocks: int
    cluster_purpose: str
    rows_of_cluster: str
    step_part: str
    cluster_m: int
    cluster_n: int
    cluster_lies: str
    sliced: str
    sliced_rows: str
    columns_of_cluster: str
    tile_n: str
    constant_b: int
    streams_b: int
    group_m: int
    pingpong: int
    threads: int
    warpgroups: int
    mmas: int
    slice_rows: int
    chunk_n: int
    chunks: int
    buffers: int
    stage_bytes: int
    stage_a_bytes: int
    stage_b_bytes: int
    staging_words: str
    chunk_bytes: int
    barrier_bytes: int
    shared_limit: int
    entry_registers: int
    producer_registers: int
    consumer_registers: int
    empty_arrivals: str
    everybody_sync: str
    tile_m: str
    cluster_dims: str
    mma_k: int
    element: str
    output: str
    sum_type: str
    promote: int
    pair_type: str
    pack: str
    swizzle: str
    a_shape: str
    b_shape: str
    next_a: int
    next_b: int
    atoms: int
    load_a: str
    load_b: str
    map_element: str
    map_output: str
    rank: int
    staged: int
    tma_c: int
    guards_buffer: int
    chunk_part: str
    repacks: tuple[tuple[str, str, str, str], ...]
    repacked_extent: str
    element_bytes: int
    tile_operand: str
    tile_pair_type: str
    unpack: str
    vectors: tuple[tuple[str, str, str], ...]
    operand_members: tuple[str, ...]
    prefetches: int
    swap: int
    y_index: str
    a_box: tuple[str, str]
    b_box: tuple[str, str]
    descriptors: tuple[tuple[str, int, str], ...]
    x_descriptor: str
    y_descriptor: str
    wgmma_form: tuple
    barrier_primitives: tuple[str, ...]
    tma_primitives: tuple[str, ...]
    wgmma_primitives: tuple[str, ...]
    consume_part: str
    store_part: str
    reduces: int
    row_part_columns: int
    overlaps: int

    template: ClassVar[str] = "cuda/gemm_wgmma.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset(
        {"swap", "a_box", "b_box", "map_element", "map_output"}
    )

    @classmethod
    def make(cls, problem: Gemm, schedule: WgmmaGemm, target: CudaTarget) -> WgmmaGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        bm, bn, bk = schedule.tile
        swap, mma_n = schedule.swap, schedule.mma_n
        roles = schedule.roles
        in_cluster = schedule.cluster_split > 1
        parts_of_k = schedule.split if schedule.workspace else 1
        chunk = schedule.chunk_n
        staged = schedule.staged(problem)
        tiled = schedule.tile_operand(problem) if staged else ""
        tile_type = problem.typed.operands.get(tiled)
        vectors = names.vectors(problem, schedule) if staged else ()
        repacks = ()
        if schedule.repack:
            repacks = (
                ("a", "lda", *problem.layout.a_dims),
                ("b", "ldb", *problem.layout.b_dims),
            )
        size = problem.out_dtype.bytes
        a_k, b_k = problem.layout.a_dims[1] == "k", problem.layout.b_dims[1] == "k"
        atom = ("kAtom", "kBlockK")
        descriptors = names.descriptors(a_k, b_k, bk)
        sharing, wide = schedule.sharing, schedule.cluster_n > 1
        multicast_a = "_multicast" if wide else ""
        multicast_b = "_multicast" if schedule.cluster > 1 else ""
        streams = schedule.streams(problem)
        lies = "side by side in N" if wide else "one below the other in M"
        buffers = schedule.buffers(problem, target)
        everyone = "kConsumers" if not schedule.pingpong else "1"
        return cls(
            problem=problem,
            schedule=schedule,
            target=target,
            block_m=bm,
            block_n=bn,
            block_k=bk,
            stages=schedule.stages,
            consumers=schedule.consumers,
            part=schedule.part,
            part_of="columns" if swap else "rows",
            x="b" if swap else "a",
            y="a" if swap else "b",
            x_index="n" if swap else "m",
            y_rows="kBlockM" if swap else "kBlockN",
            right_rows="kBlockN",
            gated=0,
            scaled=0,
            sums=mma_n // 2,
            staging_rows="kBlockM" if swap else "64",
            piece=16 // size,
            chunks_expression="kMmas" if swap else "kMmas * kBlockN / kChunkN",
            cluster=sharing,
            split=schedule.cluster_split,
            parts_of_k=parts_of_k,
            stream=int(schedule.stream),
            least_share=LEAST_SHARE,
            few_steps=LEAST_SHARE // 2,
            join_steps=schedule.join_steps,
            skew=schedule.skew,
            fours=schedule.accumulators // 4,
            # Loads of several clusters' sums, together as many as hide the way to L2 and back.
            sums_ahead=max(1, SUMS_IN_FLIGHT // schedule.accumulators),
            resident=schedule.resident,
            resident_factor=" * kResident" if schedule.resident > 1 else "",
            blocks=sharing * schedule.cluster_split,
            cluster_purpose="which share the steps of K" if in_cluster else lies,
            cluster_lies=lies,
            rows_of_cluster="kBlockM" if in_cluster or wide else "kBlockM * kCluster",
            columns_of_cluster="kBlockN * kCluster" if wide else "kBlockN",
            sliced="rows of A" if wide else "columns of B",
            sliced_rows="kBlockM" if wide else "kBlockN",
            step_part="rank" if in_cluster else "at.part" if parts_of_k > 1 else "",
            cluster_m=schedule.cluster * bm,
            cluster_n=schedule.cluster_n * bn,
            group_m=schedule.group,
            pingpong=int(schedule.pingpong),
            threads=128 * (1 + schedule.consumers),
            warpgroups=1 + schedule.consumers,
            mmas=schedule.part // MMA_M,
            slice_rows=bm // schedule.cluster_n if wide else bn // schedule.cluster,
            chunk_n=chunk,
            chunks=schedule.chunks,
            buffers=buffers,
            stage_bytes=schedule.stage_bytes(),
            stage_a_bytes=bm * SPAN_BYTES,
            stage_b_bytes=bn * SPAN_BYTES,
            staging_words=names.staging_words(problem, schedule, buffers),
            chunk_bytes=chunk * size,
            barrier_bytes=16 * schedule.stages,
            shared_limit=target.shared_block,
            entry_registers=roles.entry,
            producer_registers=roles.producer,
            consumer_registers=roles.consumer,
            empty_arrivals=(
                f"{everyone} * kCluster".removeprefix("1 * ") if sharing > 1 else everyone
            ),
            everybody_sync="cluster_sync" if sharing > 1 or in_cluster else "__syncthreads",
            tile_m=(
                "(group * kGroupM + within % rows) * kCluster + blockIdx.x % kCluster"
                if schedule.cluster > 1
                else "group * kGroupM + within % rows"
            ),
            tile_n=names.tile_n(schedule),
            cluster_dims="__cluster_dims__(kCluster, 1, 1) " if sharing > 1 or in_cluster else "",
            constant_b=int(schedule.constant_b),
            streams_b=int(streams),
            mma_k=32 // problem.storage.bytes,
            element=problem.storage.cuda,
            output=problem.out_dtype.cuda,
            sum_type=problem.accumulator.cuda,
            promote=int(schedule.promotes(problem)),
            pair_type=names.PAIR.get(problem.out_dtype, ""),
            pack=names.PACK.get(problem.out_dtype, ""),
            swizzle=names.SWIZZLE.get(chunk * size, ""),
            a_shape="[kBlockM][kBlockK]" if a_k else "[kBlockM / 64][kBlockK][64]",
            b_shape="[kBlockN][kBlockK]" if b_k else "[kBlockN / 64][kBlockK][64]",
            next_a=2 if a_k else 2 * SPAN_BYTES * 8 // 16,
            next_b=2 if b_k else 2 * SPAN_BYTES * 8 // 16,
            atoms=int(not (a_k and b_k)),
            load_a=("load_k" if a_k else "load_mn") + multicast_a,
            load_b="load_k_streamed" if streams else ("load_k" if b_k else "load_mn") + multicast_b,
            map_element=f"CU_TENSOR_MAP_DATA_TYPE_{names.MAP.get(problem.dtype, 'UINT8')}",
            map_output=f"CU_TENSOR_MAP_DATA_TYPE_{names.MAP.get(problem.out_dtype, '')}",
            rank=3 if problem.batched else 2,
            staged=int(staged),
            tma_c=int(staged and not schedule.repack),
            # With two buffers, the barrier that completes a chunk also frees the buffer of the one before.
            guards_buffer=int(not schedule.repack or buffers == 1 or bool(vectors)),
            chunk_part=f"cuda/parts/gemm_wgmma_{'copy' if schedule.repack else 'tail'}.cuh.j2",
            repacks=repacks,
            repacked_extent=" + ".join(f"{r} * repacked_stride({c})" for _, _, r, c in repacks),
            element_bytes=problem.storage.bytes,
            tile_operand=tiled,
            tile_pair_type=names.PAIR.get(tile_type, ""),
            unpack=names.UNPACK.get(tile_type, ""),
            vectors=vectors,
            operand_members=names.operand_members(vectors, tiled),
            prefetches=int(bool(vectors or tiled)),
            swap=int(swap),
            y_index="m" if swap else "n",
            a_box=("kBlockK", "kSlice" if wide else "kBlockM") if a_k else atom,
            b_box=("kBlockK", "kSlice" if schedule.cluster > 1 else "kBlockN") if b_k else atom,
            descriptors=descriptors,
            x_descriptor=f"describe_{'b' if swap else 'a'}" if len(descriptors) > 1 else "describe",
            y_descriptor=f"describe_{'a' if swap else 'b'}" if len(descriptors) > 1 else "describe",
            wgmma_form=names.wgmma_form(problem, schedule),
            barrier_primitives=names.barrier_primitives(schedule, staged),
            tma_primitives=names.tma_primitives(schedule, staged, problem.batched, streams),
            wgmma_primitives=names.wgmma_primitives(schedule, staged, tiled),
            consume_part=f"cuda/parts/gemm_wgmma_{names.consume(schedule)}.cuh.j2",
            store_part=f"cuda/parts/gemm_wgmma_store_{names.store(problem, schedule, staged, tiled)}.cuh.j2",
            reduces=int(bool(problem.row_reductions)),
            row_part_columns=bn,
            overlaps=1,
        )

    @property
    def uses_workspace(self) -> bool:
        """Whether operands may have to be copied first, or parts of K or of rows meet in memory."""
        return bool(self.repacks or self.reduces or self.stream) or self.parts_of_k > 1

    @property
    def unit(self) -> int:
        """Elements in the 16 bytes that the copy engine aligns to; 1 where operands are copied."""
        if self.repacks:
            return 1
        return max(16 // self.problem.storage.bytes, 8 if self.staged else 1)

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the operands that the copy engine reads."""
        return self.problem.product_arrays

    @property
    def requirements(self) -> tuple[str, ...]:
        """Sentences of the contract."""
        sentence = (
            "b is constant: no kernel in front in the stream that may still run writes it, as its first "
            "elements are read before that kernel has ended."
        )
        return (sentence,) if self.constant_b else ()

    def parts(self) -> tuple[str, ...]:
        chunk = (self.chunk_part,) if self.staged else ()
        return (self.consume_part, self.store_part, *chunk)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        sizes = [s.name for s in self.problem.sizes()]
        largest = 2**31 - 1024
        arrays = [
            t
            for t in self.problem.tensors()
            if t.name in (*self.moved, self.tile_operand)
            or (self.staged and t.is_written and "n" in t.dims)
        ]
        checks = []
        for t in arrays:
            checks.append(f"reinterpret_cast<uintptr_t>({t.name}) % 16 != 0")
            unit = 16 // t.dtype.bytes
            checks += [f"({d} > 1 && {s} % {unit} != 0)" for d, s in zip(t.dims, t.strides)]
        which = ", ".join(t.name for t in arrays)
        size = (
            Refusal(
                4,
                " || ".join(f"{s} > {largest}" for s in sizes),
                f"a size is above {largest}, the reach of the copy engine's coordinates",
            ),
        )
        if self.repacks:
            return size
        reason = f"{which}: an address or a stride that is no multiple of 16 bytes, as TMA needs"
        return (*size, Refusal(5, " || ".join(checks), reason))

    def facts(self) -> list[Fact]:
        shared = self.schedule.shared_bytes(self.problem, self.buffers)
        return gemm_facts(self, self.threads, shared, self.entry_registers)
