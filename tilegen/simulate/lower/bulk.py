"""Lowering of mbarrier, bulk and tensor copies, st.async."""

from __future__ import annotations

import re

from tilegen.simulate.lower.memory import Access
from tilegen.simulate.lower.program import ABSENT, SPACES, Builder, UnknownForm
from tilegen.simulate.ptx import SINK, TYPE_BYTES, Instruction, Mem, Vec

_ORDERS = {"release", "acquire", "relaxed"}
_SCOPES = {"cta", "cluster", "gpu", "sys"}
_REDUCTIONS = {"add": 1, "min": 2, "max": 3, "inc": 4, "dec": 5, "and": 6, "or": 7, "xor": 8}
_TYPES = {
    "u32": 0,
    "s32": 1,
    "u64": 2,
    "s64": 3,
    "b32": 4,
    "b64": 5,
    "f16": 6,
    "bf16": 7,
    "f32": 8,
    "f64": 9,
}


def _place(b: Builder, memory: Mem, mods: list[str]) -> tuple[int, int, int, int]:
    """Slot, register bytes, space, offset of an address in shared memory, generic where no space is named."""
    space = "shared" if any(m.split("::")[0] == "shared" for m in mods) else "generic"
    slot, width, offset = b.address(memory, space)
    return slot, width, SPACES[space], offset


def mbarrier(b: Builder, inst: Instruction, mods: list[str]) -> None:
    kind = mods[0]
    expects = "expect_tx" in mods
    rest = (
        set(mods[1:])
        - _ORDERS
        - _SCOPES
        - {"b64", "shared", "shared::cta", "shared::cluster", "expect_tx"}
    )
    relaxed, remote = "relaxed" in mods, "shared::cluster" in mods
    operands = list(inst.operands)
    if kind == "init":
        slot, width, space, offset = _place(b, operands[0], mods)
        b.emit("mbarrier.init", (0, slot, width, space, b.value(operands[1], "u32")), offset)
    elif kind == "inval":
        slot, width, space, offset = _place(b, operands[0], mods)
        b.emit("mbarrier.inval", (0, slot, width, space), offset)
    elif kind == "pending_count":
        b.emit("mbarrier.pending_count", (b.register(operands[0]), b.value(operands[1], "b64")))
    elif kind in ("arrive", "arrive_drop", "expect_tx", "complete_tx"):
        if rest - {"noComplete"}:
            raise UnknownForm
        state = -1
        if not isinstance(operands[0], Mem):
            target = operands.pop(0)
            state = b.register(target) if target is not SINK else -1
        slot, width, space, offset = _place(b, operands[0], mods)
        number = b.value(operands[1], "u32") if len(operands) > 1 else ABSENT
        arrives = kind.startswith("arrive")
        bits = int(remote) | 2 * relaxed | 4 * (kind == "arrive_drop") | 8 * arrives
        if kind == "complete_tx":
            b.emit("mbarrier.complete_tx", (0, slot, width, space, 0, number), offset)
            return
        expected = number if expects or kind == "expect_tx" else ABSENT
        count = ABSENT if expects or not arrives else number
        b.emit("mbarrier.arrive", (state, slot, width, space, count, expected, bits), offset)
    elif kind in ("test_wait", "try_wait"):
        parity = "parity" in mods
        if rest - {"parity"}:
            raise UnknownForm
        p, memory, wanted, *_ = operands
        slot, width, space, offset = _place(b, memory, mods)
        bits = int(parity) | 2 * (kind == "try_wait") | 4 * relaxed
        value = b.value(wanted, "u32" if parity else "b64")
        b.emit("mbarrier.wait", (b.predicate(p), slot, width, space, value, 0, bits), offset)
    else:
        raise UnknownForm


