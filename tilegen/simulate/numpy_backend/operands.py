"""Operands of PTX instructions as arrays over all lanes, and results back into registers.

A register is an unsigned integer array with one element a lane; predicates are bool.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.rounding import decode, encode, uint
from tilegen.simulate.numpy_backend.special import special_register
from tilegen.simulate.ptx import TYPE_BYTES, Imm, Mem, Not, Reg, Sink, Special, Sym, Vec

Array = np.ndarray
Read = Callable[[], Array]


def bits_of(kind: str) -> int:
    """Bits of a PTX type name; 1 for a predicate."""
    if kind == "pred":
        return 1
    if kind in ("e4m3x2", "e5m2x2"):
        return 16
    return 8 * TYPE_BYTES[kind]


def signed(raw: Array) -> Array:
    return raw.view(np.dtype(f"i{raw.dtype.itemsize}"))


def resized(raw: Array, bits: int, extend: bool = False) -> Array:
    """Truncate, or extend with zeros or the sign."""
    want = uint(bits)
    if raw.dtype == want:
        return raw
    if extend and raw.dtype.itemsize < want.itemsize:
        return signed(raw).astype(np.dtype(f"i{want.itemsize}")).view(want)
    return raw.astype(want)


class Operands:
    """Reads and writes the registers of one machine: `registers[id]` over `lanes` lanes."""

    def __init__(self, machine) -> None:
        self.machine = machine

    def raw(self, operand: object, bits: int) -> Read:
        """A function that returns the operand as unsigned integers of that width."""
        machine = self.machine
        if isinstance(operand, Reg):
            index = operand.id
            if bits == 1 or operand.type == "pred":
                return lambda: machine.registers[index]
            if bits_of(operand.type) == bits:
                return lambda: machine.registers[index]
            return lambda: resized(machine.registers[index], bits)
        if isinstance(operand, Not):
            inner = self.raw(operand.reg, 1)
            return lambda: ~inner()
        if isinstance(operand, Imm):
            value = operand.value
            if operand.kind == "f64" and bits == 32:
                value = int(
                    np.array(value, np.uint64).view(np.float64).astype(np.float32).view(np.uint32)
                )
            if bits == 1:
                constant = np.full(machine.lanes, bool(value))
            else:
                constant = np.full(machine.lanes, value & (2**bits - 1), uint(bits))
            return lambda: constant
        if isinstance(operand, Special):
            constant = special_register(machine, operand.name)
            if callable(constant):
                return lambda: resized(constant(), bits)
            constant = resized(constant, bits)
            return lambda: constant
        if isinstance(operand, Sym):
            constant = resized(machine.symbol(operand.name) + np.uint64(operand.offset), bits)
            return lambda: constant
        raise SimulationError(f"NumPy backend: no value for operand {operand}")

    def real(self, operand: object, kind: str) -> Read:
        """The operand decoded to float64; packed kinds give one more axis of 2."""
        base = kind.removesuffix("x2")
        read = self.raw(operand, bits_of(kind))
        if not kind.endswith("x2"):
            return lambda: decode(read(), base)
        width = bits_of(kind) // 2

        def packed() -> Array:
            halves = np.ascontiguousarray(read()).view(uint(width)).reshape(-1, 2)
            return decode(halves, base)

        return packed

    def write(
        self, operand: object, value: Array, mask: Array | None, extend: bool = False
    ) -> None:
        """Store unsigned integers (or bool) in a register where the mask is set; None means every lane."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Reg):
            raise SimulationError(f"NumPy backend: cannot write to {operand}")
        registers, index = self.machine.registers, operand.id
        if operand.type != "pred":
            value = resized(value, bits_of(operand.type), extend)
        if mask is None:
            registers[index] = value
        else:
            registers[index] = np.where(mask, value, registers[index])

    def write_real(self, operand: object, value: Array, kind: str, mask: Array | None) -> None:
        """Encode float64 and store; packed kinds take the axis of 2."""
        raw = encode(value, kind.removesuffix("x2"))
        if kind.endswith("x2"):
            raw = np.ascontiguousarray(raw).view(uint(bits_of(kind))).reshape(-1)
        self.write(operand, raw, mask)

    def address(self, memory: Mem) -> Read:
        """Byte address of a memory operand for each lane, uint64."""
        if isinstance(memory.base, Imm):
            fixed = np.full(self.machine.lanes, memory.base.value + memory.offset, np.uint64)
            return lambda: fixed
        bits = bits_of(memory.base.type) if isinstance(memory.base, Reg) else 64
        read, offset = self.raw(memory.base, bits), memory.offset

        def sum_() -> Array:
            base = read()
            # 32-bit addresses wrap in 32 bits
            return (base + base.dtype.type(offset % (1 << bits))).astype(np.uint64)

        return sum_

    def unpack(self, operand: object, raw: Array, bits: int, mask: Array | None) -> None:
        """Store [lanes, n] elements into a vector operand of n registers, or a wide register."""
        items = operand.items if isinstance(operand, Vec) else (operand,)
        for i, item in enumerate(items):
            self.write(item, np.ascontiguousarray(raw[:, i]), mask)
