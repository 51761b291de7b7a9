"""How long a GEMM in C takes on one thread: products, packing, and reading from memory.

`PackedGemm` multiplies at nearly the peak but copies B first, which few rows do not pay back; `SkinnyGemm` reads B
once where it lies and multiplies more slowly. What decides between them is how many rows share an element
of B. The constants are fitted to both schedules on an Ice Lake Xeon, f32, 1 to 64 rows; those of AMX to a
few products on a Sapphire Rapids Xeon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilegen.model.estimate import Estimate, Term
from tilegen.plans.base import ceil_div
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule
from tilegen.schedules.gemm_amx import TILE, AmxGemm, word
from tilegen.schedules.gemm_amx_skinny import AmxSkinnyGemm
from tilegen.schedules.gemm_packed import MULTIPLIED, PackedGemm, is_vector, lanes_of
from tilegen.schedules.gemm_skinny import SkinnyGemm
from tilegen.targets import CpuTarget
from tilegen.values import F32, F64

# Of a core: GHz under load, vector multiply-adds a clock, bytes a nanosecond from memory.
CLOCK, PIPES, MEMORY = 2.9, 2, 14.0
# Part of the peak that the micro kernels reach at their best; skinny by whether K is contiguous in B.
PACKED, SKINNY_ALONG_K, SKINNY_ALONG_N = 0.88, 0.28, 0.58
# Nanoseconds to pack an element of B from memory, by whether K is contiguous in it, and from L2.
PACK_ALONG_K, PACK_ALONG_N, PACK_NEAR = 0.28, 0.40, 0.10
# Rows that read B from L2 as it lies where N is contiguous.
PLAIN_ROWS = 96
# On AMX: multiply-adds of words a clock, the parts of them that are reached, nanoseconds to pack a word.
AMX_PEAK, AMX, AMX_SKINNY, PACK_WORD = 256, 0.4, 0.3, 0.25
# Bytes of a run through memory that take twice as long as at full speed.
SHORT_RUN = 512
# Estimates that differ by less are equal.
TIE = 0.03
# Nanoseconds of a call, and of one micro tile's way in and out.
CALL, MICRO = 500.0, 12.0
# Multiply-adds under way that hide the latency of one.
LATENCY = 8
# A block of B of more than this part of L2 is evicted before it is used again.
OF_L2 = 0.75


@dataclass(frozen=True)
class Call:
    """A problem at one size."""

    problem: Gemm
    where: CpuTarget
    m: int
    n: int
    k: int
    count: int
    bytes: int

    @property
    def along_k(self) -> bool:
        """Whether K is contiguous in B."""
        return self.problem.layout.b == "n"

    def products(self, rows: int, cols: int, part: float) -> Term:
        """The products of padded rows and columns at a part of the peak."""
        lanes = lanes_of(self.problem, self.where)
        rate = CLOCK * PIPES * lanes * part
        why = f"{rows} x {cols} padded at {2 * rate:.0f} Gflop/s"
        return Term("products", self.count * rows * cols * self.k / rate / 1e9, why)

    def memory(self, passes: int = 1, run: int = 0) -> Term:
        """What must move, and B again for each further pass; short runs of `run` elements cost more."""
        size = self.problem.storage.bytes
        moved = self.bytes + (passes - 1) * self.n * self.k * size * self.count
        rate = MEMORY / (1 + SHORT_RUN / (run * size)) if run else MEMORY
        why = f"{moved / 1e6:.1f} MB at {rate:.0f} GB/s"
        return Term("memory", moved / rate / 1e9, why)


def knows(problem: Gemm, where: CpuTarget) -> bool:
    """Whether the model has the problem's default schedule on the target: vectors of f32 or f64, or AMX."""
    on_tiles = AmxGemm.accepts(problem, where) is None
    return on_tiles or (is_vector(where) and problem.dtype in (F32, F64))


def estimate(
    schedule: Schedule, problem: Gemm, where: CpuTarget, sizes: Mapping[str, int]
) -> Estimate:
    """Estimate one schedule, legal for the problem on the target, at the given extents."""
    m, n, k = (max(1, sizes[name]) for name in ("m", "n", "k"))
    call = Call(problem, where, m, n, k, max(1, sizes.get("batch", 1)), problem.bytes(sizes))
    if isinstance(schedule, (AmxGemm, AmxSkinnyGemm)):
        return _tiles(schedule, call)
    return _skinny(schedule, call) if isinstance(schedule, SkinnyGemm) else _packed(schedule, call)


