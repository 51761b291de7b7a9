"""Lowering of comparisons and selection."""

from __future__ import annotations

from tilegen.simulate.lower.arithmetic import HALVES, bits, take
from tilegen.simulate.lower.program import Builder, UnknownForm
from tilegen.simulate.ptx import SINK, TYPE_BYTES, Instruction, Pair

_COMBINE = {"and": 1, "or": 2, "xor": 3}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def setp(b: Builder, inst: Instruction, mods: list[str]) -> None:
    mods = list(mods)
    type_ = mods.pop()
    compare = mods.pop(0)
    combine = _COMBINE.get(take(mods, *_COMBINE) or "", 0)
    ftz = take(mods, "ftz")
    if mods:
        raise UnknownForm
    compare = _UNSIGNED.get(compare, compare)
    d, x, y, *rest = inst.operands
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, SINK)
    p = b.predicate(first) if first is not SINK else -1
    q = b.predicate(second) if second is not SINK else -1
    c = b.condition(rest[0]) if rest else 0
    name = type_ if type_[0] != "b" or type_ in HALVES else f"u{type_[1:]}"
    if ftz and type_ == "f32":
        name = "ftz.f32"
    b.emit(f"setp.{compare}.{name}", (p, q, b.value(x, type_), b.value(y, type_), c), combine)


def set_(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """A comparison whose result is a number: 1.0, or all ones."""
    mods = list(mods)
    source, destination = mods.pop(), mods.pop()
    compare = mods.pop(0)
    ftz = take(mods, "ftz")
    if mods:
        raise UnknownForm
    ones = {"f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80, "f32": 0x3F800000}
    d, x, y = inst.operands
    compare = _UNSIGNED.get(compare, compare)
    if source in ("f16x2", "bf16x2"):
        slots = (b.register(d), b.value(x, source), b.value(y, source))
        b.emit(f"set.{compare}.{source}", slots, ones.get(destination, 0xFFFF))
        return
    size = TYPE_BYTES[destination]
    name = source if source[0] != "b" or source in HALVES else f"u{source[1:]}"
    name = "ftz.f32" if ftz and source == "f32" else name
    p = b.predicate_count
    b.predicate_count += 1
    b.emit(f"setp.{compare}.{name}", (p, -1, b.value(x, source), b.value(y, source), 0))
    yes, no = b.constant(ones.get(destination, (1 << 8 * size) - 1), size), b.constant(0, size)
    b.emit(f"selp.b{8 * size}", (b.register(d), yes, no, 2 * p))


def selp(b: Builder, inst: Instruction, mods: list[str]) -> None:
    (type_,) = mods
    d, x, y, p = inst.operands
    b.emit(
        f"selp.{bits(type_)}", (b.register(d), b.value(x, type_), b.value(y, type_), b.condition(p))
    )


def slct(b: Builder, inst: Instruction, mods: list[str]) -> None:
    *ftz, type_, by = mods
    d, x, y, c = inst.operands
    b.emit(
        f"slct.{bits(type_)}.{by}",
        (b.register(d), b.value(x, type_), b.value(y, type_), b.value(c, by)),
    )


def testp(b: Builder, inst: Instruction, mods: list[str]) -> None:
    p, x = inst.operands
    b.emit(".".join(["testp", *mods]), (b.predicate(p), b.value(x, mods[-1])))


OPCODES = {"setp": setp, "set": set_, "selp": selp, "slct": slct, "testp": testp}
