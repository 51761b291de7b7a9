"""How long a GEMM takes on a GPU: waves of tiles, bytes on their way, and what nothing hides.

A kernel is as slow as the slowest of what overlaps: the arithmetic units over all waves of tiles, the slices that
travel from L2 into shared memory, those that one multiprocessor takes in, and device memory. Launch, the
first fill, and results that no other work hides come on top. The constants are fitted to kernels measured on an
H200 (benchmarks/results/gemm_wgmma_h200.json); of other devices only the figures of `DEVICES` are theirs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.model.estimate import Estimate, Term
from tilegen.plans.base import ceil_div
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule
from tilegen.schedules.gemm_gemv import VECTOR_BYTES, GemvGemm
from tilegen.schedules.gemm_mma import MmaGemm
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.schedules.gemm_wgmma import SPAN_BYTES, WgmmaGemm
from tilegen.targets import CudaTarget
from tilegen.values import F64, TF32


@dataclass(frozen=True)
class Device:
    """A GPU as the model sees it; rates are a multiprocessor's in one clock unless they say otherwise.

    Attributes:
        processors: multiprocessors.
        clock: GHz under load; `drop` of it is lost where every matrix unit is busy, to the power limit.
        drop: GHz.
        tensor: products of 16-bit elements by the matrix units, as wgmma or mma.sync of that architecture.
        mma: the same by mma.sync.
        fma32, fma64: products by the ordinary units.
        intake: bytes into shared memory of one multiprocessor, a nanosecond.
        l2, memory: bytes a nanosecond of the whole device.
        latency: nanoseconds from a request to device memory until the data is there.
    """

    processors: int
    clock: float
    drop: float
    tensor: int
    mma: int
    fma32: int
    fma64: int
    intake: float
    l2: float
    memory: float
    latency: float


# By target: H200, A100, A10, L40S, T4. Rates from NVIDIA's data sheets; the H200's clocks, intake, L2, memory and
# latency are fitted to measurements.
DEVICES = {
    "sm_90a": Device(132, 1.70, 0.22, 2048, 900, 128, 64, 120, 13500, 4250, 1250),
    "sm_80": Device(108, 1.41, 0.10, 1024, 1024, 64, 32, 60, 4500, 1400, 1000),
    "sm_86": Device(72, 1.69, 0.20, 512, 512, 128, 2, 60, 2000, 550, 900),
    "sm_89": Device(142, 2.10, 0.30, 512, 512, 128, 2, 60, 4500, 800, 1000),
    "sm_75": Device(40, 1.59, 0.30, 512, 512, 64, 2, 50, 1200, 280, 900),
}

# Estimates that differ by less are equal.
TIE = 0.001

# Nanoseconds: a launch up to the first slice; clusters that start together; a split's exchange of sums.
LAUNCH, CLUSTER, EXCHANGE = 2300.0, 700.0, 1200.0
# Bytes a nanosecond between the blocks of a cluster; nanoseconds of the kernel that adds up a workspace.
PEERS, WORKSPACE = 20.0, 2000.0
# Nanoseconds from the request of a step to its products, with which the stages ahead are shared.
STEP = 700.0
# Rows of steps that lie outside of an operand, which the copy engines of the device fill a nanosecond.
OUTSIDE = 16.0
# Nanoseconds of a tile's results that no other tile hides, besides their bytes.
RESULTS = 350.0
# How much longer steps take of which each block of a pair reads a small part for both.
COUPLED = 1.25
# Bytes a nanosecond at which a multiprocessor writes results out of its staging, or from registers.
STORE, SCATTER = 100.0, 12.0
# Bytes a nanosecond of the whole device, results written from registers to odd addresses.
UNALIGNED = 1000.0
# Bytes a nanosecond that one multiprocessor draws from device memory, where few have work left.
ALONE = 65.0
# Bytes that shared memory gives in a clock.
SHARED = 128
# Part of a peak that ordinary units reach.
ORDINARY = 0.72
# Rows of a slice that begin inside a line of L2 touch two; those that begin in its middle cost less.
STRADDLE, MIDDLE = 2.0, 1.25
# By bytes of the widest copy that the rows' strides allow: how much longer cp.async takes.
NARROW = {16: 1.0, 8: 1.1, 4: 1.5, 2: 8.0, 1: 8.0}
# Nanoseconds that a slice of mma.sync waits at its barrier.
SLICE = 60.0
# A pair of blocks of which one has no tile holds the other up.
PHANTOM = 1.4


def knows(problem: Gemm, where: CudaTarget) -> bool:
    """Whether the model has the problem's schedules on the target."""
    classes = (WgmmaGemm, MmaGemm, SimtGemm)
    return where.name in DEVICES and any(c.accepts(problem, where) is None for c in classes)


