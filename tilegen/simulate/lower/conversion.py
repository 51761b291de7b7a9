"""Lowering of cvt, mov, cvta, and packing."""

from __future__ import annotations

from tilegen.simulate.lower.arithmetic import bits, take
from tilegen.simulate.lower.control import special_register
from tilegen.simulate.lower.program import WINDOWS, Builder, UnknownForm
from tilegen.simulate.ptx import SINK, TYPE_BYTES, Instruction, Mem, Reg, Special, Sym, Vec

_INTEGER_TYPES = {f"{k}{n}" for k in "us" for n in (8, 16, 32, 64)}
_REALS = {"f16", "bf16", "f32", "f64"}
_ROUND = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_TO_INTEGER = {"rni": 1, "rzi": 2, "rmi": 3, "rpi": 4}
_PACKED = {"f16x2", "bf16x2", "e4m3x2", "e5m2x2"}


def _integer_code(type_: str) -> int:
    return int(type_[1:]) | (256 if type_[0] == "s" else 0)


def _container(b: Builder, operand, type_: str) -> tuple[int, int]:
    """Slot and register width in bits of a cvt source."""
    if isinstance(operand, Reg):
        return b.register(operand), 8 * max(TYPE_BYTES[operand.type], 2)
    width = max(TYPE_BYTES[type_], 2)
    return b.value(operand, type_ if TYPE_BYTES[type_] > 1 else "u16"), 8 * width


def cvt(b: Builder, inst: Instruction, mods: list[str]) -> None:
    mods = list(mods)
    if mods[0] == "pack":
        _pack_integers(b, inst, mods[1:])
        return
    source, destination = mods.pop(), mods.pop()
    rounding, integer = take(mods, *_ROUND), take(mods, *_TO_INTEGER)
    ftz, sat, relu = take(mods, "ftz"), take(mods, "sat"), take(mods, "relu")
    finite, away = take(mods, "satfinite"), take(mods, "rna")
    if mods:
        raise UnknownForm
    modes = _ROUND[rounding or "rn"] << 16 | _TO_INTEGER.get(integer or "", 0) << 18
    modes |= bool(sat or finite) << 21 | bool(relu) << 22 | bool(ftz) << 23
    d, x, *more = inst.operands
    target = b.register(d)
    if destination in _PACKED or source in _PACKED:
        _packed(
            b, target, inst.operands[1:], destination, source, modes, rounding, bool(relu or finite)
        )
        return
    if destination == "tf32":
        if source != "f32" or finite:
            raise UnknownForm
        b.emit(f"cvt.{away or rounding or 'rn'}.tf32.f32", (target, b.value(x, "f32")), modes)
        return
    if more or away or finite or destination in ("e4m3", "e5m2"):
        raise UnknownForm
    width = 8 * max(TYPE_BYTES[d.type], 2)
    if destination in _INTEGER_TYPES and source in _INTEGER_TYPES:
        slot, source_width = _container(b, x, source)
        imm = _integer_code(destination) | _integer_code(source) << 32 | bool(sat) << 21
        b.emit(f"cvt.i{width}.i{source_width}", (target, slot), imm)
    elif destination in _INTEGER_TYPES and source in _REALS:
        if not integer:
            raise UnknownForm
        b.emit(
            f"cvt.i{width}.{source}",
            (target, b.value(x, source)),
            modes | _integer_code(destination),
        )
    elif destination in _REALS and source in _INTEGER_TYPES:
        if rounding is None:
            raise UnknownForm
        slot, source_width = _container(b, x, source)
        b.emit(f"cvt.{destination}.i{source_width}", (target, slot), modes | _integer_code(source))
    elif destination in _REALS and source in _REALS:
        plain = destination == "f32" and source in ("f16", "bf16") and not (sat or relu or integer)
        name = f"cvt.plain.f32.{source}" if plain else f"cvt.{destination}.{source}"
        b.emit(name, (target, b.value(x, source)), modes)
    else:
        raise UnknownForm