def _packed(schedule: PackedGemm, call: Call) -> Estimate:
    bm, bn, bk = schedule.tile
    rows, width = schedule.micro
    lanes = lanes_of(call.problem, call.where)
    vectors = width // lanes
    part = PACKED * min(1.0, rows * vectors / (LATENCY * 1.5)) ** 0.5
    # A row of the sliver and the elements of A are read for each step: two a clock.
    part *= min(1.0, rows * vectors / (rows + vectors) / 2.3) ** 0.5
    size = MULTIPLIED[call.problem.dtype].bytes
    if bn * bk * size > OF_L2 * call.where.l2_bytes:
        part *= 0.9
    # Edges have micro kernels of their own: what lacks costs nothing beyond the last vector, and few
    # rows half a tile at least.
    left = call.m % rows
    padded_m = call.m - left + (max(left, ceil_div(rows, 2)) if left else 0)
    padded_n = ceil_div(call.n, lanes) * lanes
    tiles = ceil_div(call.m, rows) * ceil_div(call.n, width) * ceil_div(call.k, bk) * call.count
    passes = ceil_div(call.m, bm)
    pack = PACK_ALONG_K if call.along_k else PACK_ALONG_N
    if call.n * call.k * call.problem.storage.bytes <= call.where.l2_bytes:
        pack = PACK_NEAR if call.along_k or call.m > PLAIN_ROWS else 0.0
    packing = passes * call.n * call.k * call.count * pack
    terms = (
        call.products(padded_m, padded_n, part),
        call.memory(passes),
        Term("packing", packing / 1e9, f"B in {passes} pass(es)", overlaps=False),
        Term("micro tiles", tiles * MICRO / 1e9, f"{tiles} of them", overlaps=False),
        Term("call", CALL / 1e9, "fixed", overlaps=False),
    )
    return Estimate(schedule, terms)


def _skinny(schedule: SkinnyGemm, call: Call) -> Estimate:
    rows, width = schedule.micro
    lanes = 1 if call.along_k else lanes_of(call.problem, call.where)
    best = SKINNY_ALONG_K if call.along_k else SKINNY_ALONG_N
    # Edges have micro kernels of their own, in which few sums hide less.
    left = call.m % rows
    padded = call.m - left + (max(left, min(rows, 3)) if left else 0)
    part = best * min(1.0, rows * (width // lanes) / (LATENCY * 1.5)) ** 0.5
    # Elements of both sides are read for each step: two a clock.
    vectors = width // lanes
    part *= min(1.0, rows * vectors / (rows + vectors) / 2.2) ** 0.5
    passes = ceil_div(call.m, schedule.tile[0])
    deeper = schedule.tile[0] // rows if call.m <= rows else 1
    run = min(call.k, deeper * schedule.tile[2]) if call.along_k else min(call.n, schedule.tile[1])
    # Small depths of a strip come back to their sums more often.
    sums = ceil_div(call.k, schedule.tile[2]) * padded * call.n * call.count * 0.1
    terms = (
        call.products(padded, call.n, part),
        call.memory(passes, run),
        Term(
            "sums", sums / 1e9, f"each {ceil_div(call.k, schedule.tile[2])} times", overlaps=False
        ),
        Term("call", CALL / 1e9, "fixed", overlaps=False),
    )
    return Estimate(schedule, terms)


def _tiles(schedule: AmxGemm | AmxSkinnyGemm, call: Call) -> Estimate:
    """Tile registers: both sides padded to 16, B packed or read in place."""
    packs = isinstance(schedule, AmxGemm)
    words = ceil_div(call.k, word(call.problem))
    rows, cols = ceil_div(call.m, TILE) * TILE, ceil_div(call.n, TILE) * TILE
    rate = CLOCK * AMX_PEAK * (AMX if packs else AMX_SKINNY)
    passes = ceil_div(call.m, schedule.tile[0]) if packs else 0
    packing = passes * call.n * words * call.count * PACK_WORD
    terms = (
        Term("products", call.count * rows * cols * words / rate / 1e9, f"{rows} x {cols} padded"),
        call.memory(max(1, passes)),
        Term("packing", packing / 1e9, f"B in {passes} pass(es)", overlaps=False),
        Term("call", CALL / 1e9, "fixed", overlaps=False),
    )
    return Estimate(schedule, terms)


def candidates(problem: Gemm, where: CpuTarget, sizes: Mapping[str, int]) -> Iterator[Schedule]:
    """Schedules worth an estimate at these sizes, before the legality rules."""
    for cls in (AmxGemm, AmxSkinnyGemm):
        if cls.accepts(problem, where) is None:
            yield cls.default(problem, where)
    if problem.dtype in (F32, F64):
        for cls in (PackedGemm, SkinnyGemm):
            if cls.accepts(problem, where) is None:
                yield cls.default(problem, where)
                yield from cls.candidates(problem, where)