def copies_arrive(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """cp.async.mbarrier.arrive{.noinc}"""
    slot, width, space, offset = _place(b, inst.operands[0], mods)
    b.emit("cp.async.mbarrier.arrive", (0, slot, width, space, 0, 0, int("noinc" in mods)), offset)


def bulk(b: Builder, inst: Instruction, mods: list[str], reduction: bool = False) -> None:
    """cp.async.bulk.* and cp.reduce.async.bulk.*; `mods` follow `bulk`."""
    if mods[0] == "commit_group":
        b.emit("bulk.commit_group")
    elif mods[0] == "wait_group":
        b.emit("bulk.wait_group", (int("read" in mods),), inst.operands[0].value)
    elif mods[0] == "prefetch":
        if "tensor" in mods:
            memory = inst.operands[0]
            slot, width, offset = b.address(memory, "generic")
            b.emit("tma.prefetch", (0, slot, width), offset)
        else:
            b.emit("nothing")
    elif mods[0] == "tensor":
        _tensor(b, inst, mods[1:], reduction)
    else:
        _plain(b, inst, mods, reduction)


def _known(mods: list[str], allowed: set[str]) -> None:
    unknown = [m for m in mods if m not in allowed and not m.startswith("L2::")]
    if unknown:
        raise UnknownForm(", ".join(unknown))


_COMMON = {
    "mbarrier::complete_tx::bytes",
    "bulk_group",
    "multicast::cluster",
    "global",
    "shared::cta",
    "shared::cluster",
}


def _reduction(mods: list[str]) -> int:
    """The operation among the modifiers, for the core; removes it."""
    for mod in mods:
        if mod in _REDUCTIONS:
            mods.remove(mod)
            return _REDUCTIONS[mod]
    raise UnknownForm


def _tensor(b: Builder, inst: Instruction, mods: list[str], reduction: bool) -> None:
    mods = list(mods)
    rank = int(re.fullmatch(r"([1-5])d", mods.pop(0)).group(1))
    operation = _reduction(mods) if reduction else 0
    _known(mods, _COMMON | {"tile", "im2col", "im2col_no_offs", "noftz"})
    im2col = "im2col" in mods or "im2col_no_offs" in mods
    is_load = mods[0].startswith("shared")
    hint = any(m.startswith("L2::cache_hint") for m in mods)
    operands = list(inst.operands)
    if hint:
        operands.pop()
    mask, filter_offsets = ABSENT, []
    if is_load:
        shared, tensor, barrier, *more = operands
        if im2col:
            filter_offsets = list(more.pop(0).items)
        if "multicast::cluster" in mods:
            mask = b.value(more.pop(0), "u16")
    else:
        tensor, shared = operands
        barrier, more = None, []
    if more or len(tensor.coords) != 1:
        raise UnknownForm
    coordinates = tensor.coords[0].items if isinstance(tensor.coords[0], Vec) else tensor.coords
    if len(coordinates) != rank:
        raise UnknownForm
    s_slot, s_width, s_offset = b.address(shared, "shared")
    m_slot, m_width, m_offset = b.address(Mem(tensor.base, tensor.offset), "generic")
    b_slot, b_width, b_offset = b.address(barrier, "shared") if barrier is not None else (0, 0, 0)
    items = [s_offset, m_offset, b_offset, *(b.value(c, "b32") for c in coordinates)]
    items += [b.value(o, "u16") for o in filter_offsets]
    a = (rank, s_slot, s_width, m_slot, m_width, b_slot, b_width, mask, int(im2col))
    b.emit("tma.load" if is_load else "tma.store", a, operation, items)


def _plain(b: Builder, inst: Instruction, mods: list[str], reduction: bool) -> None:
    mods = list(mods)
    imm = 0
    if reduction:
        type_ = mods.pop()
        imm = _reduction(mods) | _TYPES[type_] << 8
    _known(mods, _COMMON | {"noftz"})
    to, source = mods[0], mods[1]
    operands = list(inst.operands)
    if any(m.startswith("L2::cache_hint") for m in mods):
        operands.pop()
    destination, origin, size, *more = operands
    to_shared, from_shared = to.startswith("shared"), source.startswith("shared")
    t_slot, t_width, t_offset = b.address(destination, "shared" if to_shared else "global")
    f_slot, f_width, f_offset = b.address(origin, "shared" if from_shared else "global")
    b_slot, b_width, b_offset, mask = 0, 0, 0, ABSENT
    if to_shared:
        b_slot, b_width, b_offset = b.address(more.pop(0), "shared")
        if "multicast::cluster" in mods:
            mask = b.value(more.pop(0), "u16")
    if more:
        raise UnknownForm
    bits = int(to_shared) | 2 * from_shared
    a = (t_slot, t_width, f_slot, f_width, b.value(size, "u32"), b_slot, b_width, mask, bits)
    b.emit("bulk.copy", a, imm, [t_offset, f_offset, b_offset])


def store_async(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """st.async and red.async to another block's shared memory."""
    mods = [m for m in mods if m not in ("weak", "async", "release", "relaxed", "cluster")]
    imm = 0
    access = Access(
        [m for m in mods if m != "mbarrier::complete_tx::bytes" and m not in _REDUCTIONS]
    )
    if access.rest or access.space != "shared":
        raise UnknownForm
    if inst.opcode.startswith("red"):
        imm = _reduction(mods) | _TYPES[access.type] << 8
    to, x, barrier = inst.operands
    items = x.items if isinstance(x, Vec) else (x,)
    size = TYPE_BYTES[access.type]
    values = [b.value(v, access.type) for v in items]
    t_slot, t_width, t_offset = b.address(to, "shared")
    b_slot, b_width, b_offset = b.address(barrier, "shared")
    a = (t_slot, t_width, b_slot, b_width, len(values), size)
    b.emit("st.async", a, imm, [t_offset, b_offset, *values])


OPCODES = {"mbarrier": mbarrier}
