"""Lowering of loads, stores, atomics, cp.async, ldmatrix and stmatrix."""

from __future__ import annotations

from tilegen.simulate.lower.program import ABSENT, SPACES, Builder, UnknownForm
from tilegen.simulate.ptx import SINK, TYPE_BYTES, Imm, Instruction, Reg, Special, Sym, Vec

_SPACES = {"global", "shared", "local", "param", "const"}
_HINTS = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "uni", "unified", "noftz"}
_SCOPES = {"cta", "cluster", "gpu", "sys"}
_STRONG = {"volatile": 1, "relaxed": 1, "acquire": 2, "release": 2, "acq_rel": 3, "mmio": 1}


class Access:
    """The modifiers of a memory access, sorted."""

    def __init__(self, mods: list[str]) -> None:
        self.type = mods[-1]
        self.space, self.vector, self.semantics, self.rest = "generic", 1, "", []
        for mod in mods[:-1]:
            stem = mod.split("::")[0]
            if stem in _SPACES:
                self.space = stem
            elif mod in _STRONG:
                self.semantics = mod
            elif mod in ("v2", "v4", "v8"):
                self.vector = int(mod[1])
            elif mod not in _HINTS and mod not in _SCOPES and stem not in ("L1", "L2"):
                self.rest.append(mod)
        if self.type not in TYPE_BYTES or TYPE_BYTES[self.type] == 0:
            raise UnknownForm


def _registers(b: Builder, operand, access: Access, store: bool) -> tuple[list[int], int]:
    """Slots of the data registers and their width in bytes."""
    items = operand.items if isinstance(operand, Vec) else (operand,)
    if len(items) != access.vector:
        raise UnknownForm
    size = TYPE_BYTES[access.type]
    widths = {max(TYPE_BYTES[item.type], 2) for item in items if isinstance(item, Reg)}
    if len(widths) > 1:
        raise UnknownForm("registers of different widths")
    width = widths.pop() if widths else max(size, 2)
    slots = []
    for item in items:
        if item is SINK:
            slots.append(-1)
        elif isinstance(item, Reg):
            slots.append(b.register(item))
        elif store and isinstance(item, (Imm, Special, Sym)):
            slots.append(
                b.value(
                    item,
                    (
                        f"b{8 * width}"
                        if not isinstance(item, Imm) or item.kind == "int"
                        else access.type
                    ),
                )
            )
        else:
            raise UnknownForm
    return slots, width


def _element(type_: str) -> str:
    """Name of the memory element: sign matters where a register is wider."""
    return f"{'s' if type_[0] == 's' else 'u'}{8 * TYPE_BYTES[type_]}"


def load(b: Builder, inst: Instruction, mods: list[str]) -> None:
    access = Access(mods)
    if access.rest or TYPE_BYTES[access.type] > 8:
        raise UnknownForm
    d, memory = inst.operands[:2]
    slots, width = _registers(b, d, access, False)
    if isinstance(memory.base, Sym) and memory.base.name in b.kernel.variables:
        if b.kernel.variables[memory.base.name].space == "param":  # the result of a printf
            b.emit("nothing")
            return
    slot, register, offset = b.address(memory, access.space)
    a = (0, slot, register, SPACES[access.space], access.vector, _STRONG.get(access.semantics, 0))
    b.emit(f"ld.{_element(access.type)}.{width}", a, offset, slots)


def store(b: Builder, inst: Instruction, mods: list[str]) -> None:
    access = Access(mods)
    if access.space == "param":  # arguments of a printf
        b.emit("nothing")
        return
    if access.rest or TYPE_BYTES[access.type] > 8:
        raise UnknownForm
    memory, x = inst.operands[:2]
    slots, width = _registers(b, x, access, True)
    slot, register, offset = b.address(memory, access.space)
    a = (0, slot, register, SPACES[access.space], access.vector, _STRONG.get(access.semantics, 0))
    b.emit(f"st.{_element(access.type)}.{width}", a, offset, slots)


