"""Builds the core's program: register slots, constants, lists, one row for each lowered instruction."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.ptx import (
    TYPE_BYTES,
    Imm,
    Instruction,
    Kernel,
    Mem,
    Module,
    Not,
    Reg,
    Special,
    Sym,
    Variable,
)

LANES = 32
SHARED_START = 1024  # as in core/machine.h
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
PARAM_WINDOW = 0x7C00_0000_0000
CONST_WINDOW = 0x7B00_0000_0000
MODULE_ADDRESS = 0x7F48_0000_0000  # .global variables
ABSENT = -(2**31)  # INT32_MIN: no such operand
SPACES = {"generic": 0, "global": 1, "shared": 2, "local": 3, "param": 4, "const": 5}
WINDOWS = {
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "const": CONST_WINDOW,
}

ROW = np.dtype(
    [
        ("op", "<i4"),
        ("guard", "<i4"),
        ("flags", "<u4"),
        ("a", "<i4", 9),
        ("imm", "<i8"),
        ("list", "<i4"),
        ("count", "<i4"),
        ("touch", "<i4"),
        ("touched", "<i4"),
    ],
    align=True,
)
TOUCHES = 2  # flag, as in core/program.h


class UnknownForm(Exception):
    """A PTX form that the simulator does not model; carries the reason, or nothing."""


@dataclass
class Program:
    """A kernel ready to run. `source[k]` is the PTX instruction that row k came from."""

    kernel: Kernel
    target: str
    rows: np.ndarray
    pool: np.ndarray
    consts: bytes
    source: np.ndarray
    register_bytes: int
    predicates: int
    local_bytes: int
    static_shared: int
    constant_memory: bytes
    globals: list[tuple[str, int, bytes]]  # name, address, initial content
    wgmma_registers: int
    uses_setmaxnreg: bool


@dataclass
class Builder:
    kernel: Kernel
    module: Module
    ops: dict[str, int]
    rows: list[tuple] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    pool: list[int] = field(default_factory=list)
    slots: dict[int, int] = field(default_factory=dict)
    predicates: dict[int, int] = field(default_factory=dict)
    consts: bytearray = field(default_factory=bytearray)
    const_slots: dict[tuple[int, int], int] = field(default_factory=dict)
    register_bytes: int = 0
    predicate_count: int = 2  # 0 is false, 1 is true
    at: int = 0  # PTX instruction being lowered
    inst: Instruction | None = None
    addresses: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # variable: (space, offset or address)
    jumps: list[tuple[int, str]] = field(default_factory=list)
    table_jumps: list[tuple[int, list[str]]] = field(default_factory=list)
    wgmma: dict[int, int] = field(default_factory=dict)  # register id: index among wgmma registers
    carry: int = -1
    uses_setmaxnreg: bool = False

    def allocate(self, size: int) -> int:
        slot = self.register_bytes
        self.register_bytes += LANES * max(size, 2)
        return slot

    def temp(self, type_: str) -> int:
        return self.allocate(TYPE_BYTES[type_])

    def register(self, reg: Reg) -> int:
        """The slot of a data register."""
        slot = self.slots.get(reg.id)
        if slot is None:
            size = TYPE_BYTES[reg.type]
            if size == 0:
                raise UnknownForm("a predicate where data is expected")
            slot = self.slots[reg.id] = self.allocate(size)
        return slot

    def predicate(self, reg) -> int:
        """The index of a predicate register, for a destination."""
        if not isinstance(reg, Reg) or reg.type != "pred":
            raise UnknownForm("a predicate is expected")
        index = self.predicates.get(reg.id)
        if index is None:
            index = self.predicates[reg.id] = self.predicate_count
            self.predicate_count += 1
        return index

    def condition(self, operand) -> int:
        """Predicate * 2 + negated, for a source: a register, its negation, or a constant."""
        if isinstance(operand, Not):
            return self.predicate(operand.reg) * 2 + 1
        if isinstance(operand, Imm):
            return 2 if operand.value else 0
        return self.predicate(operand) * 2

    def constant(self, bits: int, size: int) -> int:
        """The (negative) slot of a row that holds the same bits in every lane."""
        size = max(size, 2)
        key = (bits & ((1 << 8 * size) - 1), size)
        slot = self.const_slots.get(key)
        if slot is None:
            while len(self.consts) % (LANES * size if size < 8 else 64):
                self.consts.append(0)
            slot = self.const_slots[key] = ~len(self.consts)
            self.consts += key[0].to_bytes(size, "little") * LANES
        return slot

    def value(self, operand, type_: str) -> int:
        """The slot of a source operand of a type."""
        if isinstance(operand, Reg):
            slot = self.slots.get(operand.id)
            if slot is None:
                slot = self.register(operand)
            if max(TYPE_BYTES[type_], 2) != max(TYPE_BYTES[operand.type], 2):
                raise UnknownForm(f"a .{operand.type} register as .{type_}")
            return slot
        if isinstance(operand, Imm):
            return self.constant(immediate_bits(operand, type_), TYPE_BYTES[type_])
        if isinstance(operand, Special):
            from tilegen.simulate.lower.control import special_register

            slot = self.temp(type_)
            special_register(self, slot, operand.name, TYPE_BYTES[type_])
            return slot
        if isinstance(operand, Sym):
            slot = self.temp(type_)
            self.address_of(slot, operand, TYPE_BYTES[type_])
            return slot
        raise UnknownForm(f"operand {operand}")

    def address_of(self, slot: int, symbol: Sym, size: int) -> None:
        """Emit `mov` of a variable's address in its own space."""
        space, where = self.variable(symbol.name)
        if space == "shared":
            self.emit(f"shared.address.b{8 * size}", (slot,), where + symbol.offset)
        else:
            self.emit(f"mov.b{8 * size}", (slot, self.constant(where + symbol.offset, size)))

    def variable(self, name: str) -> tuple[str, int]:
        if name in self.kernel.params:
            return "param", self.kernel.params[name][0]
        if name not in self.addresses:
            raise UnknownForm(f"no variable named {name}")
        return self.addresses[name]

    def address(self, memory: Mem, space: str) -> tuple[int, int, int]:
        """Slot, register bytes (0: none) and constant offset of an address operand."""
        if not isinstance(memory, Mem):
            raise UnknownForm("an address is expected")
        base = memory.base
        if isinstance(base, Reg):
            return self.register(base), TYPE_BYTES[base.type], memory.offset
        if isinstance(base, Sym):
            where, offset = self.variable(base.name)
            offset += base.offset + memory.offset
            if where == "global":
                return self.constant(offset, 8), 8, 0
            if space == "generic":
                if where == "shared":
                    raise UnknownForm("a generic access that names a shared variable")
                return self.constant(WINDOWS[where] + offset, 8), 8, 0
            return 0, 0, offset
        raise UnknownForm(f"address {base}")

    def emit(
        self,
        op: str,
        a: tuple = (),
        imm: int = 0,
        items: list[int] | None = None,
        guard: bool = True,
    ) -> int:
        index = self.ops.get(op)
        if index is None:
            raise UnknownForm(f"no operation {op}")
        start = len(self.pool)
        if items:
            self.pool += items
        inst = self.inst
        code = -1
        if guard and inst.guard is not None:
            code = (
                self.predicates[inst.guard.id] * 2 + inst.negated
                if inst.guard.id in self.predicates
                else (self.predicate(inst.guard) * 2 + inst.negated)
            )
        if imm >= 1 << 63:
            imm -= 1 << 64
        self.rows.append(
            (index, code, 0, a + (0,) * (9 - len(a)), imm, start, len(items) if items else 0, 0, 0)
        )
        self.source.append(self.at)
        return len(self.rows) - 1


