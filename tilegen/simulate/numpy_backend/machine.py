"""The state of a wave of clusters: registers over all lanes, shared memory of each block, global and local memory."""

from __future__ import annotations

import re

import numpy as np

from tilegen.simulate.launch import Launch, Memory, SimulationError
from tilegen.simulate.ptx import TYPE_BYTES, Kernel, Module

Array = np.ndarray

# Generic windows, below every device allocation. Shared addresses of rank r of a cluster start at r << 24.
_WINDOWS = {"shared": 0x7F00_0000_0000, "local": 0x7F10_0000_0000, "param": 0x7F20_0000_0000}
_WINDOWS["const"] = _MODULE = 0x7F30_0000_0000
_WINDOW_BYTES = 0x10_0000_0000
SHARED_START = 0x400
SHARED_BYTES = 228 * 1024 + SHARED_START
_RANK_SHIFT = 24


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


class Machine:
    """Lanes are ordered by block, then by thread; each block is padded to whole warps.

    Attributes:
        lanes: over all blocks of the wave; alive: lanes that are threads and have not exited.
        registers: one array a register.
        block: index of each lane's block in the wave; rank: of the block in its cluster.
        shared: uint8 [blocks, SHARED_BYTES].
    """

    def __init__(
        self, module: Module, kernel: Kernel, launch: Launch, memory: Memory, clusters: range
    ) -> None:
        self.kernel, self.launch, self.memory = kernel, launch, memory
        self.threads = int(np.prod(launch.block))
        self.cluster_size = int(np.prod(launch.cluster))
        self.blocks = len(clusters) * self.cluster_size
        padded = _aligned(self.threads, 32)
        self.lanes = self.blocks * padded
        self.warps_per_block = padded // 32
        lane = np.arange(self.lanes)
        self.block = lane // padded
        self.thread = lane % padded
        self.rank = self.block % self.cluster_size
        self.alive = self.thread < self.threads
        self.coordinates = self._coordinates(clusters)
        self.registers = [
            np.zeros(self.lanes, {"pred": bool}.get(r.type, f"u{max(2, _size(r.type))}"))
            for r in kernel.registers
        ]
        self.steps = 0
        self.carry = np.zeros(self.lanes, bool)
        self.shared = np.zeros((self.blocks, SHARED_BYTES), np.uint8)
        self.params = np.zeros(max(kernel.param_bytes, 1), np.uint8)
        for (offset, size), raw in zip(kernel.params.values(), launch.params):
            if len(raw) != size:
                raise SimulationError(f"a parameter of {size} bytes was given {len(raw)}")
            self.params[offset : offset + size] = np.frombuffer(raw, np.uint8)
        self.symbols = self._place(module)

    def _coordinates(self, clusters: range) -> Array:
        """[blocks, 3]: ctaid of each block, clusters in x-major order of the grid of clusters."""
        grid, size = self.launch.grid, self.launch.cluster
        counts = [g // c for g, c in zip(grid, size)]
        result = []
        for index in clusters:
            origin = (
                index % counts[0],
                index // counts[0] % counts[1],
                index // counts[0] // counts[1],
            )
            for rank in range(self.cluster_size):
                inner = (rank % size[0], rank // size[0] % size[1], rank // size[0] // size[1])
                result.append([o * c + i for o, c, i in zip(origin, size, inner)])
        return np.array(result, np.uint32).reshape(-1, 3)

    def _place(self, module: Module) -> dict[str, int]:
        """Addresses of variables. The open shared array follows the sized ones."""
        symbols, shared, local, constant = {}, SHARED_START, 0, 0
        self.shared_names = set()
        self.module_data = np.zeros(0, np.uint8)
        everything = {**module.variables, **self.kernel.variables}
        used = {w for i in self.kernel.instructions for w in re.findall(r"[\w$]+", i.text)}
        for name, variable in sorted(everything.items(), key=lambda item: item[1].size == 0):
            if variable.space == "shared":
                if variable.size and name not in used:
                    continue
                shared = _aligned(shared, variable.align)
                symbols[name] = shared
                self.shared_names.add(name)
                shared += variable.size
            elif variable.space == "local":
                local = _aligned(local, variable.align)
                symbols[name] = local
                local += variable.size
            else:
                constant = _aligned(constant, variable.align)
                symbols[name] = _MODULE + constant
                grown = np.zeros(constant + variable.size, np.uint8)
                grown[: self.module_data.size] = self.module_data
                if variable.init:
                    size = _size(variable.type)
                    raw = b"".join(
                        (int(v, 0) % (1 << 8 * size)).to_bytes(size, "little")
                        for v in variable.init
                    )
                    grown[constant : constant + len(raw)] = np.frombuffer(raw, np.uint8)
                self.module_data = grown
                constant += variable.size
        for name, (offset, _) in self.kernel.params.items():
            symbols[name] = offset
        self.shared_limit = shared + self.launch.shared_bytes
        if self.shared_limit > SHARED_BYTES:
            raise SimulationError(
                f"{self.shared_limit - SHARED_START} bytes of shared memory in a block"
            )
        self.local = np.zeros((self.lanes, max(local, 1)), np.uint8)
        return symbols

    def symbol(self, name: str) -> Array:
        """Address of a variable for each lane; a shared one lies in the window of the block's rank."""
        if name not in self.symbols:
            raise SimulationError(f"NumPy backend: nothing is named {name}")
        address = np.full(self.lanes, self.symbols[name], np.uint64)
        if name in self.shared_names:
            address += self.rank.astype(np.uint64) << np.uint64(_RANK_SHIFT)
        return address

    def window(self, space: str) -> int:
        return 0 if space == "global" else _WINDOWS[space.split("::")[0]]

    # ---- addresses of clusters

    def map_rank(self, address: Array, rank: Array, generic: bool) -> Array:
        """The address of the same place in another block of the cluster."""
        kind = address.dtype.type
        offset = address - kind(_WINDOWS["shared"]) if generic else address
        mapped = (offset & kind((1 << _RANK_SHIFT) - 1)) | (
            rank.astype(address.dtype) << kind(_RANK_SHIFT)
        )
        return mapped + kind(_WINDOWS["shared"]) if generic else mapped

    def rank_of(self, address: Array) -> Array:
        offset = address.astype(np.uint64) & np.uint64(_WINDOW_BYTES - 1)
        field = (offset >> np.uint64(_RANK_SHIFT)).astype(np.uint32)
        return field

    def shared_place(self, lanes: Array, address: Array, size: int) -> tuple[Array, Array]:
        """(block, byte) of shared addresses held by those lanes."""
        address = address.astype(np.int64)
        rank, offset = address >> _RANK_SHIFT, address & ((1 << _RANK_SHIFT) - 1)
        own = self.block[lanes]
        first = own - own % self.cluster_size
        block = first + rank
        if (offset < SHARED_START).any() or (offset + size > self.shared_limit).any():
            bad = int(offset[(offset < SHARED_START) | (offset + size > self.shared_limit)][0])
            raise SimulationError(f"shared address 0x{bad:x} is outside the block's memory")
        return block, offset

    # ---- memory

    def gather(self, space: str, lanes: Array, address: Array, size: int) -> Array:
        """uint8 [len(lanes), size]."""
        parts = self._split(space, lanes, address)
        result = np.empty((len(lanes), size), np.uint8)
        for kind, chosen in parts:
            result[chosen] = self._access(kind, lanes[chosen], address[chosen], size, None)
        return result

    def scatter(self, space: str, lanes: Array, address: Array, value: Array) -> None:
        """Store uint8 [len(lanes), size]; of lanes that write one place, the last wins."""
        for kind, chosen in self._split(space, lanes, address):
            self._access(kind, lanes[chosen], address[chosen], value.shape[1], value[chosen])

    def _split(self, space: str, lanes: Array, address: Array) -> list[tuple[str, object]]:
        """Parts of a generic access by the window that each address lies in."""
        space = space.split("::")[0]
        if space != "generic":
            return [(space, slice(None))]
        parts, rest = [], np.ones(len(lanes), bool)
        for name in ("shared", "local", "param", "const"):
            inside = (address >= _WINDOWS[name]) & (address < _WINDOWS[name] + _WINDOW_BYTES)
            if inside.any():
                parts.append((name + "+", np.flatnonzero(inside)))
                rest &= ~inside
        if rest.any():
            parts.append(("global", slice(None) if rest.all() else np.flatnonzero(rest)))
        return parts

    def _access(self, space: str, lanes: Array, address: Array, size: int, value: Array | None):
        generic = space.endswith("+")
        space = space.rstrip("+")
        if space == "shared":
            offset = address - np.uint64(_WINDOWS["shared"]) if generic else address
            block, place = self.shared_place(lanes, offset, size)
            return _move(self.shared, block, place, size, value)
        if space == "local":
            place = (address - np.uint64(_WINDOWS["local"]) if generic else address).astype(
                np.int64
            )
            return _move(self.local, lanes, place, size, value)
        if space == "param":
            place = (address - np.uint64(_WINDOWS["param"]) if generic else address).astype(
                np.int64
            )
            return _move(self.params[None], np.zeros(len(place), np.int64), place, size, value)
        if space == "const" or (
            len(address) and _MODULE <= int(address[0]) < _MODULE + _WINDOW_BYTES
        ):
            place = (address.astype(np.uint64) - np.uint64(_MODULE)).astype(np.int64)
            return _move(self.module_data[None], np.zeros(len(place), np.int64), place, size, value)
        return self.global_access(address.astype(np.uint64), size, value)

    def global_bytes(self, address: int, count: int) -> Array:
        """uint8 [count] from device memory, of any length."""
        return self.global_access(np.arange(address, address + count, dtype=np.uint64), 1, None)[
            :, 0
        ]

    def global_access(self, address: Array, size: int, value: Array | None) -> Array | None:
        """Access device buffers; every byte must lie in one."""
        if not len(address):
            return np.empty((0, size), np.uint8) if value is None else None
        result = None if value is not None else np.empty((len(address), size), np.uint8)
        done = np.zeros(len(address), bool)
        while not done.all():
            first = int(address[np.argmin(done)])
            buffer = self.memory.find(first)
            if buffer is None or first + size > buffer.address + buffer.size:
                raise SimulationError(
                    f"global access of {size} bytes at 0x{first:x}, outside every buffer"
                )
            low, high = np.uint64(buffer.address), np.uint64(buffer.address + buffer.size - size)
            inside = (address >= low) & (address <= high) & ~done
            whole = inside.all()
            place = (address if whole else address[inside]).astype(np.int64) - buffer.address
            if (place % min(size, 16)).any() and (address[inside] % np.uint64(min(size, 16))).any():
                raise SimulationError(f"misaligned global access of {size} bytes at 0x{first:x}")
            rows = np.zeros(len(place), np.int64)
            data = buffer.data[None]
            if value is None:
                got = _move(data, rows, place, size, None)
                if whole:
                    return got
                result[inside] = got
            else:
                _move(data, rows, place, size, value if whole else value[inside])
            done |= inside
        return result


def _size(kind: str) -> int:
    return TYPE_BYTES[kind]


def _move(data: Array, row: Array, place: Array, size: int, value: Array | None) -> Array | None:
    """Gather or scatter `size` bytes at (row, place) of a [rows, bytes] array; whole words where they are aligned."""
    width = data.shape[1]
    if len(place) and (place.min() < 0 or place.max() + size > width):
        raise SimulationError("access outside a variable")
    unit = min(size, 8)
    if width % unit == 0 and data.flags.c_contiguous and not (place % unit).any():
        words = data.view(np.dtype(f"u{unit}"))
        columns = (place // unit)[:, None] + np.arange(size // unit)
        if value is None:
            return (
                np.ascontiguousarray(words[row[:, None], columns]).view(np.uint8).reshape(-1, size)
            )
        words[row[:, None], columns] = np.ascontiguousarray(value).view(words.dtype)
        return None
    columns = place[:, None] + np.arange(size)
    if value is None:
        return data[row[:, None], columns]
    data[row[:, None], columns] = value
    return None
