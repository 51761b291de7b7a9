"""The plan of WgmmaGemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilegen.plans.base import Fact, Plan, Refusal
from tilegen.plans.gemm import gemm_facts
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_wgmma import MMA_M, ROLES, SPAN_BYTES, WgmmaGemm
from tilegen.targets import CudaTarget
from tilegen.values import BF16, E4M3, E5M2, F16, I32, I8, TF32, U8

# Names of the element types in PTX and in tensor maps.
_PTX = {F16: "f16", BF16: "bf16", TF32: "tf32", E4M3: "e4m3", E5M2: "e5m2", I8: "s8", U8: "u8"}
_MAP = {F16: "FLOAT16", BF16: "BFLOAT16", TF32: "TFLOAT32"}
_PAIR = {F16: "__half2", BF16: "__nv_bfloat162"}
_UNPACK = {F16: "__half22float2", BF16: "__bfloat1622float2"}
_PACK = {F16: "__floats2half2_rn", BF16: "__floats2bfloat162_rn"}

_DESCRIPTOR = "Describe {} in shared memory to wgmma. "
_K_MAJOR = _DESCRIPTOR + "K is contiguous: a row of 128 bytes holds a step of K."
_MN_MAJOR = _DESCRIPTOR + "K is the outer dimension: a row of 128 bytes holds 64 elements of one k."


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
    sums: int
    staging_rows: str
    piece: int
    chunks_expression: str
    cluster: int
    split: int
    blocks: int
    cluster_purpose: str
    rows_of_cluster: str
    step_begin: str
    step_end: str
    cluster_m: int
    group_m: int
    pingpong: int
    threads: int
    warpgroups: int
    mmas: int
    slice_n: int
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
    a_batch: str
    b_batch: str
    c_batch: str
    staged: int
    tma_c: int
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
    a_extents: str
    b_extents: str
    a_box: str
    b_box: str
    descriptors: tuple[tuple[str, int, str], ...]
    wgmma_form: tuple
    barrier_primitives: tuple[str, ...]
    tma_primitives: tuple[str, ...]
    wgmma_primitives: tuple[str, ...]
    consume_part: str
    store_part: str

    template: ClassVar[str] = "cuda/gemm_wgmma.cu.j2"
    hidden: ClassVar[frozenset[str]] = frozenset({"swap"})

    @classmethod
    def make(cls, problem: Gemm, schedule: WgmmaGemm, target: CudaTarget) -> WgmmaGemmPlan:
        """Derive every number. The schedule must be legal for the problem on the target."""
        bm, bn, bk = schedule.tile
        swap, mma_n = schedule.swap, schedule.mma_n
        roles = ROLES[schedule.consumers]
        chunk = schedule.chunk_n
        staged = schedule.staged(problem)
        tiled = schedule.tile_operand(problem) if staged else ""
        tile_type = problem.typed.operands.get(tiled)
        vectors = _vectors(problem, schedule) if staged else ()
        repacks = ()
        if schedule.repack:
            repacks = (
                ("a", "lda", *problem.layout.a_dims),
                ("b", "ldb", *problem.layout.b_dims),
            )
        size = problem.out_dtype.bytes
        a_k, b_k = problem.layout.a_dims[1] == "k", problem.layout.b_dims[1] == "k"
        multicast = "_multicast" if schedule.cluster > 1 else ""
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
            sums=mma_n // 2,
            staging_rows="kBlockM" if swap else "64",
            piece=16 // size,
            chunks_expression="kMmas" if swap else "kMmas * kBlockN / kChunkN",
            cluster=schedule.cluster,
            split=schedule.split,
            blocks=schedule.cluster * schedule.split,
            cluster_purpose=(
                "which share the steps of K" if schedule.split > 1 else "one below the other in M"
            ),
            rows_of_cluster="kBlockM" if schedule.split > 1 else "kBlockM * kCluster",
            step_begin="first_step(shape, rank)" if schedule.split > 1 else "0",
            step_end="first_step(shape, rank + 1)" if schedule.split > 1 else "shape.steps",
            cluster_m=schedule.cluster * bm,
            group_m=schedule.group,
            pingpong=int(schedule.pingpong),
            threads=128 * (1 + schedule.consumers),
            warpgroups=1 + schedule.consumers,
            mmas=schedule.part // MMA_M,
            slice_n=bn // schedule.cluster,
            chunk_n=chunk,
            chunks=schedule.chunks,
            buffers=buffers,
            stage_bytes=schedule.stage_bytes(),
            stage_a_bytes=bm * SPAN_BYTES,
            stage_b_bytes=bn * SPAN_BYTES,
            staging_words=_staging_words(problem, schedule, buffers),
            chunk_bytes=chunk * size,
            barrier_bytes=16 * schedule.stages,
            shared_limit=target.shared_block,
            entry_registers=roles.entry,
            producer_registers=roles.producer,
            consumer_registers=roles.consumer,
            empty_arrivals=f"{everyone} * kCluster" if schedule.cluster > 1 else everyone,
            everybody_sync=(
                "cluster_sync" if schedule.cluster * schedule.split > 1 else "__syncthreads"
            ),
            tile_m=(
                "(group * kGroupM + within % rows) * kCluster + cluster_rank()"
                if schedule.cluster > 1
                else "group * kGroupM + within % rows"
            ),
            cluster_dims=(
                "__cluster_dims__(kCluster, 1, 1) " if schedule.cluster * schedule.split > 1 else ""
            ),
            mma_k=32 // problem.storage.bytes,
            element=problem.storage.cuda,
            output=problem.out_dtype.cuda,
            sum_type=problem.accumulator.cuda,
            promote=int(schedule.promotes(problem)),
            pair_type=_PAIR.get(problem.out_dtype, ""),
            pack=_PACK.get(problem.out_dtype, ""),
            swizzle=_SWIZZLE.get(chunk * size, ""),
            a_shape="[kBlockM][kBlockK]" if a_k else "[kBlockM / 64][kBlockK][64]",
            b_shape="[kBlockN][kBlockK]" if b_k else "[kBlockN / 64][kBlockK][64]",
            next_a=2 if a_k else 2 * SPAN_BYTES * 8 // 16,
            next_b=2 if b_k else 2 * SPAN_BYTES * 8 // 16,
            atoms=int(not (a_k and b_k)),
            load_a="load_k" if a_k else "load_mn",
            load_b=("load_k" if b_k else "load_mn") + multicast,
            map_element=f"CU_TENSOR_MAP_DATA_TYPE_{_MAP.get(problem.dtype, 'UINT8')}",
            map_output=f"CU_TENSOR_MAP_DATA_TYPE_{_MAP.get(problem.out_dtype, '')}",
            rank=3 if problem.batched else 2,
            a_batch="batch, stride_a, " if problem.batched else "",
            b_batch="batch, stride_b, " if problem.batched else "",
            c_batch="batch, stride_c, " if problem.batched else "",
            staged=int(staged),
            tma_c=int(staged and not schedule.repack),
            chunk_part=f"cuda/parts/gemm_wgmma_{'copy' if schedule.repack else 'tail'}.cuh.j2",
            repacks=repacks,
            repacked_extent=" + ".join(f"{r} * repacked_stride({c})" for _, _, r, c in repacks),
            element_bytes=problem.storage.bytes,
            tile_operand=tiled,
            tile_pair_type=_PAIR.get(tile_type, ""),
            unpack=_UNPACK.get(tile_type, ""),
            vectors=vectors,
            operand_members=_operand_members(vectors, tiled),
            prefetches=int(bool(vectors or tiled)),
            swap=int(swap),
            y_index="m" if swap else "n",
            a_extents="depth, m" if a_k else "m, depth",
            b_extents="depth, n" if b_k else "n, depth",
            a_box="kBlockK, kBlockM" if a_k else "kAtom, kBlockK",
            b_box=_b_box(schedule) if b_k else "kAtom, kBlockK",
            descriptors=(
                (
                    "descriptor_a",
                    0 if a_k else bk * SPAN_BYTES,
                    (_K_MAJOR if a_k else _MN_MAJOR).format("A"),
                ),
                (
                    "descriptor_b",
                    0 if b_k else bk * SPAN_BYTES,
                    (_K_MAJOR if b_k else _MN_MAJOR).format("B"),
                ),
            ),
            wgmma_form=_wgmma_form(problem, schedule),
            barrier_primitives=_barrier_primitives(schedule, staged),
            tma_primitives=_tma_primitives(schedule, staged, problem.batched),
            wgmma_primitives=_wgmma_primitives(schedule, staged, tiled),
            consume_part=f"cuda/parts/gemm_wgmma_{_consume(schedule)}.cuh.j2",
            store_part=f"cuda/parts/gemm_wgmma_store_{_store(schedule, staged, tiled)}.cuh.j2",
        )

    @property
    def uses_workspace(self) -> bool:
        """Whether operands may have to be copied first."""
        return self.schedule.repack

    @property
    def unit(self) -> int:
        """Elements in the 16 bytes that the copy engine aligns to; 1 where operands are copied."""
        if self.schedule.repack:
            return 1
        return max(16 // self.problem.storage.bytes, 8 if self.staged else 1)

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
            if t.name in ("a", "b", self.tile_operand) or (self.staged and t.is_written)
        ]
        checks = []
        for t in arrays:
            checks.append(f"reinterpret_cast<uintptr_t>({t.name}) % 16 != 0")
            unit = 16 // t.dtype.bytes
            checks += [f"({d} > 1 && {s} % {unit} != 0)" for d, s in zip(t.dims, t.strides)]
        names = ", ".join(t.name for t in arrays)
        size = (
            Refusal(
                4,
                " || ".join(f"{s} > {largest}" for s in sizes),
                f"a size is above {largest}, the reach of the copy engine's coordinates",
            ),
        )
        if self.schedule.repack:
            return size
        reason = f"{names}: an address or a stride that is no multiple of 16 bytes, as TMA needs"
        return (*size, Refusal(5, " || ".join(checks), reason))

    def facts(self) -> list[Fact]:
        shared = self.schedule.shared_bytes(self.problem, self.buffers)
        return gemm_facts(self, self.threads, shared, self.entry_registers)


# Which 16 bytes of a row the copy engine swaps, by the span of the swizzle: an XOR with bits of the row.
_SWIZZLE = {128: "(row & 7)", 64: "(row >> 1 & 3)", 32: "(row >> 2 & 1)"}


def _vectors(problem: Gemm, schedule: WgmmaGemm) -> tuple[tuple[str, str, str], ...]:
    """Name, index and extent in a consumer's part of the tile, of each operand of one dimension."""
    extents = (
        {"m": "kPart", "n": "kBlockN"} if not schedule.swap else {"m": "kBlockM", "n": "kPart"}
    )
    dims = problem.formula.operands
    return tuple(
        (name, dims[name][0], extents[dims[name][0]]) for name in schedule.vectors(problem)
    )