def estimate(
    schedule: Schedule, problem: Gemm, where: CudaTarget, sizes: Mapping[str, int]
) -> Estimate:
    """Estimate one schedule, legal for the problem on the target, at the given extents."""
    call = _call(problem, where, tuple(sizes.items()))
    if isinstance(schedule, GemvGemm):
        return _gemv(schedule, call)
    if isinstance(schedule, WgmmaGemm):
        return _wgmma(schedule, call)
    if isinstance(schedule, MmaGemm):
        return _mma(schedule, call)
    return _simt(schedule, call)


@functools.lru_cache(maxsize=64)
def _call(problem: Gemm, where: CudaTarget, sizes: tuple[tuple[str, int], ...]) -> Call:
    extents = {name: max(1, extent) for name, extent in sizes}
    m, n, k = (extents[name] for name in ("m", "n", "k"))
    count = extents.get("batch", 1)
    return Call(problem, DEVICES[where.name], where, m, n, k, count, problem.bytes(dict(sizes)))


@dataclass(frozen=True)
class Call:
    """A problem at one size on a device; `bytes` are those that must move at least."""

    problem: Gemm
    device: Device
    where: CudaTarget
    m: int
    n: int
    k: int
    count: int
    bytes: int

    def memory(
        self, in_flight: float, bytes_moved: float | None = None, tail: tuple[int, int] = (0, 1)
    ) -> Term:
        """Device memory, no faster than what is requested ahead allows.

        Args:
            in_flight: bytes that are on their way at any time.
            bytes_moved: bytes in all, those that must move if not given.
            tail: pieces of work of a last wave that leaves multiprocessors idle, and of all waves.
        """
        moved = self.bytes if bytes_moved is None else bytes_moved
        rate = min(self.device.memory, in_flight / self.device.latency)
        why = f"{moved / 1e6:.1f} MB at {rate / 1e3:.2f} TB/s"
        last, pieces = tail
        piece = moved / pieces
        seconds = (moved - last * piece) / rate
        seconds += max(last * piece / rate, piece / ALONE if last else 0.0)
        return Term("device memory", seconds / 1e9, why)

    @property
    def lines(self) -> float:
        """How many lines of L2 a row of a slice touches, over the fewest."""
        inner = self._inner()
        if any(extent % (SPAN_BYTES // 2) for extent in inner):
            return STRADDLE
        return MIDDLE if any(extent % SPAN_BYTES for extent in inner) else 1.0

    @property
    def narrow(self) -> float:
        """How much longer copies take that are narrower than 16 bytes."""
        return max(NARROW[math.gcd(extent, 16)] for extent in self._inner())

    def _inner(self) -> list[int]:
        """Bytes of a row of A and of B, as they lie."""
        extent = {"m": self.m, "n": self.n, "k": self.k}
        layout, size = self.problem.layout, self.problem.storage.bytes
        return [extent[dims[1]] * size for dims in (layout.a_dims, layout.b_dims)]

    def clock(self, busy: float) -> float:
        """GHz where this part of the device's matrix units is busy."""
        return self.device.clock - self.device.drop * busy


@dataclass(frozen=True)
class Tiles:
    """How tiles fall on the device.

    Attributes:
        units: pieces of work: tiles, each in its parts of K.
        waves: pieces that the busiest block works off, one after the other.
        turns: pieces that the busiest multiprocessor works off, by all of its blocks.
        active: blocks that have any.
        tail: pieces of a last wave that is not full, after full ones, and of all waves.
    """

    units: int
    waves: int
    turns: int
    active: int
    tail: tuple[int, int]

    @classmethod
    def of(
        cls, call: Call, bm: int, bn: int, together: int = 1, split: int = 1, resident: int = 1
    ) -> Tiles:
        """Tiles of bm x bn, blocks in clusters of `together` rows, K split over `split` blocks.

        A multiprocessor has `resident` of the blocks at once.
        """
        rows = ceil_div(ceil_div(call.m, bm), together) * together
        units = rows * ceil_div(call.n, bn) * call.count * split
        cluster = max(together, split)
        # Clusters of four and more do not find room everywhere.
        room = call.device.processors * (10 if cluster > 2 else 11) // 11
        processors = room // cluster * cluster or call.device.processors
        places = processors * resident
        waves = ceil_div(units, places)
        last = units % places if waves > 1 else 0
        active = min(units, places)
        return cls(units, waves, ceil_div(units, processors), active, (last, units))

    def busy(self, device: Device) -> float:
        """Part of the device's matrix units that works, over all waves."""
        return self.units / (self.turns * device.processors)

    def why(self) -> str:
        """Waves in words."""
        return f"{self.units} tiles in {self.waves} wave{'s' if self.waves > 1 else ''}"


def _travel(
    call: Call, tiles: Tiles, steps: int, slice_bytes: float, shared_bytes: float, lines: float
) -> list[Term]:
    """The slices' ways from L2 into shared memory: all together, and into the busiest multiprocessor."""
    device = call.device
    total = tiles.units * steps * shared_bytes * lines
    own = tiles.turns * steps * slice_bytes * lines
    return [
        Term("L2", total / device.l2 / 1e9, f"{total / 1e6:.0f} MB at {device.l2 / 1e3:.1f} TB/s"),
        Term(
            "intake",
            own / device.intake / 1e9,
            f"{own / 1e6:.1f} MB into a multiprocessor at {device.intake:.0f} GB/s",
        ),
    ]


def _wgmma(schedule: WgmmaGemm, call: Call) -> Estimate:
    bm, bn, bk = schedule.tile
    size = call.problem.storage.bytes
    together = schedule.cluster if not schedule.workspace else 1
    tiles = Tiles.of(call, bm, bn, together, schedule.split, schedule.resident)
    steps = ceil_div(ceil_div(call.k, bk), schedule.split)
    # One wgmma reads 32 bytes of K of its 64 rows and of its columns out of shared memory.
    products = bm * bn * bk * size / 2 / call.device.tensor
    reads = schedule.mma_m / 64 * (SPAN_BYTES / 32) * (64 + schedule.mma_n) * 32 / SHARED
    promoting = 1.25 if schedule.promotes(call.problem) else 1.0
    cycles = tiles.turns * steps * max(products, reads) * promoting
    clock = call.clock(tiles.busy(call.device))
    shared = (min(bm, call.m) + min(bn, call.n) / schedule.cluster) * bk * size
    phantom = ceil_div(call.m, bm) % schedule.cluster != 0
    # Copies of displaced operands start their rows where lines begin.
    lines = 1.0 if schedule.repack and _displaced(call) else call.lines
    coupled = schedule.cluster > 1 and (bm <= 64 or bn // schedule.cluster < 64)
    slow = COUPLED if coupled else 1.0
    terms = [
        Term(
            "matrix units", cycles / clock / 1e9 * slow * (PHANTOM if phantom else 1), tiles.why()
        ),
        *_travel(call, tiles, steps, (bm + bn) * bk * size * slow, shared, lines),
        _outside(schedule, call, steps),
        Term(
            "latency",
            tiles.waves * steps * STEP / (schedule.stages - 1) / 1e9,
            f"{tiles.waves * steps} steps, {schedule.stages - 1} ahead",
        ),
        call.memory(tiles.active * (schedule.stages - 1) * schedule.stage_bytes(), tail=tiles.tail),
    ]
    hidden = schedule.pingpong or tiles.waves == 1
    stored = bm * bn * call.problem.out_dtype.bytes
    rate = STORE * schedule.chunk_n / 64 if schedule.staged(call.problem) else SCATTER
    results = (1 if hidden else tiles.waves) * (RESULTS + stored / rate)
    start = LAUNCH + (CLUSTER if schedule.cluster > 1 else 0)
    terms.append(Term("start", start / 1e9, "launch and first fill", overlaps=False))
    terms.append(Term("results", results / 1e9, "that no other tile hides", overlaps=False))
    if schedule.split > 1:
        terms.append(_exchange(schedule, call, tiles))
    if schedule.repack:
        terms += _repacking(call)
    return Estimate(schedule, tuple(terms))


def _outside(schedule: WgmmaGemm, call: Call, steps: int) -> Term:
    """Rows of steps that lie outside of A and B: zeros all the same have to be filled in."""
    bm, bn, _ = schedule.tile
    along_m, along_n = ceil_div(call.m, bm), ceil_div(call.n, bn)
    rows = (
        (along_n * (-call.m % bm) + along_m * (-call.n % bn)) * call.count * schedule.split * steps
    )
    return Term("outside", rows / OUTSIDE / 1e9, f"{rows} rows of steps outside the operands")


def _exchange(schedule: WgmmaGemm, call: Call, tiles: Tiles) -> Term:
    """Sums of the parts of K on their way, and the next tile that starts only then."""
    others = 4 * schedule.mma_m * schedule.mma_n * (schedule.split - 1)
    if schedule.workspace:
        moved = 2 * tiles.units * 4 * schedule.mma_m * schedule.mma_n
        seconds = (WORKSPACE + moved / call.device.l2 * 2) / 1e9
    else:
        once = EXCHANGE + others / PEERS
        seconds = (tiles.waves * once + (tiles.waves - 1) * call.device.latency) / 1e9
    return Term("exchange", seconds, f"of {schedule.split} sums", overlaps=False)


def _repacking(call: Call) -> list[Term]:
    """Copies of operands whose rows are displaced, and results that leave the same way."""
    size = call.problem.storage.bytes
    found = []
    moved = 2 * size * call.count * sum(a * b for a, b in _displaced(call))
    if moved:
        rate = call.device.memory * 0.8
        found.append(Term("copies", moved / rate / 1e9 + 3e-6, "of operands", overlaps=False))
    if call.n * call.problem.out_dtype.bytes % 16:
        stored = call.m * call.n * call.count * call.problem.out_dtype.bytes
        found.append(Term("odd rows", stored / UNALIGNED / 1e9, "of results", overlaps=False))
    return found


def _displaced(call: Call) -> list[tuple[int, int]]:
    """Extents of the operands whose rows are no multiple of 16 bytes."""
    extent = {"m": call.m, "n": call.n, "k": call.k}
    layout = call.problem.layout
    pairs = [[extent[d] for d in dims] for dims in (layout.a_dims, layout.b_dims)]
    return [(r, c) for r, c in pairs if c * call.problem.storage.bytes % 16]


def _mma(schedule: MmaGemm, call: Call) -> Estimate:
    bm, bn, bk = schedule.tile
    size, device = call.problem.storage.bytes, call.device
    tiles = Tiles.of(call, bm, bn)
    steps = ceil_div(call.k, bk)
    products = bm * bn * bk * size / 2 / device.mma
    wm, wn = schedule.warp_tile
    warps = schedule.warps[0] * schedule.warps[1]
    reads = warps * (wm + wn) * bk * size / SHARED
    # A warp alone cannot keep its quarter of the units busy: small parts wait for their own loads.
    resident = min(schedule.resident(size, call.where), ceil_div(tiles.units, device.processors))
    busy_warps = min(1.0, (warps * resident / 8) ** 0.6)
    part = min(1.0, (wm * wn / (64 * 64)) ** 0.15)
    part *= 0.55 if call.problem.dtype is TF32 else 1.0
    clock = call.clock(tiles.busy(device) * 0.3)
    cycles = tiles.turns * steps * (max(products / busy_warps / part, reads) + SLICE * clock)
    slice_bytes = (min(bm, call.m) + min(bn, call.n)) * bk * size
    held = min(tiles.units, device.processors * resident)
    terms = [
        Term("matrix units", cycles / clock / 1e9 * call.narrow, tiles.why()),
        *_travel(call, tiles, steps, slice_bytes, slice_bytes, call.lines),
        call.memory(held * (schedule.stages - 1) * slice_bytes),
    ]
    stored = RESULTS + bm * bn * call.problem.out_dtype.bytes / SCATTER / 4
    results = stored * (1 if resident > 1 else tiles.waves)
    terms.append(Term("start", 1.2 * LAUNCH / 1e9, "launch and first fill", overlaps=False))
    terms.append(Term("results", results / 1e9, "that no other tile hides", overlaps=False))
    return Estimate(schedule, tuple(terms))


def _simt(schedule: SimtGemm, call: Call) -> Estimate:
    bm, bn, bk = schedule.tile
    size, device = call.problem.dtype.bytes, call.device
    tiles = Tiles.of(call, bm, bn)
    steps = ceil_div(call.k, bk)
    rate = device.fma64 if call.problem.dtype is F64 else device.fma32
    own = schedule.thread_tile
    # A warp's rows and columns are read once for all of its threads that share them.
    reads = schedule.threads * (own[0] + own[1]) * bk * size / SHARED / 4
    resident = max(1, min(call.where.threads_sm // schedule.threads, 3))
    resident = min(resident, ceil_div(tiles.units, device.processors))
    hiding = min(1.0, (schedule.threads * resident / 512) ** 0.4)
    cycles = tiles.turns * steps * max(bm * bn * bk / rate / ORDINARY / hiding, reads)
    slice_bytes = (min(bm, call.m) + min(bn, call.n)) * bk * size
    terms = [
        Term("arithmetic", cycles / device.clock / 1e9, tiles.why()),
        *_travel(call, tiles, steps, slice_bytes, slice_bytes, call.lines),
        call.memory(tiles.active * resident * slice_bytes),
        Term("start", LAUNCH / 1e9, "launch and first fill", overlaps=False),
    ]
    return Estimate(schedule, tuple(terms))


def _gemv(schedule: GemvGemm, call: Call) -> Estimate:
    size, device = call.problem.dtype.bytes, call.device
    passes = ceil_div(call.m, schedule.vectors)
    warps = ceil_div(call.n, schedule.columns) * schedule.split
    registers = -(-schedule.registers(call.problem) // 8) * 8
    resident = min(call.where.threads_sm // 32, call.where.registers_sm // (32 * registers))
    held = min(warps, device.processors * resident)
    in_flight = held * schedule.columns * schedule.unroll * 32 * VECTOR_BYTES
    # A column's depth is cut into whole rounds of a warp's vectors; what is left over waits alone.
    span = 32 * VECTOR_BYTES // size * schedule.unroll * schedule.split
    waste = ceil_div(call.k, span) * span / call.k
    # Few warps leave gaps between their requests; many one after the other each begin and end.
    gaps = 1 + 0.06 * max(0.0, 1 - warps / device.processors / 32)
    turns = max(0.0, warps / (device.processors * resident) - 1)
    moved = call.bytes + (passes - 1) * call.n * call.k * size / 4
    flops = passes * schedule.vectors * call.n * call.k
    products = flops * 2 / (device.processors * device.fma32 * device.clock * ORDINARY) / 1e9
    terms = [
        call.memory(in_flight, moved * min(waste, 1.3) ** 0.25 * gaps),
        Term("arithmetic", products, f"{passes} passes of {schedule.vectors} rows"),
        Term("start", 2.9e-6 + 0.25e-6 * turns, "launch and first vectors", overlaps=False),
    ]
    return Estimate(schedule, tuple(terms))
