"""mma.sync and wgmma (PTX ISA 9.7.14, 9.7.15): fragments to matrices, one product, matrices to fragments.

Sums are taken in float64 and rounded once; hardware truncates aligned addends, so results agree within a bound, and
exactly where every partial sum is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.loads import active
from tilegen.simulate.numpy_backend.operands import Operands
from tilegen.simulate.numpy_backend.rounding import decode, encode, round_to, uint
from tilegen.simulate.ptx import Imm, Instruction, Vec

Array = np.ndarray
Step = Callable[[Array | None], None]

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}


def _values(raw: Array, kind: str) -> Array:
    """Elements as float64, which holds every product of 8- to 32-bit inputs."""
    if kind in ("s8", "u8"):
        return raw.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64)
    return decode(raw, kind)


def _shape(word: str) -> tuple[int, int, int]:
    m, rest = word[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _a_matrix(raw: list[Array], kind: str, m: int, k: int) -> Array:
    """[warps, m, k] of A registers [warps, 32]: register q holds rows g + 8 (q & 1), columns (q >> 1) 4e + te + [0, e)."""
    e = 32 // _BITS[kind]
    halves = m // 8
    result = np.empty((raw[0].shape[0], halves, 8, k // (4 * e), 4, e))
    for q, register in enumerate(raw):
        elements = np.ascontiguousarray(register).view(uint(_BITS[kind])).reshape(-1, 8, 4, e)
        result[:, q % halves, :, q // halves] = _values(elements, kind)
    return result.reshape(-1, m, k)


def _b_matrix(raw: list[Array], kind: str, k: int) -> Array:
    """[warps, 8, k]: register q of lane 4g + t holds column g, rows q 4e + te + [0, e)."""
    e = 32 // _BITS[kind]
    result = np.empty((raw[0].shape[0], 8, k // (4 * e), 4, e))
    for q, register in enumerate(raw):
        elements = np.ascontiguousarray(register).view(uint(_BITS[kind])).reshape(-1, 8, 4, e)
        result[:, :, q] = _values(elements, kind)
    return result.reshape(-1, 8, k)


def _read_sums(raw: list[Array], acc: str) -> Array:
    """[n, registers * per register] numbers of accumulator registers [n]."""
    stacked = np.stack(raw, -1)
    if acc == "s32":
        return np.ascontiguousarray(stacked).view(np.int32).astype(np.float64)
    return decode(np.ascontiguousarray(stacked).view(uint(16 if acc == "f16" else 32)), acc)


def _write_sums(total: Array, acc: str, saturate: bool = False) -> Array:
    """uint32 [n, registers]."""
    if acc == "s32":
        if saturate:
            total = np.clip(total, -(2.0**31), 2.0**31 - 1)
        return total.astype(np.int64).astype(np.uint64).astype(np.uint32)
    with np.errstate(over="ignore"):
        raw = encode(round_to(total, acc), acc)
    return np.ascontiguousarray(raw).view(np.uint32)


def mma(instruction: Instruction, operands: Operands) -> Step:
    words = instruction.opcode.split(".")
    m, n, k = _shape(next(word for word in words if word[0] == "m" and word[1].isdigit()))
    acc, a_kind, b_kind = words[-4], words[-3], words[-2]
    saturate = "satfinite" in words
    target, a, b, c = instruction.operands
    machine = operands.machine
    if a_kind == "f64":
        return _mma_double(instruction, operands)
    if n != 8:
        raise SimulationError(f"NumPy backend: {instruction.opcode} is not modelled")
    a_reads, b_reads, c_reads = (
        [operands.raw(item, 32) for item in (op.items if isinstance(op, Vec) else (op,))]
        for op in (a, b, c)
    )

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        a_raw, b_raw = (
            [read()[lanes].reshape(-1, 32) for read in reads] for reads in (a_reads, b_reads)
        )
        product = _a_matrix(a_raw, a_kind, m, k) @ _b_matrix(b_raw, b_kind, k).transpose(0, 2, 1)
        # element (row g + 8h, column 2t + j) is number 2h + j of lane 4g + t
        mine = product.reshape(-1, m // 8, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(-1, m // 4)
        total = mine + _read_sums([read()[lanes] for read in c_reads], acc)
        raw = _write_sums(total, acc, saturate)
        for i, item in enumerate(target.items):
            whole = np.zeros(machine.lanes, np.uint32)
            whole[lanes] = raw[:, i]
            operands.write(item, whole, mask)

    return step


def _mma_double(instruction: Instruction, operands: Operands) -> Step:
    """m8n8k4 in float64: A row g column t, B row t column g, C row g columns 2t and 2t + 1."""
    target, a, b, c = instruction.operands
    machine = operands.machine
    reads = [operands.real(item, "f64") for op in (a, b, c) for item in op.items]
    if len(reads) != 4:
        raise SimulationError(f"NumPy backend: {instruction.opcode} is not modelled")

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine)
        x, y, c0, c1 = (read()[lanes] for read in reads)
        product = x.reshape(-1, 8, 4) @ y.reshape(-1, 8, 4).transpose(0, 2, 1)
        total = product.reshape(-1, 8, 4, 2).reshape(-1, 2) + np.stack([c0, c1], -1)
        for i, item in enumerate(target.items):
            whole = np.zeros(machine.lanes)
            whole[lanes] = total[:, i]
            operands.write_real(item, whole, "f64", mask)

    return step


def _operand_offsets(descriptor: int, rows: int, k: int, size: int, major: int) -> Array:
    """Shared-memory byte addresses [rows, k] of an operand; rows counts M or N (9.7.15.5.1)."""
    start = (descriptor & 0x3FFF) << 4
    leading = (descriptor >> 16 & 0x3FFF) << 4
    stride = (descriptor >> 32 & 0x3FFF) << 4
    base, mode = descriptor >> 49 & 7, descriptor >> 62 & 3
    span = {0: 16, 1: 128, 2: 64, 3: 32}[mode]
    r, c = np.arange(rows)[:, None], np.arange(k)[None, :]
    if major == 0:
        column = c * size
        if mode:
            offset = r // 8 * stride + r % 8 * span + column
        else:
            offset = r // 8 * stride + r % 8 * 16 + column // 16 * leading + column % 16
    else:
        per = span // size
        inner = r % per * size + c % 8 * span
        if mode:
            offset = r // per * leading + c // 8 * stride + inner
        else:
            offset = r // per * stride + c // 8 * leading + inner
    address = start + offset
    if mode:
        reach = {1: 7, 2: 3, 3: 1}[mode]
        address = address ^ ((((address >> 7) - base) & reach) << 4)
    return address


def wgmma(instruction: Instruction, operands: Operands) -> Step:
    """wgmma.mma_async, done at once for every warpgroup that executes it."""
    words = instruction.opcode.split(".")
    m, n, k = _shape(next(word for word in words if word.startswith("m64")))
    acc, a_kind, b_kind = words[-3:]
    target, a, b, scale_d, *immediates = instruction.operands
    numbers = [op.value for op in immediates]
    machine, size = operands.machine, _BITS[a_kind] // 8
    in_registers = isinstance(a, Vec)
    sign = numbers[0] * numbers[1] if acc != "s32" else 1
    majors = numbers[2:]
    a_major = majors[0] if majors and not in_registers else 0
    b_major = majors[-1] if majors else 0
    a_reads = (
        [operands.raw(item, 32) for item in a.items] if in_registers else [operands.raw(a, 64)]
    )
    b_read = operands.raw(b, 64)
    keep = operands.raw(scale_d, 1)
    if isinstance(scale_d, Imm) and scale_d.value not in (0, 1):
        raise SimulationError(f"NumPy backend: {instruction.text}")
    sums = [operands.raw(item, 32) for item in target.items]

    def matrix(descriptor: int, block: int, rows: int, kind: str, major: int) -> Array:
        place = _operand_offsets(descriptor, rows, k, size, major)
        raw = machine.shared[block][place[..., None] + np.arange(size)]
        return _values(np.ascontiguousarray(raw).view(uint(8 * size))[..., 0], kind)

    def step(mask: Array | None) -> None:
        lanes = active(mask, machine).reshape(-1, 128)
        old = np.stack([read() for read in sums], -1)
        new = old.copy()
        a_raw = [read() for read in a_reads]
        b_raw, kept = b_read(), keep()
        for group in lanes:
            first = int(group[0])
            block = int(machine.block[first])
            right = matrix(int(b_raw[first]), block, n, b_kind, b_major)
            if in_registers:
                warps = [raw[group].reshape(4, 32) for raw in a_raw]
                left = _a_matrix(warps, a_kind, 16, k).reshape(64, k)
            else:
                left = matrix(int(a_raw[0][first]), block, 64, a_kind, a_major)
            product = sign * (left @ right.T)
            # warp w, row 8h + g, column 8j + 2t + i  ->  lane 32w + 4g + t, number 4j + 2h + i
            mine = (
                product.reshape(4, 2, 8, n // 8, 4, 2).transpose(0, 2, 4, 3, 1, 5).reshape(128, -1)
            )
            if kept[first]:
                mine = mine + _read_sums(list(old[group].T), acc)
            new[group] = _write_sums(mine, acc)
        for i, item in enumerate(target.items):
            operands.write(item, np.ascontiguousarray(new[:, i]), mask)

    return step
