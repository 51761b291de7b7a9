"""Lowering of mma.sync and wgmma."""

from __future__ import annotations

import re

from tilegen.simulate.lower.program import ABSENT, Builder, UnknownForm
from tilegen.simulate.ptx import Imm, Instruction, Vec

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
    if a_type == b_type == d_type == c_type == "f64":
        _double(b, inst, m, n, k)
        return
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


def _double(b: Builder, inst: Instruction, m: int, n: int, k: int) -> None:
    if (m, n, k) not in {(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)}:
        raise UnknownForm
    d, x, y, c = (o.items if isinstance(o, Vec) else (o,) for o in inst.operands)
    if (len(d), len(x), len(y)) != (m // 4, m * k // 32, k // 4):
        raise UnknownForm("register counts")
    items = [b.register(r) for r in d] + [b.value(r, "f64") for r in (*x, *y, *c)]
    b.emit("mma.d.1", (len(x), len(y), len(d), 3), (m == 8) << 8, items)


def wgmma(b: Builder, inst: Instruction, mods: list[str]) -> None:
    kind = mods[0]
    if kind == "wait_group":
        b.emit("wgmma.wait_group", (), inst.operands[0].value)
        return
    if kind in ("fence", "commit_group"):
        b.emit(f"wgmma.{kind}")
        return
    if kind != "mma_async" or "sp" in mods:
        raise UnknownForm
    mods = [m for m in mods[1:] if m not in ("sync", "aligned")]
    saturate = "satfinite" in mods
    shape, d_type, a_type, b_type = (m for m in mods if m != "satfinite")
    m, n, k = (int(x) for x in re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape).groups())
    width = _BITS[a_type]
    if m != 64 or n % 8 or not 8 <= n <= 256 or k * width != 256 or _BITS[b_type] != width:
        raise UnknownForm
    if a_type not in NUMBERS or b_type not in NUMBERS or d_type not in ACCUMULATORS:
        raise UnknownForm
    d, x, y, scale, *flags = inst.operands
    if not all(isinstance(f, Imm) for f in flags):
        raise UnknownForm("an immediate is expected")
    numbers = [f.value for f in flags]
    in_registers = isinstance(x, Vec)
    expected = 0 if d_type == "s32" else 2 if width != 16 else 3 if in_registers else 4
    if len(numbers) != expected:
        raise UnknownForm(f"{len(numbers)} immediates")
    negate = [int(v == -1) for v in numbers[:2]] or [0, 0]
    trans = numbers[2:] if expected == 4 else [0, *numbers[2:]] if expected == 3 else [0, 0]
    if len(d.items) != (n // 4 if d_type == "f16" else n // 2) or (
        in_registers and len(x.items) != 4
    ):
        raise UnknownForm("register counts")
    registers = list(d.items) + (list(x.items) if in_registers else [])
    indices = [b.wgmma.setdefault(r.id, len(b.wgmma)) for r in registers]
    imm = NUMBERS[a_type] | NUMBERS[b_type] << 4 | trans[0] << 8 | trans[1] << 9
    imm |= negate[0] << 10 | negate[1] << 11 | saturate << 12
    left = ABSENT if in_registers else b.value(x, "b64")
    left_count = 4 if in_registers else 0
    a = (
        b.condition(scale),
        left,
        b.value(y, "b64"),
        len(d.items),
        left_count,
        ACCUMULATORS[d_type],
        n,
    )
    b.emit("wgmma", a, imm, [*(b.register(r) for r in registers), *indices])


OPCODES = {"mma": mma, "wgmma": wgmma}