_NUMERIC = {"u32", "s32", "u64", "s64"}


def atom(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """atom and red: the operation is the one modifier that is neither space, order nor hint."""
    access = Access(mods)
    if len(access.rest) != 1:
        raise UnknownForm
    (op,) = access.rest
    type_ = access.type
    if op in ("and", "or", "xor", "exch", "cas") or (op == "add" and type_ in _NUMERIC):
        name = f"atom.{op}.b{8 * TYPE_BYTES[type_]}"
    else:
        flushes = op == "add" and type_ == "f32" and access.space != "shared"
        name = f"atom.{op}.{'ftz.' if flushes else ''}{type_}"
    operands = list(inst.operands)
    returns = inst.opcode.startswith("atom")
    d = operands.pop(0) if returns else SINK
    memory, x = operands[:2]
    values = [b.value(v, type_) for v in (x.items if isinstance(x, Vec) else (x,))]
    third = b.value(operands[2], type_) if op == "cas" else ABSENT
    targets = [-1] * len(values)
    if d is not SINK:
        targets = [
            b.register(v) if v is not SINK else -1
            for v in (d.items if isinstance(d, Vec) else (d,))
        ]
    slot, register, offset = b.address(memory, access.space)
    order = {"release": 1, "acquire": 2, "acq_rel": 3}.get(access.semantics, 0)
    a = (0, slot, register, SPACES[access.space], len(values), order)
    b.emit(name, a, offset, [*values, third, *targets])


def copy_async(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """cp.async: the non-bulk copies. Bulk ones are in bulk.py."""
    if mods[0] == "commit_group":
        b.emit("cp.async.commit_group")
        return
    if mods[0] == "wait_group":
        b.emit("cp.async.wait_group", (), inst.operands[0].value)
        return
    if mods[0] == "wait_all":
        b.emit("cp.async.wait_all")
        return
    if mods[0] not in ("ca", "cg") or "global" not in mods:
        raise UnknownForm
    to, source, size, *rest = inst.operands
    ignore, source_size = -1, ABSENT
    for operand in rest[:1]:
        if (
            isinstance(operand, Reg)
            and operand.type == "pred"
            or operand.__class__.__name__ == "Not"
        ):
            ignore = b.condition(operand)
        elif not any("cache_hint" in m for m in mods) or len(rest) > 1:
            source_size = b.value(operand, "u32")
    to_slot, to_bytes, to_offset = b.address(to, "shared")
    slot, width, offset = b.address(source, "global")
    if mods[0] == "cg" and size.value != 16 or size.value not in (4, 8, 16):
        raise UnknownForm(f"{size.value} bytes")
    b.emit(
        "cp.async",
        (to_slot, to_bytes, slot, width, source_size, ignore, size.value, to_offset),
        offset,
    )


def matrix(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """ldmatrix and stmatrix of 8x8 tiles of 16-bit elements."""
    if "m8n8" not in mods or mods[-1] != "b16":
        raise UnknownForm
    known = {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "b16", "shared", "shared::cta"}
    if set(mods) - known:
        raise UnknownForm
    count = next(int(m[1]) for m in mods if m in ("x1", "x2", "x4"))
    is_store = inst.opcode.startswith("st")
    memory, registers = inst.operands if is_store else reversed(inst.operands)
    items = registers.items if isinstance(registers, Vec) else (registers,)
    space = "shared" if any(m.startswith("shared") for m in mods) else "generic"
    slot, width, offset = b.address(memory, space)
    a = (0, slot, width, SPACES[space], count, int("trans" in mods))
    b.emit("stmatrix" if is_store else "ldmatrix", a, offset, [b.register(r) for r in items])


def movmatrix(b: Builder, inst: Instruction, mods: list[str]) -> None:
    d, x = inst.operands
    b.emit("movmatrix", (b.register(d), b.value(x, "b32")))


OPCODES = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atom,
    "red": atom,
    "ldmatrix": matrix,
    "stmatrix": matrix,
    "movmatrix": movmatrix,
}