def _operand_members(vectors: tuple[tuple[str, str, str], ...], tiled: str) -> tuple[str, ...]:
    lines = [f"float {name}[kConsumers][{extent}];  // of the tile" for name, _, extent in vectors]
    lines += [f"uint64_t operand[kConsumers];  // the tile of {tiled} has arrived"] if tiled else []
    return tuple(lines)


def _staging_words(problem: Gemm, schedule: WgmmaGemm, buffers: int) -> str:
    """What shared memory holds besides stages and barriers, for the prose."""
    words = ""
    if schedule.staged(problem):
        words += f"C {schedule.consumers} x {buffers} x {schedule.buffer_bytes(problem)}, "
        vectors = schedule.vectors(problem)
        words += f"{' and '.join(vectors)} as floats, " if vectors else ""
    if schedule.split > 1:
        partial = schedule.mma_m * schedule.mma_n * 4
        words += f"sums of other blocks {schedule.split - 1} x {partial}, "
    return words


def _b_box(schedule: WgmmaGemm) -> str:
    return "kBlockK, kBlockN / kCluster" if schedule.cluster > 1 else "kBlockK, kBlockN"


def _consume(schedule: WgmmaGemm) -> str:
    if schedule.split > 1:
        return "split"
    return "pingpong" if schedule.pingpong else "cooperative"


