"""What the simulator runs and what it answers: memory, tensor maps, one launch, options, findings.

Nothing here executes anything. A launch is what the host side hands to the device: the kernel's name, the grid, the
parameter bytes in order, and the tensor maps that 128-byte parameters refer to.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tilegen.errors import TilegenError

TENSOR_MAP_BYTES = 128
TENSOR_MAP_MAGIC = b"tmap\x93sim"
FIRST_ADDRESS = (
    0x7F4A_0000_0000  # where device allocations start; shared and local windows lie below
)

# bytes of an element, by the encoder's data type
TENSOR_MAP_TYPES = {
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "s32": 4,
    "u64": 8,
    "s64": 8,
    "f16": 2,
    "f32": 4,
    "f64": 8,
    "bf16": 2,
    "f32_ftz": 4,
    "tf32": 4,
    "tf32_ftz": 4,
}
SWIZZLE_BYTES = {"none": 0, "32b": 32, "64b": 64, "128b": 128}


class SimulationError(TilegenError):
    """The simulator cannot run what it was given: unknown PTX, or a launch that does not fit the kernel."""


@dataclass(frozen=True)
class TensorMap:
    """What `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` was told, dimension 0 innermost.

    Attributes:
        dtype: a key of TENSOR_MAP_TYPES.
        address: global address of element zero, bytes.
        dims: extent of each dimension, elements.
        strides: bytes from one index to the next for dimensions 1 to rank-1 (one entry fewer than `dims`).
        box: tiled: elements of the box along each dimension. Im2col: empty.
        element_strides: one for each dimension.
        lower_corner, upper_corner: im2col: offsets of the spatial dimensions, innermost first.
        channels_per_pixel, pixels_per_column: im2col: the box.
    """

    kind: Literal["tiled", "im2col"]
    dtype: str
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: Literal["none", "16b", "32b"] = "none"
    swizzle: Literal["none", "32b", "64b", "128b"] = "none"
    l2_promotion: Literal["none", "64b", "128b", "256b"] = "none"
    oob_fill: Literal["zeros", "nan"] = "zeros"
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()
    channels_per_pixel: int = 0
    pixels_per_column: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return TENSOR_MAP_TYPES[self.dtype]


def tensor_map_param(index: int) -> bytes:
    """The 128 parameter bytes that stand for `Launch.tensor_maps[index]`."""
    return (TENSOR_MAP_MAGIC + struct.pack("<Q", index)).ljust(TENSOR_MAP_BYTES, b"\0")


@dataclass
class Buffer:
    """One device allocation.

    Attributes:
        address: where the kernel sees byte zero.
        data: uint8 [size]: the bytes, changed in place by a run.
        writable: False makes any write a finding, and spares the kernel's reads from race tracking.
        initialised: False makes a read of a byte that the kernel has not written a finding.
        guard: bytes on both sides that belong to no buffer; an access there names this buffer.
    """

    name: str
    address: int
    data: np.ndarray
    writable: bool = True
    initialised: bool = True
    guard: int = 4096

    @property
    def size(self) -> int:
        return int(self.data.size)

    def view(self, dtype: np.dtype | type, shape: tuple[int, ...] | int = -1) -> np.ndarray:
        """The bytes as an array that shares memory with the buffer."""
        return self.data.view(dtype).reshape(shape)


@dataclass
class Memory:
    """Device memory: buffers at ascending addresses, each with a guard band on both sides."""

    alignment: int = 512
    buffers: list[Buffer] = field(default_factory=list)

    def allocate(
        self,
        name: str,
        content: np.ndarray | int,
        *,
        writable: bool = True,
        initialised: bool | None = None,
        offset: int = 0,
        guard: int = 4096,
    ) -> Buffer:
        """Place a copy of an array, or that many bytes of poison (0xff: NaN in every float format).

        `offset` moves the buffer off the allocator's alignment by that many bytes, for unaligned views.
        Poison counts as uninitialised unless `initialised` says otherwise.
        """
        if isinstance(content, (int, np.integer)):
            data = np.full(int(content), 0xFF, np.uint8)
            initialised = False if initialised is None else initialised
        else:
            data = np.frombuffer(np.ascontiguousarray(content).tobytes(), np.uint8).copy()
            initialised = True if initialised is None else initialised
        end = FIRST_ADDRESS
        if self.buffers:
            last = self.buffers[-1]
            end = last.address + last.size + last.guard
        base = -(-(end + guard) // self.alignment) * self.alignment
        buffer = Buffer(name, base + offset, data, writable, initialised, guard)
        self.buffers.append(buffer)
        return buffer

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds the address, or None."""
        for buffer in self.buffers:
            if buffer.address <= address < buffer.address + buffer.size:
                return buffer
        return None

    def __getitem__(self, name: str) -> Buffer:
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)


