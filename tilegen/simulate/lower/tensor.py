"""Lowering of mma.sync."""

from __future__ import annotations

import re

from tilegen.simulate.lower.program import Builder, UnknownForm
from tilegen.simulate.parse import Instruction, Vec

NUMBERS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 3, "e5m2": 4, "s8": 5, "u8": 6}
ACCUMULATORS = {"f32": 0, "f16": 1, "s32": 2}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
# legal m, n, k by the bits of an element of A
_SHAPES = {
    16: {(16, 8, 8), (16, 8, 16)},
    32: {(16, 8, 4), (16, 8, 8)},
    8: {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
}


def mma(b: Builder, inst: Instruction, mods: list[str]) -> None:
    mods = [m for m in mods if m not in ("sync", "aligned", "row", "col")]
    saturate = "satfinite" in mods
    mods = [m for m in mods if m != "satfinite"]
    shape, d_type, a_type, b_type, c_type = mods
    m, n, k = (int(x) for x in re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape).groups())
    if (
        a_type not in NUMBERS
        or b_type not in NUMBERS
        or d_type not in ACCUMULATORS
        or d_type != c_type
    ):
        raise UnknownForm
    width = _BITS[a_type]
    integer = d_type == "s32"
    if (
        width != _BITS[b_type]
        or (m, n, k) not in _SHAPES[width]
        or integer != (a_type in ("s8", "u8"))
    ):
        raise UnknownForm
    vectors = [o.items if isinstance(o, Vec) else (o,) for o in inst.operands]
    d, x, y, c = vectors
    each = 32 // width  # elements of a register
    if len(x) != m * k // (32 * each) or len(y) != n * k // (32 * each):
        raise UnknownForm("register counts")
    data = "b32"
    items = (
        [b.register(r) for r in d] + [b.value(r, data) for r in x] + [b.value(r, data) for r in y]
    )
    accumulator = "f32" if d_type == "f32" else "b32"
    items += [b.value(r, accumulator) for r in c]
    imm = NUMBERS[a_type] | NUMBERS[b_type] << 4 | (m == 8) << 8 | saturate << 9
    name = f"mma.{'i' if integer else 'f'}.{each}"
    b.emit(name, (len(x), len(y), len(d), ACCUMULATORS[d_type]), imm, items)


OPCODES = {"mma": mma}