def _rows(numbers: range, width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(numbers[i : i + width]) for i in range(0, len(numbers), width))


def _wgmma_form(problem: Gemm, schedule: WgmmaGemm) -> tuple:
    registers = schedule.mma_n // 2
    transposed = [int(d[1] != "k") for d in (problem.layout.a_dims, problem.layout.b_dims)]
    first, second = reversed(transposed) if schedule.swap else transposed
    kind, exact = _PTX[problem.dtype], problem.accumulator is I32
    scales = "" if exact else ", 1, 1"
    return (
        f"m64n{schedule.mma_n}k{32 // problem.storage.bytes}",
        f"{'s32' if exact else 'f32'}.{kind}.{kind}",
        problem.accumulator.cuda,
        "r" if exact else "f",
        registers,
        (registers, registers + 1, registers + 2),
        _rows(range(registers), 12),
        _rows(range(registers), 6),
        scales + (f", {first}, {second}" if problem.storage.bytes == 2 else ""),
    )


def _store(schedule: WgmmaGemm, staged: bool, tiled: str) -> str:
    if not staged:
        return "direct"
    if tiled:
        return "inplace16"
    return "swapped16" if schedule.swap else "tma16"


def _barrier_primitives(schedule: WgmmaGemm, staged: bool) -> tuple[str, ...]:
    names = ["shared_address", "mbarrier_init", "mbarrier_init_fence", "mbarrier_arrive_expect_tx"]
    names.append("mbarrier_arrive_cluster" if schedule.cluster > 1 else "mbarrier_arrive")
    names.append("mbarrier_wait")
    names += ["named_barrier_sync"] if staged or schedule.pingpong else []
    names += ["named_barrier_arrive"] if schedule.pingpong else []
    names += ["fence_proxy_async"] if staged and not schedule.repack else []
    names += ["cluster_rank", "cluster_sync"] if schedule.cluster * schedule.split > 1 else []
    if schedule.split > 1:
        names.append("store_cluster")
    names += ["setmaxnreg_dec", "setmaxnreg_inc"] if schedule.consumers > 1 else []
    return tuple(names)


def _tma_primitives(schedule: WgmmaGemm, staged: bool, batched: bool) -> tuple[str, ...]:
    names = ["tma_load"]
    names += ["tma_load_multicast"] if schedule.cluster > 1 else []
    staged = staged and not schedule.repack
    names += ["tma_store"] if staged else []
    names = [f"{n}_batch" if batched else n for n in names]
    return (*names, *(["tma_commit", "tma_wait_read"] if staged else []))


def _wgmma_primitives(schedule: WgmmaGemm, staged: bool, tiled: str) -> tuple[str, ...]:
    store = ["stmatrix_x4_trans" if schedule.swap else "stmatrix_x4"] if staged else []
    store += ["ldmatrix_x4"] if tiled else []
    return ("wgmma_fence", "wgmma_commit", "wgmma_wait", *store)