@dataclass(frozen=True)
class Launch:
    """One kernel launch as the device receives it.

    Attributes:
        kernel: the entry's name, or a part of it that only one entry holds; "" where the module has one entry.
        shared_bytes: dynamic shared memory, bytes a block.
        params: the bytes of each parameter in order, little-endian, each as long as the kernel declares it.
        tensor_maps: what parameters made by `tensor_map_param` refer to.
        attributes: what else the host set, for reports (for example "programmatic stream serialization").
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: tuple[bytes, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    tensor_maps: tuple[TensorMap, ...] = ()
    attributes: tuple[str, ...] = ()


def pack_params(*values: object, tensor_maps: list[TensorMap] | None = None) -> tuple[bytes, ...]:
    """Parameter bytes of buffers (pointers), NumPy scalars, tensor maps, Python ints (int32) and floats (float32).

    Tensor maps are appended to `tensor_maps`, whose order is the one to pass to `Launch`.
    """
    packed = []
    for value in values:
        if isinstance(value, Buffer):
            packed.append(struct.pack("<Q", value.address))
        elif isinstance(value, TensorMap):
            if tensor_maps is None:
                raise SimulationError(
                    "a tensor map parameter needs the list `tensor_maps` to go to"
                )
            packed.append(tensor_map_param(len(tensor_maps)))
            tensor_maps.append(value)
        elif isinstance(value, bytes):
            packed.append(value)
        elif isinstance(value, np.generic):
            packed.append(value.tobytes())
        elif isinstance(value, int):
            packed.append(struct.pack("<i", value))
        elif isinstance(value, float):
            packed.append(struct.pack("<f", value))
        else:
            raise SimulationError(f"no parameter bytes for {type(value).__name__} {value!r}")
    return tuple(packed)


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes:
        order: "deterministic" completes asynchronous work at once and runs warps in turn; "lazy" completes it as
            late as the waits permit; "random" also picks warps at random.
        seed: of the random order.
        detectors: happens-before, initialisation and register-in-flight checks. Bounds, alignment, barrier
            misuse, hangs and exits with work pending are always checked.
        adversarial_elect: elect.sync picks a lane that is not the lowest.
        strict_wgmma: one warp's wait_group covers that warp's reads only, not the whole warpgroup's.
        max_steps: warp instructions after which the run is stopped, 0 for no limit.
        max_findings: distinct findings after which no more are recorded.
    """

    order: Literal["deterministic", "lazy", "random"] = "deterministic"
    seed: int = 0
    detectors: bool = True
    adversarial_elect: bool = False
    strict_wgmma: bool = False
    max_steps: int = 2_000_000_000
    max_findings: int = 40


FindingKind = Literal[
    "launch",
    "out-of-bounds",
    "misaligned",
    "read-only",
    "uninitialised",
    "race",
    "proxy",
    "mbarrier",
    "barrier",
    "wgmma",
    "tma",
    "bulk",
    "pending-at-exit",
    "deadlock",
    "divergence",
    "registers",
    "trap",
    "watchdog",
    "static",
]


@dataclass(frozen=True)
class Finding:
    """One fault, once for each pair of instructions that shows it.

    Attributes:
        message: one or more lines, with the values, names and lines that matter.
        lines: lines of the .cu, the first where the fault showed, the second (if any) of the other party.
        instruction: PTX text of the first.
        block: linear index in the grid; warp: in the block; lane: in the warp, -1 where it does not apply.
        count: how often it showed.
    """

    kind: FindingKind
    message: str
    lines: tuple[int, ...] = ()
    instruction: str = ""
    block: int = -1
    warp: int = -1
    lane: int = -1
    count: int = 1


@dataclass(frozen=True)
class Counter:
    """One static instruction of the kernel, in order.

    Attributes:
        line: of the .cu, 0 where the PTX has none.
        executions: warp instructions with at least one active lane.
        wavefronts: shared-memory passes, over all executions; a conflict-free access of up to 128 bytes a warp is 1.
        ideal_wavefronts: the passes that the bytes alone would need.
        sectors: 32-byte global sectors touched, over all executions; ideal_sectors: the least for the bytes.
    """

    text: str
    line: int
    executions: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a run showed.

    Attributes:
        findings: faults, in the order in which they showed; static ones first.
        counters: one for each static instruction.
        steps: warp instructions executed.
        seconds: of the run itself, without parsing.
    """

    findings: tuple[Finding, ...]
    counters: tuple[Counter, ...]
    steps: int
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def coverage(self) -> float:
        """Share of the static instructions that ran at least once."""
        ran = sum(counter.executions > 0 for counter in self.counters)
        return ran / len(self.counters) if self.counters else 1.0
