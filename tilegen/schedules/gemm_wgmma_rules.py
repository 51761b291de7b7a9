"""What a WgmmaGemm must keep to: what wgmma and the copy engine take, and what fits in a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.problems.gemm import Gemm
from tilegen.schedules.base import Violation
from tilegen.targets import CudaTarget
from tilegen.values import BF16, E4M3, E5M2, F16, I8, TF32, U8

if TYPE_CHECKING:
    from tilegen.schedules.gemm_wgmma import WgmmaGemm

# Types that wgmma multiplies.
MULTIPLIED = (F16, BF16, TF32, E4M3, E5M2, I8, U8)
# Types whose sums the tensor cores keep to about 13 bits: they are added up elsewhere.
COARSE = (E4M3, E5M2)

# One row of a stage: the widest swizzle of shared memory, which is also the depth of a step.
SPAN_BYTES = 128
# Rows of one wgmma.
MMA_M = 64
# Rows that one box of the copy engine may have.
BOX_ROWS = 256


@dataclass(frozen=True)
class Roles:
    """How a block of 1 + n warpgroups shares its registers.

    Attributes:
        entry: registers a thread that the block starts with (launch bounds, one block a processor).
        producer, consumer: what the roles settle on with setmaxnreg.
    """

    entry: int
    producer: int
    consumer: int


# By number of consumers; one consumer has enough without a trade. 40 and not 24 for a producer beside two consumers: with 24 its address
# arithmetic spills. The sums stay inside (1 + consumers) * entry.
ROLES = {1: Roles(255, 255, 255), 2: Roles(168, 40, 232), 3: Roles(128, 32, 160)}

# Registers of a processor, and parts of K that a workspace may hold.
REGISTERS = 65536
MOST_PARTS = 64
# Stream-K: steps of K that a cluster takes at least of tiles that are cut.
LEAST_SHARE = 8


def roles(consumers: int, resident: int) -> Roles:
    """Registers of a thread by role, with so many blocks on a processor."""
    if resident == 1:
        return ROLES[consumers]
    share = REGISTERS // (128 * (1 + consumers) * resident) // 8 * 8
    return Roles(share, share, share)


def of_shape(schedule: WgmmaGemm, problem: Gemm) -> list[Violation]:
    """Broken rules of tile, roles, cluster and split; with numbers."""
    bm, bn, bk = schedule.tile
    broken = []

    def rule(holds: bool, field: str, message: str) -> None:
        if not holds:
            broken.append(Violation(field, message))

    depth = SPAN_BYTES // problem.storage.bytes
    rule(
        bk == depth,
        "tile",
        f"a step is {SPAN_BYTES} bytes deep, {depth} elements of {problem.dtype}, not {bk}",
    )
    rule(
        schedule.consumers in ROLES,
        "consumers",
        f"a block has 1 to 3 consumers, not {schedule.consumers}",
    )
    rule(
        not schedule.pingpong or schedule.consumers == 2,
        "pingpong",
        f"consumers that take turns are 2, not {schedule.consumers}",
    )
    if broken:
        return broken
    rows = MMA_M if schedule.pingpong else MMA_M * schedule.consumers
    axis, other = ("N", "M") if schedule.swap else ("M", "N")

    rule(
        schedule.mma_m % rows == 0 and 0 < schedule.mma_m <= BOX_ROWS,
        "tile",
        f"tile {axis} {schedule.mma_m} must be a multiple of {rows} (64 rows a wgmma"
        f"{'' if schedule.pingpong else f', {schedule.consumers} consumers'}), at most {BOX_ROWS}",
    )
    rule(
        schedule.mma_n % 16 == 0 and 16 <= schedule.mma_n <= 256,
        "tile",
        f"tile {other} {schedule.mma_n} must be a multiple of 16, from 16 to 256",
    )
    rule(
        not schedule.swap or schedule.cluster == 1,
        "cluster",
        "blocks of a cluster in M share B, of which a swapped tile loads most: --cluster-n shares A",
    )
    rule(schedule.stages >= 2, "stages", f"{schedule.stages} stages; a ring has at least 2")
    rule(
        schedule.cluster in (1, 2, 4),
        "cluster",
        f"a cluster of {schedule.cluster} blocks; 1, 2 and 4 are allowed",
    )
    rule(
        schedule.workspace or schedule.split in (1, 2, 4, 8),
        "split",
        f"K split over {schedule.split} blocks of a cluster; 1, 2, 4 and 8 are allowed, or --workspace true "
        f"for up to {MOST_PARTS} parts",
    )
    rule(
        not schedule.workspace or 2 <= schedule.split <= MOST_PARTS,
        "split",
        f"a workspace holds 2 to {MOST_PARTS} parts of K, not {schedule.split}",
    )
    rule(
        not (schedule.workspace and (problem.batched or schedule.repack or schedule.pingpong)),
        "workspace",
        "parts of K do not meet in a workspace with a batch, with copied operands, or with consumers "
        "that take turns",
    )
    rule(
        not schedule.stream or schedule.split == 1,
        "stream",
        f"stream-K decides at run time how many parts of K there are: leave out --split {schedule.split}",
    )
    rule(
        not (schedule.stream and (schedule.pingpong or schedule.repack)),
        "stream",
        "tiles are not cut where consumers take turns, nor where the workspace holds copied operands",
    )
    rule(
        1 <= schedule.resident <= 4 and (schedule.resident == 1 or schedule.consumers == 1),
        "resident",
        f"{schedule.resident} blocks of {schedule.consumers} consumers on a processor; 1 to 4 are allowed, "
        "beyond 1 with one consumer",
    )
    rule(
        schedule.cluster_split == 1 or (schedule.sharing == 1 and not schedule.pingpong),
        "split",
        "blocks that split K share no loads, and have one tile: no turns to take",
    )
    rule(
        schedule.cluster_n in (1, 2, 4),
        "cluster_n",
        f"a cluster of {schedule.cluster_n} blocks; 1, 2 and 4 are allowed",
    )
    rule(
        schedule.cluster == 1 or schedule.cluster_n == 1,
        "cluster_n",
        f"a cluster shares A or B: one of cluster {schedule.cluster} and cluster_n {schedule.cluster_n} must be 1",
    )
    rule(
        not (schedule.constant_b and (schedule.cluster > 1 or schedule.repack)),
        "constant_b",
        "a block loads its own steps of B early, from where they lie: not with --cluster above 1 or --repack",
    )
    rule(
        not (schedule.stream and (schedule.constant_b or schedule.cluster_n > 1)),
        "stream",
        "blocks that cut tiles anywhere along K have other first steps, and no neighbour in N that has the same: not "
        "with --constant-b or --cluster-n above 1",
    )
    rule(
        not (schedule.repack and problem.batched),
        "repack",
        "operands of a batch are not copied: a batch needs strides of whole 16 bytes",
    )
    rule(
        not (problem.row_reductions and schedule.swap),
        "swap",
        "rows are not reduced where the operands are swapped: a row of C is then a column of wgmma, "
        "spread over 4 warps",
    )
    rule(
        not (problem.row_reductions and (schedule.workspace or schedule.stream or schedule.copies)),
        "workspace",
        "the workspace holds what is reduced of rows: it does not also hold parts of K or copied operands",
    )
    rule(schedule.group >= 1, "group", f"group {schedule.group} must be at least 1")
    slices = 8 if problem.layout.b_dims[1] == "k" else 64
    rule(
        bn % (slices * schedule.cluster) == 0,
        "cluster",
        f"{schedule.cluster} blocks cannot share {bn} columns of B: each loads a multiple of {slices}",
    )
    slices = 8 if problem.layout.a_dims[1] == "k" else 64
    rule(
        bm % (slices * schedule.cluster_n) == 0,
        "cluster_n",
        f"{schedule.cluster_n} blocks cannot share {bm} rows of A: each loads a multiple of {slices}",
    )
    rule(
        problem.layout.a_dims[1] == "k" or bm % 64 == 0,
        "tile",
        f"A with M contiguous loads 64 rows at a time; tile M {bm} is no multiple",
    )
    rule(
        problem.layout.b_dims[1] == "k" or bn % 64 == 0,
        "tile",
        f"B with N contiguous loads 64 columns at a time; tile N {bn} is no multiple",
    )
    return broken


def of_resources(schedule: WgmmaGemm, problem: Gemm, target: CudaTarget) -> list[Violation]:
    """Broken rules of registers and shared memory; with numbers."""
    broken = []
    bm, bn, bk = schedule.tile
    # Sums of a step that are promoted wait in a second set of registers, one wgmma after the other.
    sums = schedule.accumulators + (schedule.mma_n // 2 if schedule.promotes(problem) else 0)
    # Threads that store rows themselves hold the places of more of them.
    need = sums + (64 if schedule.repack else 32)
    allowed = schedule.roles.consumer
    if need > allowed:
        broken.append(
            Violation(
                "tile",
                f"a consumer's {schedule.part} x {schedule.mma_n} sums are {sums} registers a "
                f"thread; with what else it holds that is {need}, and {schedule.consumers} consumers have "
                f"{allowed} each",
            )
        )
    shared = schedule.shared_bytes(problem, schedule.fewest_buffers(problem))
    limit = schedule.shared_limit(target)
    if shared > limit:
        broken.append(
            Violation(
                "stages",
                f"tile {schedule.tile} with {schedule.stages} stages needs {shared} bytes of shared memory; "
                f"{target} allows {limit} in a block"
                + (f" of {schedule.resident}" if schedule.resident > 1 else ""),
            )
        )
    return broken