def _packed(b, target, operands, destination, source, modes, rounding, special) -> None:
    if source == "f32":
        if len(operands) != 2:
            raise UnknownForm
        slots = tuple(b.value(o, "f32") for o in operands)
        plain = destination in ("f16x2", "bf16x2") and rounding == "rn" and not special
        b.emit(f"cvt.{'plain.' if plain else ''}{destination}.f32", (target, *slots), modes)
    elif (destination, source) in (("f16x2", "e4m3x2"), ("f16x2", "e5m2x2")):
        b.emit(f"cvt.{destination}.{source}", (target, b.value(operands[0], "b16")), modes)
    elif (destination, source) in (("e4m3x2", "f16x2"), ("e5m2x2", "f16x2")):
        b.emit(f"cvt.{destination}.{source}", (target, b.value(operands[0], "b32")), modes)
    else:
        raise UnknownForm


def _pack_integers(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """cvt.pack.sat: two 32-bit integers, saturated, side by side."""
    sat, destination, source, *below = mods
    if sat != "sat" or source not in ("s32", "u32") or below not in ([], ["b32"]):
        raise UnknownForm
    d, *values = inst.operands
    width = int(destination[1:])
    slots = [b.value(v, "b32") for v in values] + [b.constant(0, 4)] * (3 - len(values))
    imm = width | (destination[0] == "s") << 8 | (source[0] == "s") << 9
    if width not in (8, 16) or (width == 8) != (len(values) == 3):
        raise UnknownForm
    b.emit("cvt.pack", (b.register(d), *slots), imm)


def mov(b: Builder, inst: Instruction, mods: list[str]) -> None:
    (type_,) = mods
    d, x = inst.operands
    if type_ == "pred":
        b.emit("mov.pred", (b.predicate(d), b.condition(x)))
    elif isinstance(d, Vec):
        parts = d.items
        width = 8 * TYPE_BYTES[type_] // len(parts)
        slots = [b.register(p) if p is not SINK else 0 for p in parts]
        kept = sum(1 << k for k, p in enumerate(parts) if p is not SINK)
        b.emit(f"unpack.{bits(type_)}.b{width}", (b.value(x, type_), *slots), kept)
    elif isinstance(x, Vec):
        width = 8 * TYPE_BYTES[type_] // len(x.items)
        b.emit(
            f"pack.{bits(type_)}.b{width}",
            (b.register(d), *(b.value(p, f"b{width}") for p in x.items)),
        )
    elif isinstance(x, Special):
        special_register(b, b.register(d), x.name, TYPE_BYTES[type_])
    elif isinstance(x, Sym):
        b.address_of(b.register(d), x, TYPE_BYTES[type_])
    else:
        b.emit(f"mov.{bits(type_)}", (b.register(d), b.value(x, type_)))


def cvta(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """Between generic addresses and those of a space; global ones are equal."""
    mods = list(mods)
    to = take(mods, "to")
    space, type_ = mods
    space = space.split("::")[0]
    d, x = inst.operands
    slot, size = b.register(d), TYPE_BYTES[type_]
    source = b.value(x, type_)
    if space == "global" or size == 4:
        b.emit(f"mov.{bits(type_)}", (slot, source))
    else:
        window = b.constant(WINDOWS[space], 8)
        b.emit(f"{'sub' if to else 'add'}.b64", (slot, source, window))


def mapa(b: Builder, inst: Instruction, mods: list[str]) -> None:
    generic = len(mods) == 1
    type_ = mods[-1]
    d, x, rank = inst.operands
    if isinstance(x, Mem):
        raise UnknownForm
    b.emit(f"mapa.{type_}", (b.register(d), b.value(x, type_), b.value(rank, "u32")), int(generic))


def getctarank(b: Builder, inst: Instruction, mods: list[str]) -> None:
    if mods[0] == "shared::cluster":
        mods = mods[1:]
    d, x = inst.operands
    b.emit(f"getctarank.{mods[0]}", (b.register(d), b.value(x, mods[0])))


def isspacep(b: Builder, inst: Instruction, mods: list[str]) -> None:
    space, _, where = mods[0].partition("::")
    code = {"global": 1, "shared": 2, "local": 3, "param": 4, "const": 5}[space]
    p, x = inst.operands
    own = space == "shared" and where != "cluster"
    b.emit("isspacep", (b.predicate(p), b.value(x, "u64")), code | 16 * own)


def createpolicy(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """A cache policy is a hint: any value does."""
    b.emit("mov.b64", (b.register(inst.operands[0]), b.constant(0, 8)))


OPCODES = {
    "createpolicy": createpolicy,
    "cvt": cvt,
    "mov": mov,
    "cvta": cvta,
    "mapa": mapa,
    "getctarank": getctarank,
    "isspacep": isspacep,
}
