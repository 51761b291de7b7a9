"""Instructions of a whole warp: shuffles, votes, matches, reductions, elect (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.numpy_backend.operands import Operands, bits_of, signed
from tilegen.simulate.ptx import Instruction, Pair

Array = np.ndarray
Step = Callable[[Array | None], None]

_LANE = np.arange(32)


def _executing(mask: Array | None, machine) -> Array:
    """bool [warps, 32]."""
    return (np.ones(machine.lanes, bool) if mask is None else mask).reshape(-1, 32)


def shuffle(instruction: Instruction, operands: Operands) -> Step:
    """shfl.sync: c holds the segment mask in bits 8-12 and the clamp in bits 0-4."""
    mode = instruction.opcode.split(".")[2]
    target, source, lane, control = instruction.operands[:4]
    read, b, c = (operands.raw(op, 32) for op in (source, lane, control))

    def step(mask: Array | None) -> None:
        value = read().reshape(-1, 32)
        bval = (b() & 31).astype(np.int64).reshape(-1, 32)
        cval = c().astype(np.int64).reshape(-1, 32)
        segment, clamp = cval >> 8 & 31, cval & 31
        highest = (_LANE & segment) | (clamp & ~segment)
        lowest = _LANE & segment
        if mode == "up":
            origin = _LANE - bval
            valid = origin >= highest
        elif mode == "down":
            origin = _LANE + bval
            valid = origin <= highest
        elif mode == "bfly":
            origin = _LANE ^ bval
            valid = origin <= highest
        else:
            origin = lowest | (bval & ~segment)
            valid = origin <= highest
        origin = np.where(valid, origin, _LANE) & 31
        moved = np.take_along_axis(value, origin, 1).reshape(-1)
        if isinstance(target, Pair):
            operands.write(target.first, moved, mask)
            operands.write(target.second, valid.reshape(-1), mask)
        else:
            operands.write(target, moved, mask)

    return step


def vote(instruction: Instruction, operands: Operands) -> Step:
    mode = instruction.opcode.split(".")[2]
    target, source = instruction.operands[:2]
    read = operands.raw(source, 1)

    def step(mask: Array | None) -> None:
        on = _executing(mask, operands.machine)
        truth = read().reshape(-1, 32)
        if mode == "ballot":
            bits = (
                ((truth & on).astype(np.uint64) << _LANE.astype(np.uint64)).sum(1).astype(np.uint32)
            )
            operands.write(target, np.repeat(bits, 32), mask)
            return
        all_on, any_on = (truth | ~on).all(1), (truth & on).any(1)
        answer = {"all": all_on, "any": any_on, "uni": all_on | ~any_on}[mode]
        operands.write(target, np.repeat(answer, 32), mask)

    return step


def reduce(instruction: Instruction, operands: Operands) -> Step:
    """redux.sync over the executing lanes."""
    words = instruction.opcode.split(".")
    op, kind = words[2], words[-1]
    target, source = instruction.operands[:2]
    read = operands.raw(source, 32)

    def step(mask: Array | None) -> None:
        on = _executing(mask, operands.machine)
        value = read().reshape(-1, 32)
        value = signed(value) if kind[0] == "s" else value
        info = np.iinfo(value.dtype)
        function, neutral = {
            "add": (np.add, 0),
            "min": (np.minimum, info.max),
            "max": (np.maximum, info.min),
            "and": (np.bitwise_and, info.max if kind[0] == "u" else 0xFFFFFFFF),
            "or": (np.bitwise_or, 0),
            "xor": (np.bitwise_xor, 0),
        }[op]
        whole = np.where(on, value, value.dtype.type(neutral))
        total = function.reduce(whole, axis=1, dtype=value.dtype)
        operands.write(target, np.repeat(total, 32).view(np.uint32), mask)

    return step


def match(instruction: Instruction, operands: Operands) -> Step:
    words = instruction.opcode.split(".")
    target, source = instruction.operands[:2]
    read = operands.raw(source, bits_of(words[-1]))

    def step(mask: Array | None) -> None:
        on = _executing(mask, operands.machine)
        value = read().reshape(-1, 32)
        same = (value[:, :, None] == value[:, None, :]) & on[:, None, :]
        bits = (same.astype(np.uint64) << _LANE.astype(np.uint64)).sum(2).astype(np.uint32)
        if words[1] == "any":
            operands.write(target, bits.reshape(-1), mask)
            return
        every = (same | ~on[:, None, :]).all(2)
        result = np.where(every, bits, np.uint32(0)).reshape(-1)
        first = target.first if isinstance(target, Pair) else target
        operands.write(first, result, mask)
        if isinstance(target, Pair):
            operands.write(target.second, every.reshape(-1), mask)

    return step


def elect(instruction: Instruction, operands: Operands) -> Step:
    """elect.sync: the lowest lane of the mask, as hardware does."""
    target, members = instruction.operands
    read = operands.raw(members, 32)

    def step(mask: Array | None) -> None:
        member = read().reshape(-1, 32)[:, 0]
        low = member & (~member + np.uint32(1))
        leader = np.log2(np.maximum(low, 1)).astype(np.uint32)
        chosen = np.repeat(leader, 32)
        operands.write(target.first, chosen, mask)
        lane = np.tile(_LANE, len(member))
        operands.write(target.second, lane == chosen, mask)

    return step


def active_mask(instruction: Instruction, operands: Operands) -> Step:
    def step(mask: Array | None) -> None:
        on = _executing(mask, operands.machine)
        bits = (on.astype(np.uint64) << _LANE.astype(np.uint64)).sum(1).astype(np.uint32)
        operands.write(instruction.operands[0], np.repeat(bits, 32), mask)

    return step
