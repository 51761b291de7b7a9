"""Bulk and tensor copies (PTX ISA 5.5, 9.7.9.25), done at once; each completes its bytes on its mbarrier."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import TENSOR_MAP_MAGIC, SimulationError, TensorMap
from tilegen.simulate.numpy_backend.loads import active, combine
from tilegen.simulate.numpy_backend.machine import Machine
from tilegen.simulate.numpy_backend.operands import Operands, bits_of
from tilegen.simulate.numpy_backend.rounding import decode, encode, round_to, uint
from tilegen.simulate.ptx import Instruction, Vec

Array = np.ndarray
Step = Callable[[Array | None], None]

_SPAN = {"none": 0, "32b": 32, "64b": 64, "128b": 128}
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_NAN_FILL = {2: 0x7FF7, 4: 0x7FF7_7FF7, 8: 0x7FF7_7FF7_7FF7_7FF7}


def find_map(machine: Machine, lane: int, address: int) -> TensorMap:
    """The tensor map that a generic address holds."""
    lanes = np.array([lane])
    raw = machine.gather("generic", lanes, np.array([address], np.uint64), 16)[0].tobytes()
    if raw[:8] != TENSOR_MAP_MAGIC:
        raise SimulationError(f"0x{address:x} holds no tensor map")
    return machine.launch.tensor_maps[struct.unpack("<Q", raw[8:])[0]]


def _tile(tensor: TensorMap, at: list[int]) -> tuple[Array, Array]:
    """Element indices [rows, inner, rank] of a box and which of them exist; dimension 0 is innermost."""
    axes = []
    for i, (start, extent) in enumerate(zip(at, tensor.box)):
        # without interleave the element stride of dimension 0 is ignored
        step = tensor.element_strides[i] if i else 1
        axes.append(start + step * np.arange(-(-extent // step)))
    grid = np.meshgrid(*axes[::-1], indexing="ij")[::-1]
    index = np.stack(grid, -1).reshape(-1, len(axes[0]), tensor.rank)
    exists = ((index >= 0) & (index < np.array(tensor.dims))).all(-1)
    return index, exists


def _im2col(tensor: TensorMap, at: list[int], offsets: list[int]) -> tuple[Array, Array]:
    """A column of pixels: the walk is bounded by the corners and carries from W to H to D to N."""
    spatial = tensor.rank - 2
    low = list(tensor.lower_corner)
    high = [tensor.dims[i + 1] + tensor.upper_corner[i] - 1 for i in range(spatial)]
    steps = tensor.element_strides[1:-1]
    pixel, pixels = list(at[1:]), []
    for _ in range(tensor.pixels_per_column):
        pixels.append([p + o for p, o in zip(pixel, offsets + [0])])
        for i in range(spatial + 1):
            pixel[i] += steps[i] if i < spatial else 1
            if i == spatial or pixel[i] <= high[i]:
                break
            pixel[i] = low[i]
    channels = at[0] + np.arange(tensor.channels_per_pixel)
    index = np.empty((len(pixels), len(channels), tensor.rank), np.int64)
    index[:, :, 0] = channels
    index[:, :, 1:] = np.array(pixels)[:, None, :]
    exists = ((index >= 0) & (index < np.array(tensor.dims))).all(-1)
    return index, exists


def _global(tensor: TensorMap, index: Array) -> Array:
    strides = np.array((tensor.element_bytes, *tensor.strides), np.int64)
    return (index @ strides + tensor.address).astype(np.uint64)


def _placed(tensor: TensorMap, address: int, rows: int, inner: int) -> Array:
    """Shared byte addresses [rows, inner] of the elements: rows lie a span apart, chunks of 16 bytes are exchanged."""
    size, span = tensor.element_bytes, _SPAN[tensor.swizzle]
    pitch = span or inner * size
    place = address + np.arange(rows)[:, None] * pitch + np.arange(inner) * size
    if span:
        place = place ^ (((place >> 7) & (span // 16 - 1)) << 4)
    return place


def _box(tensor: TensorMap, at: list[int], offsets: list[int]) -> tuple[Array, Array]:
    if tensor.interleave != "none":
        raise SimulationError("NumPy backend: interleaved tensor maps are not modelled")
    return _im2col(tensor, at, offsets) if tensor.kind == "im2col" else _tile(tensor, at)


def _fetch(machine: Machine, tensor: TensorMap, index: Array, exists: Array) -> Array:
    """Raw elements [rows, inner]; those outside are zero or the fill NaN."""
    size = tensor.element_bytes
    fill = _NAN_FILL[size] if tensor.oob_fill == "nan" else 0
    result = np.full(exists.shape, fill, uint(8 * size))
    if exists.any():
        raw = machine.global_access(_global(tensor, index)[exists], size, None)
        values = np.ascontiguousarray(raw).view(uint(8 * size))[:, 0]
        if tensor.dtype.startswith("tf32"):
            values = encode(round_to(decode(values, "f32"), "tf32", "rna"), "f32")
        result[exists] = values
    return result


def _stored(tensor: TensorMap, index: Array) -> Array:
    """Which elements a store writes: dimension 0 is clipped in units of 16 bytes, so up to 12 bytes past a row's end."""
    limit = np.array(tensor.dims)
    per = 16 // tensor.element_bytes
    limit[0] = -(-limit[0] // per) * per
    return ((index >= 0) & (index < limit)).all(-1)


def _bytes(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8)


def tensor_copy(instruction: Instruction, operands: Operands, barriers) -> Step:
    """cp.async.bulk.tensor and cp.reduce.async.bulk.tensor."""
    machine, words = operands.machine, instruction.opcode.split(".")
    if "prefetch" in words:
        return lambda mask: None
    op = next((word for word in words if word in _REDUCTIONS), "")
    loading = "mbarrier::complete_tx::bytes" in words
    memory = instruction.operands[1 if loading else 0]
    other = instruction.operands[0 if loading else 1]
    map_at, shared_at = operands.address(memory), operands.address(other)
    coordinates = [operands.raw(item, 32) for item in memory.coords[0].items]
    rest = list(instruction.operands[3 if loading else 2 :])
    offsets = []
    if rest and isinstance(rest[0], Vec):
        offsets = [operands.raw(item, 16) for item in rest.pop(0).items]
    members = operands.raw(rest.pop(0), 16) if "multicast::cluster" in words else None
    bar_at = operands.address(instruction.operands[2]) if loading else None

    def load_one(lane: int) -> None:
        tensor = find_map(machine, lane, int(map_at()[lane]))
        at = [int(read()[lane].astype(np.int32)) for read in coordinates]
        index, exists = _box(tensor, at, [int(read()[lane]) for read in offsets])
        values = _fetch(machine, tensor, index, exists)
        for target, bar in barriers.destinations(
            lane, int(shared_at()[lane]), int(bar_at()[lane]), members
        ):
            place = _placed(tensor, target, *exists.shape).reshape(-1).astype(np.uint64)
            machine.scatter("shared", np.full(place.size, lane), place, _bytes(values))
            barriers.complete(lane, bar, values.size * values.itemsize)

    def store_one(lane: int) -> None:
        tensor = find_map(machine, lane, int(map_at()[lane]))
        at = [int(read()[lane].astype(np.int32)) for read in coordinates]
        index, exists = _box(tensor, at, [int(read()[lane]) for read in offsets])
        exists = _stored(tensor, index)
        place = _placed(tensor, int(shared_at()[lane]), *exists.shape).reshape(-1).astype(np.uint64)
        raw = machine.gather("shared", np.full(place.size, lane), place, tensor.element_bytes)
        raw = raw[exists.reshape(-1)]
        where = _global(tensor, index)[exists]
        if not where.size:
            return
        if op:
            dtype = uint(8 * tensor.element_bytes)
            old = machine.global_access(where, tensor.element_bytes, None).view(dtype)[:, 0]
            kind = tensor.dtype
            raw = _bytes(combine(op, kind, old, np.ascontiguousarray(raw).view(dtype)[:, 0]))
        machine.global_access(where, tensor.element_bytes, raw)

    def step(mask: Array | None) -> None:
        for lane in active(mask, machine):
            (load_one if loading else store_one)(int(lane))

    return step


def bulk_copy(instruction: Instruction, operands: Operands, barriers) -> Step:
    """cp.async.bulk and cp.reduce.async.bulk of plain bytes."""
    machine, words = operands.machine, instruction.opcode.split(".")
    if any(word in ("commit_group", "wait_group", "prefetch") for word in words):
        return lambda mask: None
    op = next((word for word in words if word in _REDUCTIONS), "")
    spaces = [word for word in words if word.split("::")[0] in ("global", "shared")]
    to_shared, from_shared = spaces[0] != "global", spaces[1] != "global"
    target, source, size = instruction.operands[:3]
    to, origin, length = operands.address(target), operands.address(source), operands.raw(size, 32)
    completes = "mbarrier::complete_tx::bytes" in words
    bar_at = operands.address(instruction.operands[3]) if completes else None
    members = operands.raw(instruction.operands[4], 16) if "multicast::cluster" in words else None
    kind = words[-1]

    def one(lane: int) -> None:
        count = int(length()[lane])
        lanes = np.full(count, lane)

        def span(start: int) -> Array:
            return np.arange(start, start + count, dtype=np.uint64)

        raw = machine.gather(
            "shared" if from_shared else "global", lanes, span(int(origin()[lane])), 1
        )
        targets = [(int(to()[lane]), int(bar_at()[lane]) if completes else None)]
        if completes:
            targets = barriers.destinations(lane, targets[0][0], targets[0][1], members)
        for start, bar in targets:
            place = "shared" if to_shared else "global"
            data = raw
            if op:
                dtype = uint(bits_of(kind))
                old = machine.gather(place, lanes, span(start), 1)
                pair = (np.ascontiguousarray(x).reshape(-1).view(dtype) for x in (old, raw))
                data = combine(op, kind, *pair).view(np.uint8).reshape(-1, 1)
            machine.scatter(place, lanes, span(start), data)
            if bar is not None:
                barriers.complete(lane, bar, count)

    def step(mask: Array | None) -> None:
        for lane in active(mask, machine):
            one(int(lane))

    return step


def async_store(instruction: Instruction, operands: Operands, barriers) -> Step:
    """st.async: a remote store that completes its bytes on a remote mbarrier."""
    machine, words = operands.machine, instruction.opcode.split(".")
    bits = bits_of(words[-1])
    target, source, bar = instruction.operands
    items = source.items if isinstance(source, Vec) else (source,)
    to, bar_at = operands.address(target), operands.address(bar)
    reads = [operands.raw(item, bits) for item in items]

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        values = np.stack([read()[lanes] for read in reads], -1)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), -1)
        machine.scatter("shared", lanes, to()[lanes], raw)
        for lane in lanes:
            barriers.complete(int(lane), int(bar_at()[lane]), raw.shape[1])

    return step
