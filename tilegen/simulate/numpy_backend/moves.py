"""mov with packing and unpacking, and changes between state spaces (PTX ISA 9.7.9.1, 9.7.9.20 to 9.7.9.24)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.operands import Operands, bits_of
from tilegen.simulate.numpy_backend.rounding import uint
from tilegen.simulate.ptx import Instruction, Vec

Array = np.ndarray
Step = Callable[[Array | None], None]


def move_step(instruction: Instruction, operands: Operands) -> Step:
    """mov, with vector packing and unpacking; cvta and getctarank are the machine's."""
    kind = instruction.opcode.split(".")[-1]
    target, source = instruction.operands
    bits = bits_of(kind)
    if isinstance(source, Vec):
        width = bits // len(source.items)
        reads = [operands.raw(item, width) for item in source.items]

        def pack(mask: Array | None) -> None:
            parts = np.stack([read() for read in reads], -1)
            operands.write(target, parts.view(uint(bits)).reshape(-1), mask)

        return pack
    read = operands.raw(source, bits)
    if isinstance(target, Vec):
        width = bits // len(target.items)

        def split(mask: Array | None) -> None:
            parts = np.ascontiguousarray(read()).view(uint(width)).reshape(-1, len(target.items))
            operands.unpack(target, parts, width, mask)

        return split
    return lambda mask: operands.write(target, read(), mask)


def address_step(instruction: Instruction, operands: Operands) -> Step:
    """cvta between a space and the generic window; isspacep; mapa; getctarank."""
    words = instruction.opcode.split(".")
    machine, target, source = operands.machine, instruction.operands[0], instruction.operands[1]
    if words[0] == "cvta":
        space = words[2] if words[1] == "to" else words[1]
        base = machine.window(space)
        read = operands.raw(source, 64)
        change = np.uint64(base)
        if words[1] == "to":
            return lambda mask: operands.write(target, read() - change, mask)
        return lambda mask: operands.write(target, read() + change, mask)
    if words[0] == "mapa":
        bits = int(words[-1][1:])
        read, rank = operands.raw(source, bits), operands.raw(instruction.operands[2], 32)
        generic = "shared::cluster" not in instruction.opcode
        return lambda mask: operands.write(target, machine.map_rank(read(), rank(), generic), mask)
    if words[0] == "getctarank":
        read = operands.raw(source, int(words[-1][1:]))
        return lambda mask: operands.write(target, machine.rank_of(read()), mask)
    raise SimulationError(f"NumPy backend: {instruction.opcode} is not modelled")
