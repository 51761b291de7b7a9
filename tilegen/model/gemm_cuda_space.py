"""Which schedules of a GEMM on a GPU are worth an estimate at given sizes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

from tilegen.model.gemm_cuda_call import call_of
from tilegen.model.gemm_cuda_stream import Shares
from tilegen.problems.base import extent
from tilegen.problems.gemm import Gemm
from tilegen.problems.scaled_gemm import SCALE_BLOCK, ScaledGemm
from tilegen.schedules.base import Schedule
from tilegen.schedules.gemm_gemv import GemvGemm
from tilegen.schedules.gemm_mma import MmaGemm
from tilegen.schedules.gemm_simt import SimtGemm
from tilegen.schedules.gemm_wgmma import SPAN_BYTES, WgmmaGemm
from tilegen.schedules.gemm_wgmma_scaled import WgmmaScaledGemm
from tilegen.targets import CudaTarget
from tilegen.values import Tile

# Tiles worth an estimate: widths for which some number of waves is nearly full, whatever N.
_TILES = [
    *((64, n) for n in (16, 32, 48, 64, 80, 96, 112, 128, 192, 224)),
    *((128, n) for n in (32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)),
    *((192, n) for n in (128, 192)),
    *((256, n) for n in (112, 128)),
]
# Blocks of clusters of four that run at once.
ONE_WAVE = 120
# Rows up to which blocks side by side that share A are worth an estimate.
SHORT = 1024
# K from which more parts of it than a cluster holds are worth an estimate.
LONG = 16384


def aligned(problem: Gemm, sizes: Mapping[str, int]) -> bool:
    """Whether the rows of dense operands and results are multiples of 16 bytes."""
    for tensor in problem.tensors():
        inner = extent(tensor.dims[-1], sizes) if tensor.dims else 1
        if len(tensor.dims) > 1 and inner * tensor.dtype.bytes % 16:
            return False
    return True


def _rows(m: int) -> int:
    """Rows of the smallest swapped tile that has so many."""
    return -(-m // 16) * 16


@functools.lru_cache(maxsize=4096)
def _with(problem: Gemm, where: CudaTarget, given: tuple) -> Schedule:
    """A wgmma schedule with these fields; the others follow from them, whatever the sizes."""
    return WgmmaGemm.with_options(problem, where, dict(given))


def candidates(
    problem: Gemm | ScaledGemm, where: CudaTarget, sizes: Mapping[str, int]
) -> Iterator[Schedule]:
    """Schedules worth an estimate at these sizes, before the legality rules."""
    if isinstance(problem, ScaledGemm):
        yield from _scaled(problem, where)
        return
    m, n, k = (max(1, sizes[name]) for name in ("m", "n", "k"))
    if WgmmaGemm.accepts(problem, where) is None:
        yield from _streams(problem, where, sizes)
        depth = SPAN_BYTES // problem.storage.bytes
        repack = not aligned(problem, sizes)
        made = lambda **given: _with(problem, where, tuple(given.items()))  # noqa: E731
        for bm, bn in _TILES:
            tile = Tile((bm, bn, depth))
            for cluster in (1, 2):
                for turns in (False, True):
                    yield made(
                        tile=tile, repack=repack, cluster=cluster, consumers=2, pingpong=turns
                    )
            yield made(tile=tile, repack=repack, cluster=1)
            for split in (2, 4):
                yield made(tile=tile, repack=repack, split=split)
            if bm == 128 and bn <= 128 and 128 < m <= SHORT:
                for beside in (2, 4):
                    yield made(
                        tile=tile, repack=repack, cluster_n=beside, consumers=2, pingpong=False
                    )
            if bm == 64:
                for resident in (2, 3):
                    yield made(tile=tile, repack=repack, cluster=1, resident=resident)
        if m <= 128:
            rows = _rows(m)
            for bn, split in ((64, 1), (64, 2), (64, 4), (128, 1), (128, 2), (128, 4)):
                given = {"tile": Tile((rows, bn, depth)), "swap": True, "split": split}
                yield made(**given, repack=repack)
                for resident in (2, 3) if bn == 64 and split == 1 else ():
                    yield made(**given, repack=repack, resident=resident)
            # Clusters of four do not find room for a second wave: it starts late.
            for beside in (2, 4) if n <= ONE_WAVE * 64 else (2,):
                given = {"cluster_n": beside, "repack": repack}
                yield made(tile=Tile((64 if m <= 64 else 128, 64, depth)), pingpong=False, **given)
                yield made(tile=Tile((max(64, rows), 64, depth)), swap=True, **given)
        if not repack and k >= LONG:
            for bn in (16, 32, 64, 128):
                for split in (8, 16, 32):
                    yield made(tile=Tile((64, bn, depth)), cluster=1, split=split, workspace=True)
    if GemvGemm.accepts(problem, where) is None and m <= 16:
        vectors = next(v for v in (1, 2, 4, 8, 16) if v >= min(m, 8))
        for columns in (1, 2, 4):
            for warps, split in ((4, 1), (8, 1), (8, 2), (8, 4), (8, 8)):
                for unroll in (4, 8):
                    yield GemvGemm(vectors, columns, warps, split, unroll)
                if split == 1 and "tma" in where.features:
                    yield GemvGemm(vectors, columns, warps, split, ahead=4)
    for cls in (MmaGemm, SimtGemm):
        if cls.accepts(problem, where) is None:
            yield from _of_any_size(cls, problem, where)


def _scaled(problem: ScaledGemm, where: CudaTarget) -> Iterator[WgmmaScaledGemm]:
    """Schedules of a product of scaled blocks, which has few tiles."""
    for bm, bn in ((64, 16), (64, 32), (64, 64), (64, 128), (128, 64), (128, 128), (192, 128)):
        for cluster in (2, 1):
            given = {"tile": Tile((bm, bn, SCALE_BLOCK)), "cluster": cluster}
            made = WgmmaScaledGemm.with_options(problem, where, given)
            # Fewer buffers of results may leave room for another stage.
            yield from (dataclasses.replace(made, stages=made.stages + 1), made)


def _streams(problem: Gemm, where: CudaTarget, sizes: Mapping[str, int]) -> Iterator[WgmmaGemm]:
    """Schedules that share the steps of K evenly, where that cuts tiles at all."""
    if not aligned(problem, sizes) or problem.row_reductions:
        return
    call = call_of(problem, where, tuple(sizes.items()))
    depth = SPAN_BYTES // problem.storage.bytes
    forms = [(tile, False, cluster, 1) for tile in _TILES for cluster in (1, 2)]
    forms += [((64, n), False, 1, resident) for n in (16, 32, 64) for resident in (2, 3)]
    if call.m <= 128:
        rows = _rows(call.m)
        forms += [((rows, n), True, 1, 1) for n in (64, 128)] + [((rows, 64), True, 1, 2)]
    for (bm, bn), swap, cluster, resident in forms:
        given = {"tile": Tile((bm, bn, depth)), "cluster": cluster, "swap": swap}
        given |= {"resident": resident, "stream": True}
        schedule = _with(problem, where, tuple(given.items()))
        if Shares.at(schedule, call).cuts:
            yield schedule


@functools.lru_cache(maxsize=64)
def _of_any_size(cls: type[Schedule], problem: Gemm, where: CudaTarget) -> tuple[Schedule, ...]:
    """The default of a class and its legal schedules, whatever the sizes."""
    found = [cls.default(problem, where)]
    for schedule in cls.candidates(problem, where):
        if cls is SimtGemm or (schedule.group == 8 and schedule.stages in (3, 4)):
            if not schedule.violations(problem, where):
                found.append(schedule)
    return tuple(found)
