"""ld, st, atom, red, cp.async, ldmatrix, stmatrix (PTX ISA 9.7.9, 9.7.13, 9.7.14.5). Everything completes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.numpy_backend import integers as ints
from tilegen.simulate.numpy_backend.operands import Operands, bits_of
from tilegen.simulate.numpy_backend.rounding import (
    add_odd,
    decode,
    encode,
    flush,
    round_to,
    uint,
)
from tilegen.simulate.ptx import Instruction, Sink, Vec

Array = np.ndarray
Step = Callable[[Array | None], None]

_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "const")


def space_of(words: list[str]) -> str:
    return next((word for word in words if word in _SPACES), "generic")


def active(mask: Array | None, machine) -> Array:
    """Indices of the lanes that execute."""
    return np.arange(machine.lanes) if mask is None else np.flatnonzero(mask)


def load(instruction: Instruction, operands: Operands) -> Step:
    machine, words = operands.machine, instruction.opcode.split(".")
    kind, space = words[-1], space_of(words)
    count = next((int(word[1]) for word in words if word in ("v2", "v4", "v8")), 1)
    target, source = instruction.operands[:2]
    bits, address = bits_of(kind), operands.address(source)
    targets = target.items if isinstance(target, Vec) else (target,)

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        raw = machine.gather(space, lanes, address()[lanes], count * bits // 8)
        values = np.ascontiguousarray(raw).view(uint(bits))
        for i, item in enumerate(targets):
            if isinstance(item, Sink):
                continue
            whole = np.zeros(machine.lanes, values.dtype)
            whole[lanes] = values[:, i]
            operands.write(item, whole, mask, kind[0] == "s")

    return step


def store(instruction: Instruction, operands: Operands) -> Step:
    machine, words = operands.machine, instruction.opcode.split(".")
    space, bits = space_of(words), bits_of(words[-1])
    target, source = instruction.operands[:2]
    address = operands.address(target)
    items = source.items if isinstance(source, Vec) else (source,)
    reads = [operands.raw(item, bits) for item in items]

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        values = np.stack([read()[lanes] for read in reads], -1)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), -1)
        machine.scatter(space, lanes, address()[lanes], raw)

    return step


def combine(op: str, kind: str, old: Array, value: Array, flushes: bool = False) -> Array:
    """One reduction of raw elements: add min max inc dec and or xor exch, by type.

    `flushes`: float32 sums treat subnormals as zero, as atom.global.add.f32 does.
    """
    if op == "exch":
        return value
    if op in ("and", "or", "xor"):
        return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op](old, value)
    if op == "inc":
        return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
    if op == "dec":
        return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
    if kind[0] in "su":
        return old + value if op == "add" else ints.ordered(op, kind, old, value)
    base = kind.removesuffix("x2")
    width = bits_of(base)
    a = decode(np.ascontiguousarray(old).view(uint(width)), base)
    b = decode(np.ascontiguousarray(value).view(uint(width)), base)
    with np.errstate(all="ignore"):
        if flushes and kind == "f32":
            result = flush(round_to(add_odd(flush(a), flush(b)), base))
        elif op == "add":
            result = a + b if base == "f64" else round_to(add_odd(a, b), base)
        else:
            result = np.fmin(a, b) if op == "min" else np.fmax(a, b)
        return encode(result, base).view(old.dtype)


def atomic(instruction: Instruction, operands: Operands) -> Step:
    """atom and red: lanes in ascending order, each on what the one before left."""
    machine, words = operands.machine, instruction.opcode.split(".")
    returns = words[0] == "atom"
    kind, space = words[-1], space_of(words)
    names = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
    op = next(word for word in words[1:] if word in names)
    count = next((int(word[1]) for word in words if word in ("v2", "v4", "v8")), 1)
    target = instruction.operands[0] if returns else None
    memory, *sources = instruction.operands[1 if returns else 0 :]
    address, bits = operands.address(memory), bits_of(kind)
    values = sources[0].items if isinstance(sources[0], Vec) else (sources[0],)
    reads = [operands.raw(item, bits) for item in values]
    other = operands.raw(sources[1], bits) if op == "cas" else None

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        where = address()[lanes]
        given = np.stack([read()[lanes] for read in reads], -1)
        swap = other()[lanes] if other else None
        before = np.zeros((len(lanes), count), uint(bits))
        # Lanes with the same address take turns; the others go together.
        turn = _turns(where)
        for now in range(int(turn.max()) + 1 if len(lanes) else 0):
            some = np.flatnonzero(turn == now)
            raw = machine.gather(space, lanes[some], where[some], count * bits // 8)
            old = np.ascontiguousarray(raw).view(uint(bits))
            before[some] = old
            if op == "cas":
                new = np.where(old == given[some], swap[some][:, None], old)
            else:
                new = combine(op, kind, old, given[some], space == "global" and op == "add")
            packed = np.ascontiguousarray(new).view(np.uint8).reshape(len(some), -1)
            machine.scatter(space, lanes[some], where[some], packed)
        if returns:
            items = target.items if isinstance(target, Vec) else (target,)
            for i, item in enumerate(items):
                whole = np.zeros(machine.lanes, before.dtype)
                whole[lanes] = before[:, i]
                operands.write(item, whole, mask)

    return step


def _turns(address: Array) -> Array:
    """How many earlier lanes have the same address."""
    order = np.argsort(address, kind="stable")
    ranked = address[order]
    starts = np.r_[True, ranked[1:] != ranked[:-1]] if len(address) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(starts, np.arange(len(address)), 0))
    turn = np.empty(len(address), np.int64)
    turn[order] = np.arange(len(address)) - first
    return turn


def async_copy(instruction: Instruction, operands: Operands) -> Step | None:
    """cp.async of 4, 8 or 16 bytes; bytes past the source size are zero."""
    machine, words = operands.machine, instruction.opcode.split(".")
    if words[2] in ("commit_group", "wait_group", "wait_all"):
        return lambda mask: None
    target, source, size = instruction.operands[:3]
    size = size.value
    to, origin = operands.address(target), operands.address(source)
    extra = instruction.operands[3] if len(instruction.operands) > 3 else None
    ignore = read = None
    if extra is not None:
        if getattr(extra, "type", "") == "pred" or type(extra).__name__ == "Not":
            ignore = operands.raw(extra, 1)
        else:
            read = operands.raw(extra, 32)

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        length = np.full(len(lanes), size)
        if read is not None:
            length = np.minimum(read()[lanes].astype(np.int64), size)
        if ignore is not None:
            length = np.where(ignore()[lanes], 0, size)
        data = np.zeros((len(lanes), size), np.uint8)
        where = origin()[lanes]
        full = length == size
        if full.any():
            data[full] = machine.gather("global", lanes[full], where[full], size)
        for i in np.flatnonzero(~full & (length > 0)):
            n = int(length[i])
            data[i, :n] = machine.global_bytes(int(where[i]), n)
        machine.scatter("shared", lanes, to()[lanes], data)

    return step


def matrix_move(instruction: Instruction, operands: Operands) -> Step:
    """ldmatrix and stmatrix of 8x8 16-bit matrices: row addresses of matrix j come from lanes 8j to 8j+7."""
    machine, words = operands.machine, instruction.opcode.split(".")
    count = next(int(word[1]) for word in words if word in ("x1", "x2", "x4"))
    trans, loading = "trans" in words, words[0] == "ldmatrix"
    vector, memory = instruction.operands if loading else instruction.operands[::-1]
    items = vector.items if isinstance(vector, Vec) else (vector,)
    address = operands.address(memory)
    reads = [] if loading else [operands.raw(item, 32) for item in items]

    def rows(mask: Array | None) -> tuple[Array, Array]:
        lanes = active(mask, machine).reshape(-1, 32)[:, : 8 * count]
        return lanes.reshape(-1), address()[lanes.reshape(-1)]

    def load_step(mask: Array | None) -> None:
        lanes, where = rows(mask)
        raw = machine.gather("shared", lanes, where, 16)
        matrices = np.ascontiguousarray(raw).view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            matrices = matrices.transpose(0, 1, 3, 2)
        registers = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, 32)
        for j, item in enumerate(items):
            _write_warps(operands, item, registers[:, j], mask)

    def store_step(mask: Array | None) -> None:
        lanes, where = rows(mask)
        everyone = active(mask, machine)
        words_ = np.stack([read()[everyone].reshape(-1, 32) for read in reads], 1)
        matrices = np.ascontiguousarray(words_).view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            matrices = matrices.transpose(0, 1, 3, 2)
        raw = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, 16)
        machine.scatter("shared", lanes, where, raw)

    return load_step if loading else store_step


def transpose_step(instruction: Instruction, operands: Operands) -> Step:
    """movmatrix: an 8x8 16-bit matrix held by a warp, transposed."""
    target, source = instruction.operands
    read = operands.raw(source, 32)

    def step(mask: Array | None) -> None:
        lanes = active(mask, operands.machine)
        matrix = np.ascontiguousarray(read()[lanes]).view(np.uint16).reshape(-1, 8, 8)
        moved = np.ascontiguousarray(matrix.transpose(0, 2, 1)).view(np.uint32).reshape(-1, 32)
        _write_warps(operands, target, moved, mask)

    return step


def _write_warps(operands: Operands, item: object, values: Array, mask: Array | None) -> None:
    """values: [executing warps, 32]."""
    whole = np.zeros(operands.machine.lanes, values.dtype)
    whole[active(mask, operands.machine)] = values.reshape(-1)
    operands.write(item, whole, mask)
