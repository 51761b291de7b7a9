"""Lowering of arithmetic and logic: PTX form to operation name and operand types."""

from __future__ import annotations

from typing import NamedTuple

from tilegen.simulate.lower.program import Builder, UnknownForm
from tilegen.simulate.ptx import TYPE_BYTES, Instruction, Reg

INTEGERS = {f"{k}{n}" for k in "us" for n in (16, 32, 64)}
BITS = {f"b{n}" for n in (16, 32, 64)}
HALVES = {"f16", "bf16", "f16x2", "bf16x2"}
ROUNDINGS = {"rn", "rz", "rm", "rp"}


class Form(NamedTuple):
    name: str
    types: tuple[str, ...]  # destination first
    imm: int = 0


def bits(type_: str) -> str:
    return f"b{8 * TYPE_BYTES[type_]}"


def take(mods: list[str], *allowed: str) -> str | None:
    """Remove and return the one modifier of a group that is there."""
    for mod in mods:
        if mod in allowed:
            mods.remove(mod)
            return mod
    return None


def _float(op: str, mods: list[str], sources: int) -> Form:
    type_ = mods.pop()
    if type_ not in ("f32", "f64") and type_ not in HALVES:
        raise UnknownForm
    rounding = take(mods, *ROUNDINGS) or "rn"
    take(mods, "approx", "full")
    ftz, nan = take(mods, "ftz"), take(mods, "NaN")
    sat, relu = take(mods, "sat"), take(mods, "relu")
    if mods:
        raise UnknownForm
    parts = [op, nan, rounding if rounding != "rn" else None, ftz, sat, relu, type_]
    return Form(".".join(p for p in parts if p), (type_,) * (sources + 1))


def _add_sub(op: str, mods: list[str]) -> Form:
    if mods[-1] in INTEGERS | BITS:
        type_ = mods.pop()
        if mods == ["cc"]:
            return Form(f"{op}.cc.{bits(type_)}", (type_,) * 3, -1)
        if mods == ["sat"] and type_ == "s32":
            return Form(f"{op}.sat.s32", (type_,) * 3)
        if mods:
            raise UnknownForm
        return Form(f"{op}.{bits(type_)}", (type_,) * 3)
    return _float(op, mods, 2)


def _carry(op: str, mods: list[str]) -> Form:
    type_ = mods.pop()
    return Form(f"{op}{'.cc' if mods == ['cc'] else ''}.{bits(type_)}", (type_,) * 3, -1)


def _multiply(op: str, mods: list[str]) -> Form:
    if mods[-1] not in INTEGERS:
        return _float(op, mods, 2 if op == "mul" else 3)
    type_ = mods.pop()
    (kind,) = mods
    sources = (type_,) * 2
    if kind == "wide":
        wide = f"{type_[0]}{2 * int(type_[1:])}"
        return Form(f"{op}.wide.{type_}", (wide, *sources) + ((wide,) if op == "mad" else ()))
    name = f"{op}.lo.{bits(type_)}" if kind == "lo" else f"{op}.hi.{type_}"
    return Form(name, (type_, *sources) + ((type_,) if op == "mad" else ()))


def _divide(op: str, mods: list[str]) -> Form:
    if mods[-1] in INTEGERS:
        return Form(f"{op}.{mods[0]}", (mods[0],) * 3) if len(mods) == 1 else _raise()
    return _float(op, mods, 2)


def _extreme(op: str, mods: list[str]) -> Form:
    if mods[-1] in INTEGERS:
        return Form(f"{op}.{mods[0]}", (mods[0],) * 3) if len(mods) == 1 else _raise()
    if "xorsign" in mods:
        mods.remove("xorsign"), mods.remove("abs")
        form = _float(op, mods, 2)
        nan = "NaN." if ".NaN" in form.name else ""
        rest = form.name.removeprefix(f"{op}.").removeprefix("NaN.")
        return form._replace(name=f"{op}.{nan}xorsign.abs.{rest}")
    return _float(op, mods, 2)


def _sign(op: str, mods: list[str]) -> Form:
    if mods[-1] in INTEGERS:
        return Form(f"{op}.{mods[0]}", (mods[0],) * 2) if len(mods) == 1 else _raise()
    return _float(op, mods, 1)


def _raise() -> Form:
    raise UnknownForm


def _logic(op: str, mods: list[str]) -> Form:
    (type_,) = mods
    return Form(f"{op}.{bits(type_)}", (type_,) * (2 if op in ("not", "cnot") else 3))


