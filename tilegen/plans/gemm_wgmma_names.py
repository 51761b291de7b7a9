"""Names that a WgmmaGemm plan chooses: parts, primitives, PTX forms, and what shared memory holds."""

from __future__ import annotations

from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_wgmma import SPAN_BYTES, WgmmaGemm
from tilegen.values import BF16, E4M3, E5M2, F16, I8, I32, TF32, U8

# Names of the element types in PTX and in tensor maps.
PTX = {F16: "f16", BF16: "bf16", TF32: "tf32", E4M3: "e4m3", E5M2: "e5m2", I8: "s8", U8: "u8"}
MAP = {F16: "FLOAT16", BF16: "BFLOAT16", TF32: "TFLOAT32"}
PAIR = {F16: "__half2", BF16: "__nv_bfloat162"}
UNPACK = {F16: "__half22float2", BF16: "__bfloat1622float2"}
PACK = {F16: "__floats2half2_rn", BF16: "__floats2bfloat162_rn"}

_DESCRIBE = "Describe {} in shared memory to wgmma. "
_K_MAJOR = _DESCRIBE + "K is contiguous: a row of 128 bytes holds a step of K."
_MN_MAJOR = _DESCRIBE + "K is the outer dimension: a row of 128 bytes holds 64 elements of one k."

# Which 16 bytes of a row the copy engine swaps, by the span of the swizzle: an XOR with bits of the row.
SWIZZLE = {128: "(row & 7)", 64: "(row >> 1 & 3)", 32: "(row >> 2 & 1)"}


def vectors(problem: Gemm, schedule: WgmmaGemm) -> tuple[tuple[str, str, str], ...]:
    """Name, index and extent in a consumer's part of the tile, of each operand of one dimension."""
    extents = (
        {"m": "kPart", "n": "kBlockN"} if not schedule.swap else {"m": "kBlockM", "n": "kPart"}
    )
    dims = problem.formula.operands
    return tuple(
        (name, dims[name][0], extents[dims[name][0]]) for name in schedule.vectors(problem)
    )


def operand_members(vectors: tuple[tuple[str, str, str], ...], tiled: str) -> tuple[str, ...]:
    lines = [f"float {name}[kConsumers][{extent}];  // of the tile" for name, _, extent in vectors]
    lines += [f"uint64_t operand[kConsumers];  // the tile of {tiled} has arrived"] if tiled else []
    return tuple(lines)


def staging_words(problem: Gemm, schedule: WgmmaGemm, buffers: int) -> str:
    """What shared memory holds besides stages and barriers, for the prose."""
    words = ""
    if schedule.staged(problem):
        words += f"C {schedule.consumers} x {buffers} x {schedule.buffer_bytes(problem)}, "
        vectors = schedule.vectors(problem)
        words += f"{' and '.join(vectors)} as floats, " if vectors else ""
    if schedule.cluster_split > 1:
        partial = schedule.mma_m * schedule.mma_n * 4
        words += f"sums of other blocks {schedule.cluster_split - 1} x {partial}, "
    return words


def descriptors(a_k: bool, b_k: bool, block_k: int) -> tuple[tuple[str, int, str], ...]:
    """Name, bytes of the leading offset, comment; one function where both operands lie alike."""

    def one(name: str, operand: str, k_major: bool) -> tuple[str, int, str]:
        leading = 0 if k_major else block_k * SPAN_BYTES
        return name, leading, (_K_MAJOR if k_major else _MN_MAJOR).format(operand)

    if a_k == b_k:
        return (one("describe", "an operand", a_k),)
    return one("describe_a", "A", a_k), one("describe_b", "B", b_k)


def consume(schedule: WgmmaGemm) -> str:
    if schedule.cluster_split > 1:
        return "split"
    if schedule.stream:
        return "stream"
    return "pingpong" if schedule.pingpong else "cooperative"


def tile_n(schedule: WgmmaGemm) -> str:
    """The column of a tile: every other group of rows walks back, and blocks of a cluster lie side by side."""
    column = "group % 2 == 0 ? column : shape.tiles_n - 1 - column"
    return f"({column}) * kCluster + blockIdx.x % kCluster" if schedule.cluster_n > 1 else column


def rows(words: list[str], comma: str, columns: int = 92) -> tuple[str, ...]:
    """The words with commas between them, in lines of at most so many columns."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(comma) + len(word) < columns:
            lines[-1] += comma + word
        else:
            lines[-1] += comma.rstrip()
            lines.append(word)
    return tuple(lines)


def wgmma_form(problem: Gemm, schedule: WgmmaGemm) -> tuple:
    registers = schedule.mma_n // 2
    transposed = [int(d[1] != "k") for d in (problem.layout.a_dims, problem.layout.b_dims)]
    first, second = reversed(transposed) if schedule.swap else transposed
    kind, exact = PTX[problem.dtype], problem.accumulator is I32
    shape = f"m64n{schedule.mma_n}k{32 // problem.storage.bytes}"
    name = f"wgmma.mma_async.sync.aligned.{shape}.{'s32' if exact else 'f32'}.{kind}.{kind}"
    immediates = ("" if exact else ", 1, 1") + (
        f", {first}, {second}" if problem.storage.bytes == 2 else ""
    )
    numbers = [f"%{i}" for i in range(registers)]
    numbers[0] = f"{name} {{{numbers[0]}"
    numbers[-1] += f"}}, %{registers}, %{registers + 1}, keep{immediates}; }}"
    return (
        shape,
        problem.accumulator.cuda,
        registers,
        registers + 2,
        rows(numbers, ","),
        rows([f'"+{"r" if exact else "f"}"(d[{i}])' for i in range(registers)], ", "),
    )


def store(problem: Gemm, schedule: WgmmaGemm, staged: bool, tiled: str) -> str:
    if schedule.workspace:
        return "parts"
    if not staged:
        return "rows" if problem.row_reductions else "direct"
    if tiled:
        return "inplace16"
    return "swapped16" if schedule.swap else "tma16"


def barrier_primitives(schedule: WgmmaGemm, staged: bool) -> tuple[str, ...]:
    names = ["shared_address", "mbarrier_init", "mbarrier_arrive_expect_tx"]
    names.append("mbarrier_arrive_cluster" if schedule.sharing > 1 else "mbarrier_arrive")
    names += ["named_barrier_sync"] if staged or schedule.pingpong or schedule.stream else []
    names += ["named_barrier_arrive"] if schedule.pingpong else []
    names += ["fence_proxy_async"] if staged and not schedule.repack else []
    in_cluster = schedule.cluster_split > 1
    names += ["cluster_sync"] if schedule.sharing > 1 or in_cluster else []
    names += ["store_cluster"] if in_cluster else []
    return tuple(names)


def tma_primitives(
    schedule: WgmmaGemm, staged: bool, batched: bool, streams: bool
) -> tuple[str, ...]:
    names = ["tma_load"]
    names += ["tma_load_streamed"] if streams else []
    names += ["tma_load_multicast"] if schedule.sharing > 1 else []
    staged = staged and not schedule.repack
    names += ["tma_store"] if staged else []
    names = [f"{n}_batch" if batched else n for n in names]
    return (*names, *(["tma_commit", "tma_wait_read"] if staged else []))


def wgmma_primitives(schedule: WgmmaGemm, staged: bool, tiled: str) -> tuple[str, ...]:
    store = ["stmatrix_x4_trans" if schedule.swap else "stmatrix_x4"] if staged else []
    store += ["ldmatrix_x4"] if tiled else []
    return ("wgmma_fence", "wgmma_commit", "wgmma_wait", *store)
