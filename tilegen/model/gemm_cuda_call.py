"""A GEMM at one size on a GPU: its bytes, how its tiles fall on the device, and the ways its slices take."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from tilegen import formula as fl
from tilegen.model.devices import DEVICES, Device
from tilegen.model.estimate import Term
from tilegen.plans.base import ceil_div
from tilegen.problems.gemm import Gemm
from tilegen.targets import CudaTarget

# Bytes of a line of L2.
LINE = 128
# Rows of a slice that begin inside a line of L2 touch two; those that begin in its middle cost less.
STRADDLE, MIDDLE = 2.0, 1.25
# By bytes of the widest copy that the rows' strides allow: how much longer cp.async takes.
NARROW = {16: 1.0, 8: 1.1, 4: 1.5, 2: 8.0, 1: 8.0}
# Instructions of a function such as exp or gelu, to the precision of 16-bit results.
FUNCTION = 12
# Bytes a nanosecond of the whole device, results written from registers to odd addresses.
UNALIGNED = 4000.0


@functools.lru_cache(maxsize=64)
def call_of(problem: Gemm, where: CudaTarget, sizes: tuple[tuple[str, int], ...]) -> Call:
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

    def memory(self, in_flight: float, bytes_moved: float | None = None) -> Term:
        """Device memory, no faster than what is requested ahead allows.

        Args:
            in_flight: bytes that are on their way at any time.
            bytes_moved: bytes in all, those that must move if not given.
        """
        moved = self.bytes if bytes_moved is None else bytes_moved
        rate = min(self.device.memory, in_flight / self.device.latency)
        why = f"{moved / 1e6:.1f} MB at {rate / 1e3:.2f} TB/s"
        return Term("device memory", moved / rate / 1e9, why)

    @property
    def arithmetic(self) -> int:
        """Instructions, about, that the formula takes for a result; none for `acc` alone."""
        statements = self.problem.typed.statements
        nodes = [n for s in statements for n in fl.walk(s.value)]
        calls = [n for n in nodes if isinstance(n, fl.Call)]
        long = [n for n in calls if fl.FUNCTIONS[n.function].kind == "float"]
        return len(nodes) - len(statements) + FUNCTION * len(long)

    @property
    def lines(self) -> float:
        """How many lines of L2 a row of a slice touches, over the fewest."""
        inner = self._inner()
        if any(extent % (LINE // 2) for extent in inner):
            return STRADDLE
        return MIDDLE if any(extent % LINE for extent in inner) else 1.0

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
        """GHz where the matrix units of the device multiply this part of the time, of that at the full clock."""
        return self.device.clock / (1 + self.device.drop * min(1.0, busy))


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
        cls,
        call: Call,
        bm: int,
        bn: int,
        together: int = 1,
        split: int = 1,
        resident: int = 1,
        beside: int = 1,
    ) -> Tiles:
        """Tiles of bm x bn, blocks in clusters of `together` rows or `beside` columns, K split over `split` blocks.

        A multiprocessor has `resident` of the blocks at once.
        """
        rows = ceil_div(ceil_div(call.m, bm), together) * together
        columns = ceil_div(ceil_div(call.n, bn), beside) * beside
        units = rows * columns * call.count * split
        cluster = max(together, split, beside)
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


def travel(
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


def odd_rows(call: Call) -> list[Term]:
    """Results whose rows are no multiple of 16 bytes, where threads write them one by one."""
    if call.n * call.problem.out_dtype.bytes % 16 == 0:
        return []
    stored = call.m * call.n * call.count * call.problem.out_dtype.bytes
    return [Term("odd rows", stored / UNALIGNED / 1e9, "of results", overlaps=False)]
