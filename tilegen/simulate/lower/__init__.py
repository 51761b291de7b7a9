"""Lowering: PTX instructions to the core's operations. An unknown form is an error, never skipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.lower import arithmetic, bulk, compare, control, conversion, memory, tensor
from tilegen.simulate.lower.program import (
    MODULE_ADDRESS,
    ROW,
    SHARED_START,
    TOUCHES,
    Builder,
    Program,
    UnknownForm,
    initial_bytes,
)
from tilegen.simulate.ptx import Instruction, Kernel, Mem, Module, Reg, Sym, Vec


def _copy(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """cp.async.* and cp.reduce.async.bulk.*"""
    reduction = mods[0] == "reduce"
    mods = mods[1:] if reduction else mods
    if mods[0] != "async":
        raise UnknownForm
    if mods[1] == "bulk":
        bulk.bulk(b, inst, mods[2:], reduction)
    elif mods[1] == "mbarrier":
        bulk.copies_arrive(b, inst, mods[2:])
    else:
        memory.copy_async(b, inst, mods[1:])


def _store(b: Builder, inst: Instruction, mods: list[str]) -> None:
    (bulk.store_async if "async" in mods else memory.store)(b, inst, mods)


def _reduce(b: Builder, inst: Instruction, mods: list[str]) -> None:
    (bulk.store_async if "async" in mods else memory.atom)(b, inst, mods)


RULES: dict[str, Callable[[Builder, Instruction, list[str]], None]] = {
    **arithmetic.OPCODES,
    **compare.OPCODES,
    **conversion.OPCODES,
    **control.OPCODES,
    **memory.OPCODES,
    **tensor.OPCODES,
    **bulk.OPCODES,
    "cp": _copy,
    "st": _store,
    "red": _reduce,
}


def _align(offset: int, to: int) -> int:
    return -(-offset // to) * to


def _place_variables(b: Builder) -> tuple[int, int, bytes, list[tuple[str, int, bytes]]]:
    """Addresses of the variables that the kernel names.

    Returns static shared bytes, local bytes a thread, constant memory, and global variables.
    """
    used = set()
    for inst in b.kernel.instructions:
        for operand in inst.operands:
            base = operand.base if isinstance(operand, Mem) else operand
            if isinstance(base, Sym):
                used.add(base.name)
    shared, local, opened = SHARED_START, 0, []
    constant, variables, address = bytearray(), [], MODULE_ADDRESS
    for name, variable in {**b.module.variables, **b.kernel.variables}.items():
        if name not in used:
            continue
        if variable.space == "shared" and variable.size == 0:
            opened.append((name, variable.align))
        elif variable.space == "shared":
            shared = _align(shared, variable.align)
            b.addresses[name] = ("shared", shared)
            shared += variable.size
        elif variable.space == "local":
            local = _align(local, variable.align)
            b.addresses[name] = ("local", local)
            local += variable.size
        elif variable.space == "const":
            constant += bytes(_align(len(constant), variable.align) - len(constant))
            b.addresses[name] = ("const", len(constant))
            constant += initial_bytes(name, variable)
        elif variable.space == "global":
            address = _align(address, max(variable.align, 256))
            b.addresses[name] = ("global", address)
            variables.append((name, address, initial_bytes(name, variable)))
            address += variable.size
    for name, align in opened:  # dynamic shared memory follows the static part
        shared = _align(shared, max(align, 16))
        b.addresses[name] = ("shared", shared)
    return shared - SHARED_START, _align(local, 16), bytes(constant), variables


def lower(module: Module, kernel: Kernel, ops: dict[str, int]) -> Program:
    """Translate one kernel. Raises SimulationError that lists every form the simulator lacks."""
    b = Builder(kernel, module, ops)
    static_shared, local_bytes, constant, variables = _place_variables(b)
    starts: list[int] = []
    unknown: dict[str, tuple[str, int, int]] = {}
    split_cache: dict[str, tuple] = {}
    for at, inst in enumerate(kernel.instructions):
        starts.append(len(b.rows))
        b.at, b.inst = at, inst
        known = split_cache.get(inst.opcode)
        if known is None:
            head, *mods = inst.opcode.split(".")
            known = split_cache[inst.opcode] = (RULES.get(head), mods)
        rule, mods = known
        try:
            if rule is None:
                raise UnknownForm
            rule(b, inst, mods)
        except UnknownForm as reason:
            _note(unknown, inst, str(reason))
        except (ValueError, KeyError, IndexError, AttributeError, TypeError) as fault:
            _note(unknown, inst, f"operands not understood: {fault}")
    starts.append(len(b.rows))
    if unknown:
        lines = [
            f"  {form}{f' ({reason})' if reason else ''}: {count} times, first at line {line}"
            for form, (reason, count, line) in unknown.items()
        ]
        raise SimulationError(
            f"the simulator does not know {len(unknown)} PTX forms of kernel {kernel.name}:\n"
            + "\n".join(lines)
        )
    b.at, b.inst = len(kernel.instructions) - 1, kernel.instructions[-1]
    rows = b.rows
    target = {label: starts[at] for label, at in kernel.labels.items()}
    for row, label in b.jumps:
        old = rows[row]
        rows[row] = (*old[:3], (target[label],) + (0,) * 8, *old[4:])
    for row, labels in b.table_jumps:
        first = rows[row][5]
        b.pool[first : first + len(labels)] = [target[label] for label in labels]
    packed = np.array(rows, ROW)
    _mark_touches(b, packed)
    return Program(
        kernel,
        module.target,
        packed,
        np.array(b.pool or [0], np.int32),
        bytes(b.consts.ljust(64, b"\0")),
        np.array(b.source, np.int32),
        _align(b.register_bytes, 64) + 64,
        b.predicate_count,
        local_bytes,
        static_shared,
        constant,
        variables,
        len(b.wgmma),
        b.uses_setmaxnreg,
    )


def _note(unknown: dict[str, tuple[str, int, int]], inst, reason: str) -> None:
    old = unknown.get(inst.opcode)
    line = inst.lines[0] if inst.lines else 0
    unknown[inst.opcode] = (old[0], old[1] + 1, old[2]) if old else (reason, 1, line)


def _mark_touches(b: Builder, packed: np.ndarray) -> None:
    """Name, for each row that is no wgmma and touches a register that some wgmma uses, those registers."""
    if not b.wgmma:
        return
    first_row = {}
    for row, at in enumerate(b.source):
        first_row.setdefault(at, row)
    for at, inst in enumerate(b.kernel.instructions):
        if inst.opcode.startswith("wgmma"):
            continue
        stores = inst.opcode.startswith(("st", "red", "setp"))
        touched = set()
        for position, operand in enumerate(inst.operands):
            for item in operand.items if isinstance(operand, Vec) else (operand,):
                index = b.wgmma.get(item.id) if isinstance(item, Reg) else None
                if index is not None:
                    touched.add(index * 2 + (position == 0 and not stores))
        if touched:
            row = first_row[at]
            packed[row]["flags"] |= TOUCHES
            packed[row]["touch"], packed[row]["touched"] = len(b.pool), len(touched)
            b.pool += sorted(touched)
