"""How long a GEMM takes on a GPU: waves of tiles, bytes on their way, and what nothing hides.

What overlaps adds up as a norm: the arithmetic units over all waves of tiles, the slices that travel from L2 into shared
memory, those that one multiprocessor takes in, and device memory. Launch, the first fill, and results that no other work
hides come on top. The constants are fitted to kernels measured on an H200 (tuning/nvidia-h200/gemm.toml and
benchmarks/results/gemm_*h200*.json); of other devices only the figures of `DEVICES` are theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilegen.model import gemm_cuda_wgmma
from tilegen.model.devices import DEVICES
from tilegen.model.estimate import OVERLAP, Estimate, Term
from tilegen.model.gemm_cuda_call import Call, Tiles, call_of, odd_rows, travel
from tilegen.plans.base import ceil_div
from tilegen.problems.gemm import Gemm
from tilegen.problems.scaled_gemm import ScaledGemm
from tilegen.schedules.base import Schedule
from tilegen.schedules.gemm_gemv import VECTOR_BYTES, GemvGemm
from tilegen.schedules.gemm_mma import MmaGemm
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.schedules.gemm_wgmma import WgmmaGemm
from tilegen.schedules.gemm_wgmma_scaled import WgmmaScaledGemm
from tilegen.targets import CudaTarget
from tilegen.values import F64, TF32

# Estimates that differ by less are equal.
TIE = 0.001

# Nanoseconds of a launch up to the first slice.
LAUNCH = 2300.0
# Nanoseconds of a tile's results that no other tile hides, besides their bytes.
RESULTS = 350.0
# Bytes a nanosecond at which a multiprocessor writes results from registers.
SCATTER = 48.0
# Bytes that shared memory gives in a clock.
SHARED = 128
# How much longer device memory takes for cp.async than for the copy engine.
COPIED = 1.1
# How much faster warps that read long rows draw from device memory than the copy engine does.
STREAMED = 1.04
# Part of the time that is left where the first vectors wait in L2, and where they are read twice for nothing.
ASKED, ASKED_IN_VAIN = 0.96, 1.04
# How much longer each column of a block takes for every four more that end together before another block gets their place.
TOGETHER = 0.024
# Part of a last turn that its few warps have to themselves.
UNEVEN = 0.24
# Nanoseconds of a vector that is read and used alone, and of a turn of blocks.
LEFT_OVER, TURN = 720.0, 150.0
# Part of a peak that ordinary units reach.
ORDINARY = 0.72
# Nanoseconds that a slice of mma.sync waits at its barrier, and that a tile waits for its first slices.
SLICE, FILL = 60.0, 2000.0


def knows(problem: Gemm | ScaledGemm, where: CudaTarget) -> bool:
    """Whether the model has the problem's schedules on the target."""
    scaled = isinstance(problem, ScaledGemm)
    classes = (WgmmaScaledGemm,) if scaled else (WgmmaGemm, MmaGemm, SimtGemm)
    return where.name in DEVICES and any(c.accepts(problem, where) is None for c in classes)


def estimate(
    schedule: Schedule, problem: Gemm | ScaledGemm, where: CudaTarget, sizes: Mapping[str, int]
) -> Estimate:
    """Estimate one schedule, legal for the problem on the target, at the given extents."""
    call = call_of(problem, where, tuple(sizes.items()))
    if isinstance(schedule, WgmmaScaledGemm):
        # Sums that are scaled in each step take what those do that are promoted.
        return dataclasses.replace(gemm_cuda_wgmma.estimate(schedule.like, call), schedule=schedule)
    if isinstance(schedule, GemvGemm):
        return _gemv(schedule, call)
    if isinstance(schedule, WgmmaGemm):
        return gemm_cuda_wgmma.estimate(schedule, call)
    if isinstance(schedule, MmaGemm):
        return _mma(schedule, call)
    return _simt(schedule, call)


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
        call.memory(held * (schedule.stages - 1) * slice_bytes, call.bytes * COPIED),
    ]
    stored = RESULTS + bm * bn * call.problem.out_dtype.bytes / SCATTER
    results = stored * (1 if resident > 1 else tiles.waves)
    # Blocks beside each other on a processor hide each other's fills.
    fills = 1.2 * LAUNCH + FILL * (tiles.turns / resident - 1)
    terms.append(Term("start", fills / 1e9, "launch and first fills", overlaps=False))
    terms.append(Term("results", results / 1e9, "that no other tile hides", overlaps=False))
    return Estimate(schedule, (*terms, *odd_rows(call)), OVERLAP)


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
    return Estimate(schedule, tuple(terms), OVERLAP)


def _gemv(schedule: GemvGemm, call: Call) -> Estimate:
    size, device = call.problem.dtype.bytes, call.device
    passes = ceil_div(call.m, schedule.vectors)
    warps = ceil_div(call.n, schedule.columns) * schedule.split
    registers = -(-schedule.registers(call.problem) // 8) * 8
    resident = min(call.where.threads_sm // 32, call.where.registers_sm // (32 * registers))
    places = device.processors * max(1, resident // schedule.warps) * schedule.warps
    own = schedule.columns * schedule.unroll * 32 * VECTOR_BYTES
    moved = (call.bytes + (passes - 1) * call.n * call.k * size / 4) / STREAMED
    others = schedule.warps // schedule.split - 1
    moved *= 1 + TOGETHER * schedule.columns * others / 4
    whole, last = divmod(warps, places)
    vectors = 32 * VECTOR_BYTES * schedule.split
    rounds, steps = call.k * size // (vectors * schedule.unroll), ceil_div(call.k * size, vectors)
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
    left = (steps - rounds * schedule.unroll) * ceil_div(warps, places) * LEFT_OVER / 1e9
    terms += [
        Term("arithmetic", products, f"{passes} passes of {schedule.vectors} rows"),
        Term("rest of K", left, "vectors beyond whole rounds", overlaps=False),
        Term("start", (LAUNCH + TURN * whole) / 1e9, "launch and first vectors", overlaps=False),
    ]
    return Estimate(schedule, tuple(terms), OVERLAP)
