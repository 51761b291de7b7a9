"""How long a GEMM takes on a GPU: waves of tiles, bytes on their way, and what nothing hides.

A kernel is as slow as the slowest of what overlaps: the arithmetic units over all waves of tiles, the slices that
travel from L2 into shared memory, those that one multiprocessor takes in, and device memory. Launch, the
first fill, and results that no other work hides come on top. The constants are fitted to kernels measured on an
H200 (benchmarks/results/gemm_wgmma_h200.json); of other devices only the figures of `DEVICES` are theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilegen.model.devices import DEVICES
from tilegen.model.estimate import Estimate, Term
from tilegen.model.gemm_cuda_call import Call, Tiles, call_of, travel
from tilegen.model.gemm_cuda_stream import Shares
from tilegen.plans.base import ceil_div
from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Schedule
from tilegen.schedules.gemm_gemv import VECTOR_BYTES, GemvGemm
from tilegen.schedules.gemm_mma import MmaGemm
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.schedules.gemm_wgmma import SPAN_BYTES, WgmmaGemm
from tilegen.targets import CudaTarget
from tilegen.values import F64, TF32

# Estimates that differ by less are equal.
TIE = 0.001

# Nanoseconds: a launch up to the first slice; clusters that start together; a split's exchange of sums.
LAUNCH, CLUSTER, EXCHANGE = 2300.0, 700.0, 1200.0
# Nanoseconds that a kernel takes longer which may cut tiles, whether it does or not.
STREAMING = 500.0
# Bytes a nanosecond between the blocks of a cluster; nanoseconds of the kernel that adds up a workspace.
PEERS, WORKSPACE = 20.0, 2000.0
# Nanoseconds from the request of a step to its products, with which the stages ahead are shared.
STEP = 700.0
# Rows of steps that lie outside of an operand, which the copy engines of the device fill a nanosecond.
OUTSIDE = 14.0
# Nanoseconds of a tile's results that no other tile hides, besides their bytes.
RESULTS = 350.0
# How much longer steps take of which each block of a pair reads a small part for both.
COUPLED = 1.25
# Bytes a nanosecond at which a multiprocessor writes results out of its staging, or from registers.
STORE, SCATTER = 100.0, 12.0
# Nanoseconds of a tile that a block of a pair waits for the other, where consumers write for long in turn.
WRITING = 150.0
# Bytes a nanosecond of the whole device, results written from registers to odd addresses.
UNALIGNED = 1500.0
# Instructions of single threads that a multiprocessor issues in a clock.
ISSUED = 128
# Bytes that shared memory gives in a clock.
SHARED = 128
# How much longer products take whose sums are promoted, by whether consumers take turns.
PROMOTING = {False: 1.25, True: 1.8}
# How much faster warps that read long rows draw from device memory than the copy engine does.
STREAMED = 1.06
# Part of the time that is left where the first vectors wait in L2, and where they are read twice for nothing.
ASKED, ASKED_IN_VAIN = 0.97, 1.02
# Part of a last turn that its few warps have to themselves.
UNEVEN = 0.4
# Nanoseconds of a vector that is read and used alone.
LEFT_OVER = 500.0
# Part of a peak that ordinary units reach.
ORDINARY = 0.72
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
    call = call_of(problem, where, tuple(sizes.items()))
    if isinstance(schedule, GemvGemm):
        return _gemv(schedule, call)
    if isinstance(schedule, WgmmaGemm):
        return _wgmma(schedule, call)
    if isinstance(schedule, MmaGemm):
        return _mma(schedule, call)
    return _simt(schedule, call)


def _wgmma(schedule: WgmmaGemm, call: Call) -> Estimate:
    bm, bn, bk = schedule.tile
    size = call.problem.storage.bytes
    together = schedule.cluster if not schedule.workspace else 1
    beside = schedule.cluster_n
    tiles = Tiles.of(call, bm, bn, together, schedule.split, schedule.resident, beside)
    steps = ceil_div(ceil_div(call.k, bk), schedule.split)
    stored_tiles, why = tiles.waves, tiles.why()
    shares = Shares.at(schedule, call) if schedule.stream else None
    if shares and shares.cuts:
        tiles, steps, why = shares.as_tiles(schedule, call), shares.steps, shares.why()
    # One wgmma reads 32 bytes of K of its 64 rows and of its columns out of shared memory.
    products = bm * bn * bk * size / 2 / call.device.tensor
    reads = schedule.mma_m / 64 * (SPAN_BYTES / 32) * (64 + schedule.mma_n) * 32 / SHARED
    promoting = PROMOTING[schedule.pingpong] if schedule.promotes(call.problem) else 1.0
    cycles = tiles.turns * steps * max(products, reads) * promoting
    clock = call.clock(tiles.busy(call.device))
    shared = (min(bm, call.m) / beside + min(bn, call.n) / schedule.cluster) * bk * size
    phantom = ceil_div(call.m, bm) % schedule.cluster != 0
    # Copies of displaced operands start their rows where lines begin.
    lines = 1.0 if schedule.repack and _displaced(call) else call.lines
    coupled = schedule.cluster > 1 and (bm <= 64 or bn // schedule.cluster < 64)
    slow = COUPLED if coupled else 1.0
    terms = [
        Term("matrix units", cycles / clock / 1e9 * slow * (PHANTOM if phantom else 1), why),
        *travel(call, tiles, steps, (bm + bn) * bk * size * slow, shared, lines),
        _outside(schedule, call, ceil_div(ceil_div(call.k, bk), schedule.split)),
        Term(
            "latency",
            tiles.waves * steps * STEP / (schedule.stages - 1) / 1e9,
            f"{tiles.waves * steps} steps, {schedule.stages - 1} ahead",
        ),
        call.memory(tiles.active * (schedule.stages - 1) * schedule.stage_bytes(), tail=tiles.tail),
    ]
    hidden = schedule.pingpong or stored_tiles == 1
    stored = bm * bn * call.problem.out_dtype.bytes
    # Narrow chunks cost less where a block has one tile, whose stores meet no loads.
    alone = stored_tiles == 1 and not schedule.repack
    narrow = (schedule.chunk_n / 64) ** (0.5 if alone else 1)
    rate = STORE * narrow if schedule.staged(call.problem) else SCATTER
    formula = bm * bn * call.arithmetic / ISSUED / clock
    results = (1 if hidden else stored_tiles) * (RESULTS + stored / rate + formula)
    if schedule.pingpong and schedule.sharing > 1 and call.arithmetic:
        results += WRITING * stored_tiles
    start = LAUNCH + (CLUSTER if schedule.sharing > 1 else 0) + STREAMING * schedule.stream
    terms.append(Term("start", start / 1e9, "launch and first fill", overlaps=False))
    terms.append(Term("results", results / 1e9, "that no other tile hides", overlaps=False))
    if shares and shares.cuts:
        terms.append(shares.exchange(schedule))
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
        rate = call.device.memory * 1.4
        found.append(Term("copies", moved / rate / 1e9 + 2e-6, "of operands", overlaps=False))
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
        *travel(call, tiles, steps, slice_bytes, slice_bytes, call.lines),
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
        *travel(call, tiles, steps, slice_bytes, slice_bytes, call.lines),
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
    places = device.processors * max(1, resident // schedule.warps) * schedule.warps
    own = schedule.columns * schedule.unroll * 32 * VECTOR_BYTES
    # Few warps leave gaps between their requests.
    gaps = 1 + 0.06 * max(0.0, 1 - warps / device.processors / 32)
    moved = (call.bytes + (passes - 1) * call.n * call.k * size / 4) / STREAMED * gaps
    whole, last = divmod(warps, places)
    steps = ceil_div(call.k * size, 32 * VECTOR_BYTES * schedule.split)
    if schedule.ahead:
        gains = schedule.columns == 1 and whole <= 3 and steps >= 4 * schedule.unroll
        moved *= ASKED if gains else ASKED_IN_VAIN
    terms = [call.memory(min(warps, places) * own, moved * min(1.0, whole * places / warps))]
    if last:
        # The last turn has few warps on their way, though the one before it ends little by little.
        rest = moved * last / warps
        alone = call.memory(last * own, rest).seconds
        among = call.memory(min(warps, places) * own, rest).seconds
        seconds = among + (alone - among) * (UNEVEN if whole else 1.0)
        terms = [dataclasses.replace(terms[0], seconds=seconds + terms[0].seconds * (whole > 0))]
    flops = passes * schedule.vectors * call.n * call.k
    products = flops * 2 / (device.processors * device.fma32 * device.clock * ORDINARY) / 1e9
    # What a column's depth leaves over beyond whole rounds is read vector by vector.
    left = steps % schedule.unroll * ceil_div(warps, places) * LEFT_OVER / 1e9
    terms += [
        Term("arithmetic", products, f"{passes} passes of {schedule.vectors} rows"),
        Term("rest of K", left, "vectors beyond whole rounds", overlaps=False),
        Term("start", 2.3e-6 + 0.05e-6 * whole, "launch and first vectors", overlaps=False),
    ]
    return Estimate(schedule, tuple(terms))
