"""How long WgmmaGemm takes on Hopper: what overlaps in its loops along K, and what nothing hides.

The constants are fitted to some 3300 pairs of a kernel and a size that were timed on an H200: the tuning table of that
device, and the reports gemm_wgmma_h200, gemm_h200_large, tiles, waves and few_rows in benchmarks/results. Fitted to half of
the sizes, they lose 1 to 1.5 % at the other half.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.model.estimate import OVERLAP, Estimate, Term
from tilegen.model.gemm_cuda_call import Call, Tiles, odd_rows, travel
from tilegen.model.gemm_cuda_stream import Shares
from tilegen.plans.base import ceil_div
from tilegen.schedules.gemm_wgmma import SPAN_BYTES, WgmmaGemm

# Nanoseconds: a launch up to the first slice; clusters that start together.
LAUNCH, CLUSTER = 2000.0, 900.0
# Nanoseconds of a split's exchange of sums, and of the next tile that starts only then.
EXCHANGE, NEXT = 400.0, 600.0
# Nanoseconds that a kernel takes longer which may cut tiles, whether it does or not.
STREAMING = 380.0
# Bytes a nanosecond between the blocks of a cluster; nanoseconds of the kernel that adds up a workspace.
PEERS, WORKSPACE = 60.0, 2000.0
# Nanoseconds from the request of a step to its products, with which the stages ahead are shared.
STEP = 820.0
# Rows of steps that lie outside of an operand, which the copy engines of the device fill a nanosecond.
OUTSIDE = 18.0
# Nanoseconds of a tile's results that no other tile hides, besides their bytes.
RESULTS = 200.0
# Nanoseconds that a second consumer costs which has no tile to take in turn.
IDLE = 60.0
# How much longer products take in a pair of blocks, each of which loads 64 columns for both: neither gets ahead of the
# other by more than the stages hold.
PAIRED = 1.03
# The same of blocks side by side that load the rows of A for each other.
SIDE = 1.05
# How much longer steps take of which each block of a pair loads less, or multiplies fewer rows.
COUPLED = 1.14
# Bytes a nanosecond at which a multiprocessor writes results out of its staging, or from registers.
STORE, SCATTER = 29.0, 3.8
# Bytes a nanosecond of the whole device that copies of operands move.
COPIES = 5900.0
# Bytes that shared memory gives in a clock.
SHARED = 128
# Instructions of single threads that a multiprocessor issues in a clock.
ISSUED = 128
# Clocks of a step in which sums are promoted, or scaled, that no other consumer's products hide; how much longer products
# take for it where consumers take turns.
PROMOTING, PROMOTING_IN_TURN = 130.0, 1.8
# The same clocks in a kernel that may cut tiles.
PROMOTING_CUT = 190.0
# Bytes a nanosecond that a pair of multiprocessors, which share a port, draws from device memory.
PORT = 77.5
# The same of one in a last wave, where few have work left.
ALONE = 44.0
# How much longer B takes to come from memory where all blocks but one read what another asks for at the same time.
AGAIN = 0.52
# How much longer memory takes where the blocks of a cluster read at different places of K.
APART = 1.05


def estimate(schedule: WgmmaGemm, call: Call) -> Estimate:
    """Estimate a schedule at the sizes of a call.

    Large products run into the power limit: the clock follows from the part of the time in which matrix units multiply.
    """
    work = Work.of(schedule, call)
    beside, alone = _loads(work), _alone(work)

    def at(clock: float) -> Estimate:
        units = Term("matrix units", work.cycles / clock / 1e9, work.why)
        terms = (units, *beside, *_results(work, clock), *alone)
        return Estimate(schedule, terms, OVERLAP)

    busy = work.multiplying / call.device.clock / 1e9 / at(call.device.clock).seconds
    return at(call.clock(busy))


@dataclass(frozen=True)
class Work:
    """What a schedule does at one size.

    Attributes:
        schedule, call: which, and where.
        tiles: how its pieces of work fall on the device.
        steps: of K in a piece.
        stored: tiles whose results the busiest block writes.
        shares: how clusters share tiles, where they cut any.
        why: how the pieces fall on the device, in words.
    """

    schedule: WgmmaGemm
    call: Call
    tiles: Tiles
    steps: int
    stored: int
    shares: Shares | None
    why: str

    @classmethod
    def of(cls, schedule: WgmmaGemm, call: Call) -> Work:
        """The work of a schedule at the sizes of a call."""
        bm, bn, bk = schedule.tile
        together = 1 if schedule.workspace else schedule.cluster
        beside = schedule.cluster_n
        tiles = Tiles.of(call, bm, bn, together, schedule.split, schedule.resident, beside)
        steps = ceil_div(ceil_div(call.k, bk), schedule.split)
        shares = Shares.at(schedule, call) if schedule.stream else None
        if shares is None or not shares.cuts:
            return cls(schedule, call, tiles, steps, tiles.waves, None, tiles.why())
        cut = shares.as_tiles(schedule, call)
        return cls(schedule, call, cut, shares.steps, tiles.waves, shares, shares.why())

    @property
    def step(self) -> float:
        """Clocks of the products of a step, or of what wgmma reads for them out of shared memory.

        One wgmma reads 32 bytes of K of its 64 rows and of its columns.
        """
        schedule, size = self.schedule, self.call.problem.storage.bytes
        bm, bn, bk = schedule.tile
        products = bm * bn * bk * size / 2 / self.call.device.tensor
        spans = schedule.mma_m / 64 * (SPAN_BYTES / 32)
        clocks = max(products, spans * (64 + schedule.mma_n) * 32 / SHARED)
        if not schedule.promotes(self.call.problem):
            return clocks
        promoted = clocks + (PROMOTING_CUT if schedule.stream else PROMOTING)
        return max(promoted, clocks * PROMOTING_IN_TURN) if schedule.pingpong else promoted

    @property
    def slow(self) -> float:
        """How much longer steps take of a pair whose blocks load small parts for each other."""
        bm, bn, _ = self.schedule.tile
        pair = self.schedule.cluster
        return COUPLED if pair > 1 and (bm <= 64 or bn // pair < 64) else 1.0

    @property
    def cycles(self) -> float:
        """Clocks that the matrix units of the busiest multiprocessor take."""
        bm, bn, _ = self.schedule.tile
        pair = self.schedule.cluster
        paired = PAIRED if pair > 1 and bm > 64 and bn // pair <= 64 else 1.0
        paired *= SIDE if self.schedule.cluster_n > 1 else 1.0
        return self.tiles.turns * self.steps * self.step * self.slow * paired

    @property
    def multiplying(self) -> float:
        """Clocks in which the matrix units of all multiprocessors multiply, on average."""
        bm, bn, bk = self.schedule.tile
        products = bm * bn * bk * self.call.problem.storage.bytes / 2 / self.call.device.tensor
        pieces = self.tiles.units / self.call.device.processors
        return pieces * self.steps * products


def _loads(work: Work) -> list[Term]:
    """What runs beside the matrix units: slices on their ways, and the latency of their steps."""
    schedule, call, tiles, steps = work.schedule, work.call, work.tiles, work.steps
    bm, bn, bk = schedule.tile
    size = call.problem.storage.bytes
    shared = (min(bm, call.m) / schedule.cluster_n + min(bn, call.n) / schedule.cluster) * bk * size
    # Copies of displaced operands start their rows where lines begin.
    lines = 1.0 if schedule.repack and _displaced(call) else call.lines
    ahead = schedule.stages - 1
    return [
        *travel(call, tiles, steps, (bm + bn) * bk * size * work.slow, shared, lines),
        _outside(work),
        Term(
            "latency",
            tiles.waves * steps * STEP / ahead / 1e9,
            f"{tiles.waves * steps} steps, {ahead} ahead",
        ),
        _memory(work),
    ]


def _outside(work: Work) -> Term:
    """Rows of steps that lie outside of A and B: zeros all the same have to be filled in."""
    schedule, call = work.schedule, work.call
    bm, bn, bk = schedule.tile
    along_m, along_n = ceil_div(call.m, bm), ceil_div(call.n, bn)
    steps = schedule.split * ceil_div(ceil_div(call.k, bk), schedule.split)
    rows = (along_n * (-call.m % bm) + along_m * (-call.n % bn)) * call.count * steps
    return Term("outside", rows / OUTSIDE / 1e9, f"{rows} rows of steps outside the operands")


def _memory(work: Work) -> Term:
    """Device memory: no faster than the ports of what is left to work, and slower where blocks ask for the same."""
    schedule, call, tiles = work.schedule, work.call, work.tiles
    rate, moved = call.device.memory, max(1, call.bytes)
    last, pieces = tiles.tail
    piece = moved / pieces
    if tiles.waves == 1:
        busiest = ceil_div(pieces, call.device.processors // 2)
        time = max(moved / rate, busiest * piece / PORT)
    else:
        tail = max(last * piece / rate, piece / ALONE) if last else 0.0
        time = (moved - last * piece) / rate + tail
    readers = ceil_div(ceil_div(call.m, schedule.tile[0]), schedule.cluster)
    of_b = call.n * call.k * call.problem.storage.bytes * call.count / moved
    time *= 1 + AGAIN * (1 - 1 / readers) * of_b
    time *= APART if schedule.cluster_split > 1 else 1.0
    return Term("device memory", time / 1e9, f"{moved / 1e6:.1f} MB at {rate / 1e3:.2f} TB/s")


def _results(work: Work, clock: float) -> list[Term]:
    """Results that no other tile hides."""
    schedule, call = work.schedule, work.call
    bm, bn, _ = schedule.tile
    stored = bm * bn * call.problem.out_dtype.bytes
    # Narrow chunks cost less where a block has one tile, whose stores meet no loads.
    alone = work.stored == 1 and not schedule.repack
    narrow = (schedule.chunk_n / 64) ** (0.5 if alone else 1)
    rate = STORE * narrow if schedule.staged(call.problem) else SCATTER
    formula = bm * bn * call.arithmetic / ISSUED / clock
    write = RESULTS + stored / rate + formula
    tiles = float(work.stored)
    if schedule.pingpong:
        # One consumer writes while the other multiplies, who waits where writing takes longer.
        tiles = 1 + (tiles - 1) * max(0.0, 1 - work.steps * work.step / clock / write)
    idle = IDLE if schedule.pingpong and work.stored == 1 else 0.0
    seconds = (tiles * write + idle) / 1e9
    return [Term("results", seconds, "that no other tile hides", overlaps=False)]


def _alone(work: Work) -> list[Term]:
    """What overlaps nothing: the start, sums that blocks exchange, and copies of operands."""
    schedule, call = work.schedule, work.call
    start = LAUNCH + (CLUSTER if schedule.sharing > 1 else 0) + STREAMING * schedule.stream
    terms = [Term("start", start / 1e9, "launch and first fill", overlaps=False)]
    if work.shares:
        terms.append(work.shares.exchange(schedule))
    if schedule.split > 1:
        terms.append(_exchange(work))
    if schedule.repack:
        terms += _repacking(call)
    return terms


def _exchange(work: Work) -> Term:
    """Sums of the parts of K on their way, and the next tile that starts only then."""
    schedule, tiles = work.schedule, work.tiles
    others = 4 * schedule.mma_m * schedule.mma_n * (schedule.split - 1)
    if schedule.workspace:
        moved = 2 * tiles.units * 4 * schedule.mma_m * schedule.mma_n
        seconds = (WORKSPACE + moved / work.call.device.l2 * 2) / 1e9
    else:
        once = EXCHANGE + others / PEERS
        seconds = (tiles.waves * once + (tiles.waves - 1) * NEXT) / 1e9
    return Term("exchange", seconds, f"of {schedule.split} sums", overlaps=False)


def _repacking(call: Call) -> list[Term]:
    """Copies of operands whose rows are displaced, and results that leave the same way."""
    size = call.problem.storage.bytes
    found = []
    moved = 2 * size * call.count * sum(a * b for a, b in _displaced(call))
    if moved:
        found.append(Term("copies", moved / COPIES / 1e9 + 2e-6, "of operands", overlaps=False))
    found += odd_rows(call)
    return found


def _displaced(call: Call) -> list[tuple[int, int]]:
    """Extents of the operands whose rows are no multiple of 16 bytes."""
    extent = {"m": call.m, "n": call.n, "k": call.k}
    layout = call.problem.layout
    pairs = [[extent[d] for d in dims] for dims in (layout.a_dims, layout.b_dims)]
    return [(r, c) for r, c in pairs if c * call.problem.storage.bytes % 16]