def immediate_bits(operand: Imm, type_: str) -> int:
    """The bits of an immediate in a type: hex floats convert between f32 and f64, integers to floats by value."""
    if operand.kind == "int":
        if type_ in ("f32", "f64"):
            return int.from_bytes(
                struct.pack("<f" if type_ == "f32" else "<d", float(operand.value)), "little"
            )
        return operand.value
    if operand.kind == type_ or TYPE_BYTES[type_] == (4 if operand.kind == "f32" else 8):
        return operand.value
    if operand.kind == "f64" and type_ == "f32":
        value = struct.unpack("<d", struct.pack("<Q", operand.value))[0]
        return int.from_bytes(struct.pack("<f", value), "little")
    if operand.kind == "f32" and type_ == "f64":
        value = struct.unpack("<f", struct.pack("<I", operand.value))[0]
        return int.from_bytes(struct.pack("<d", value), "little")
    raise UnknownForm(f"a {operand.kind} immediate as .{type_}")


def initial_bytes(name: str, variable: Variable) -> bytes:
    """A module variable's content."""
    width = TYPE_BYTES[variable.type]
    content = bytearray()
    for item in variable.init or ():
        item = item.strip("{} ")
        if item[:2].lower() in ("0f", "0d"):
            content += int(item[2:], 16).to_bytes(width, "little")
        else:
            try:
                content += (int(item.rstrip("U"), 0) & ((1 << 8 * width) - 1)).to_bytes(
                    width, "little"
                )
            except ValueError:
                raise SimulationError(
                    f"PTX: variable {name} is initialised with {item}, an address"
                ) from None
    return bytes(content.ljust(variable.size, b"\0"))