def _shift(op: str, mods: list[str]) -> Form:
    (type_,) = mods
    name = type_.replace("b", "u") if op == "shr" else bits(type_)
    return Form(f"{op}.{name}", (type_, type_, "u32"))


def _count(op: str, mods: list[str]) -> Form:
    (type_,) = mods
    return Form(f"{op}.{type_}", ("u32" if op != "brev" else type_, type_))


def _bfind(op: str, mods: list[str]) -> Form:
    return Form(".".join([op, *mods]), ("u32", mods[-1]))


def _field(op: str, mods: list[str]) -> Form:
    (type_,) = mods
    if op == "bfe":
        return Form(f"bfe.{type_}", (type_, type_, "u32", "u32"))
    return Form(f"bfi.{type_}", (type_, type_, type_, "u32", "u32"))


def _permute(op: str, mods: list[str]) -> Form:
    modes = ["b32", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    return Form("prmt.b32", ("b32",) * 4, modes.index(mods[1]) if len(mods) > 1 else 0)


def _funnel(op: str, mods: list[str]) -> Form:
    return Form(".".join([op, *mods]), ("b32",) * 4)


def _sad(op: str, mods: list[str]) -> Form:
    return Form(f"sad.{mods[0]}", (mods[0],) * 4)


def _dp4a(op: str, mods: list[str]) -> Form:
    return Form(f"dp4a.{mods[0]}.{mods[1]}", ("b32",) * 4)


def _approx(op: str, mods: list[str]) -> Form:
    return _float(op, mods, 1)


RULES = {
    **dict.fromkeys(("add", "sub"), _add_sub),
    **dict.fromkeys(("addc", "subc"), _carry),
    **dict.fromkeys(("mul", "mad"), _multiply),
    "fma": lambda op, mods: _float(op, mods, 3),
    **dict.fromkeys(("div", "rem"), _divide),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("neg", "abs"), _sign),
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), _logic),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("popc", "clz", "brev"), _count),
    "bfind": _bfind,
    **dict.fromkeys(("bfe", "bfi"), _field),
    "prmt": _permute,
    "shf": _funnel,
    "sad": _sad,
    "dp4a": _dp4a,
    **dict.fromkeys(("sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"), _approx),
    "copysign": lambda op, mods: Form(f"copysign.{mods[-1]}", (mods[-1],) * 3),
}

_FORMS: dict[str, Form | None] = {}


def form_of(opcode: str) -> Form:
    """The operation of a plain ALU opcode. Raises UnknownForm."""
    form = _FORMS.get(opcode, False)
    if form is False:
        op, *mods = opcode.split(".")
        try:
            form = RULES[op](op, mods)
        except (UnknownForm, IndexError, ValueError, KeyError):
            form = None
        _FORMS[opcode] = form
    if form is None:
        raise UnknownForm
    return form


def alu(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """Any operation that maps source rows to a destination row."""
    if mods[-1] == "pred":
        _predicate_logic(b, inst)
        return
    form = form_of(inst.opcode)
    operands = inst.operands
    if len(operands) != len(form.types):
        raise UnknownForm
    value, types = b.value, form.types
    slots = [value(operands[k], types[k]) for k in range(1, len(types))]
    destination = operands[0]
    if not isinstance(destination, Reg):
        raise UnknownForm
    if max(TYPE_BYTES[destination.type], 2) != max(TYPE_BYTES[types[0]], 2):
        raise UnknownForm
    if form.imm == -1:
        if b.carry < 0:
            b.carry = b.predicate_count
            b.predicate_count += 1
        b.emit(form.name, (b.register(destination), *slots, b.carry))
        return
    b.emit(form.name, (b.register(destination), *slots), form.imm)


def lop3(b: Builder, inst: Instruction, mods: list[str]) -> None:
    if mods != ["b32"] or len(inst.operands) != 5:
        raise UnknownForm
    d, x, y, z, table = inst.operands
    b.emit("lop3.b32", (b.register(d), *(b.value(o, "b32") for o in (x, y, z))), table.value)


def _predicate_logic(b: Builder, inst: Instruction) -> None:
    op = inst.opcode.split(".")[0]
    d, *sources = inst.operands
    codes = [b.condition(s) for s in sources]
    b.emit(f"{op}.pred", (b.predicate(d), *codes))


OPCODES = {
    **dict.fromkeys(RULES, alu),
    "lop3": lop3,
}
