"""Lowering of control flow, warp operations, barriers, fences and special registers."""

from __future__ import annotations

from tilegen.simulate.lower.program import ABSENT, Builder, UnknownForm
from tilegen.simulate.ptx import SINK, Instruction, Pair, Sym

_AXES = {".x": 0, ".y": 1, ".z": 2, "": 0}
# index of the case in core/warp.cpp; names that end in .x, .y, .z add the axis
_SPECIAL = {
    "tid": 0,
    "ntid": 4,
    "ctaid": 8,
    "nctaid": 12,
    "cluster_ctaid": 16,
    "cluster_nctaid": 20,
    "clusterid": 24,
    "nclusterid": 28,
    "laneid": 32,
    "warpid": 36,
    "nwarpid": 40,
    "cluster_ctarank": 44,
    "cluster_nctarank": 48,
    "dynamic_smem_size": 52,
    "total_smem_size": 56,
    "smid": 60,
    "nsmid": 64,
    "lanemask_eq": 68,
    "lanemask_le": 69,
    "lanemask_lt": 70,
    "lanemask_ge": 71,
    "lanemask_gt": 72,
    "clock": 76,
    "globaltimer_lo": 76,
    "clock_hi": 80,
    "globaltimer_hi": 80,
    "clock64": 84,
    "globaltimer": 84,
    "gridid": 88,
}


def special_register(b: Builder, slot: int, name: str, size: int) -> None:
    """Emit the read of a special register into a slot of 2, 4 or 8 bytes."""
    stem, dot, axis = name.partition(".")
    code = _SPECIAL.get(stem)
    if code is None:
        raise UnknownForm(f"special register %{name}")
    wide = code == _SPECIAL["clock64"]
    target = slot
    if (8 if wide else 4) != size:
        target = b.temp("u64" if wide else "u32")
    b.emit("special", (target,), code + _AXES[dot + axis])
    if target != slot:
        width = 64 if wide else 32
        b.emit(f"cvt.i{8 * size}.i{width}", (slot, target), 8 * size | width << 32)


def bra(b: Builder, inst: Instruction, mods: list[str]) -> None:
    row = b.emit("bra", (), int(mods == ["uni"]))
    b.jumps.append((row, inst.operands[0].name))


def brx(b: Builder, inst: Instruction, mods: list[str]) -> None:
    index, table = inst.operands[:2]
    targets = b.kernel.tables[table.name]
    row = b.emit("brx", (b.value(index, "u32"),), 0, [0] * len(targets))
    b.table_jumps.append((row, targets))


def leave(b: Builder, inst: Instruction, mods: list[str]) -> None:
    b.emit("exit")


def trap(b: Builder, inst: Instruction, mods: list[str]) -> None:
    b.emit("trap")


def yield_(b: Builder, inst: Instruction, mods: list[str]) -> None:
    b.emit("yield")


def nothing(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """Hints: they change speed, not meaning."""
    b.emit("nothing")


def call(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """printf prints nothing here; a failing assert is a trap. Other functions are not modelled."""
    names = [o.name for o in inst.operands if isinstance(o, Sym)]
    if "vprintf" in names:
        b.emit("nothing")
    elif "__assertfail" in names:
        b.emit("assert")
    else:
        raise UnknownForm(f"a call of {' '.join(names)}")


def shfl(b: Builder, inst: Instruction, mods: list[str]) -> None:
    if len(mods) != 3 or mods[0] != "sync" or mods[2] != "b32":
        raise UnknownForm
    d, x, lane, clamp, members = inst.operands
    d, p = (d.first, d.second) if isinstance(d, Pair) else (d, SINK)
    slots = tuple(b.value(o, "b32") for o in (x, lane, clamp, members))
    b.emit(
        f"shfl.{mods[1]}",
        (
            b.register(d) if d is not SINK else b.temp("u32"),
            b.predicate(p) if p is not SINK else -1,
            *slots,
        ),
    )


def vote(b: Builder, inst: Instruction, mods: list[str]) -> None:
    if mods[0] != "sync":
        raise UnknownForm
    d, p, members = inst.operands
    target = b.register(d) if mods[1] == "ballot" else b.predicate(d)
    b.emit(f"vote.{mods[1]}", (target, b.condition(p), b.value(members, "b32")))


def elect(b: Builder, inst: Instruction, mods: list[str]) -> None:
    d, members = inst.operands
    b.emit(
        "elect",
        (
            b.register(d.first) if d.first is not SINK else -1,
            b.predicate(d.second),
            b.value(members, "b32"),
        ),
    )


def match(b: Builder, inst: Instruction, mods: list[str]) -> None:
    mode, _, type_ = mods
    d, x, members = inst.operands
    d, p = (d.first, d.second) if isinstance(d, Pair) else (d, SINK)
    b.emit(
        f"match.{mode}.{type_}",
        (
            b.register(d),
            b.predicate(p) if p is not SINK else -1,
            b.value(x, type_),
            b.value(members, "b32"),
        ),
    )


def redux(b: Builder, inst: Instruction, mods: list[str]) -> None:
    _, op, type_ = mods
    d, x, members = inst.operands
    b.emit(f"redux.{op}.{type_}", (b.register(d), b.value(x, type_), b.value(members, "b32")))


def activemask(b: Builder, inst: Instruction, mods: list[str]) -> None:
    b.emit("activemask", (b.register(inst.operands[0]),))


def bar(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """bar.* and barrier.{cta.}*: named barriers; bar.warp.sync; barrier.cluster.*."""
    mods = [m for m in mods if m not in ("cta", "aligned")]
    if mods[0] == "warp":
        b.emit("bar.warp.sync", (0, b.value(inst.operands[0], "b32")))
    elif mods[0] == "cluster":
        if set(mods[2:]) - {"release", "acquire", "relaxed"}:
            raise UnknownForm
        b.emit(f"barrier.cluster.{mods[1]}", (), int("relaxed" in mods))
    elif mods[0] in ("sync", "arrive") and len(mods) == 1:
        ident, *count = inst.operands
        b.emit(
            f"bar.{mods[0]}", (b.value(ident, "u32"), b.value(count[0], "u32") if count else ABSENT)
        )
    elif mods[0] == "red":
        operation = {"popc": 0, "and": 1, "or": 2}[mods[1]]
        d, ident, *count, p = inst.operands
        target = b.register(d) if operation == 0 else b.predicate(d)
        slots = (
            b.value(ident, "u32"),
            b.value(count[0], "u32") if count else ABSENT,
            target,
            b.condition(p),
        )
        b.emit("bar.red", slots, operation)
    else:
        raise UnknownForm


_SCOPES = {"cta", "cluster", "gpu", "sys", "gl"}


def fence(b: Builder, inst: Instruction, mods: list[str]) -> None:
    """Thread fences order through global memory; proxy fences are the async proxy's."""
    if mods and mods[0] == "proxy":
        where = mods[1:]
        if where[0].startswith("async"):
            b.emit("fence.proxy.async")
        elif where[0].startswith(("tensormap", "alias")):
            b.emit("nothing")
        else:
            raise UnknownForm
    elif mods and mods[0] == "mbarrier_init":
        b.emit("fence.mbarrier_init")
    elif set(mods) <= _SCOPES | {"sc", "acq_rel", "acquire", "release"}:
        b.emit("nothing" if "cta" in mods else "fence.gpu")
    else:
        raise UnknownForm


def setmaxnreg(b: Builder, inst: Instruction, mods: list[str]) -> None:
    b.uses_setmaxnreg = True
    count = inst.operands[0].value
    b.emit("setmaxnreg", (), count if mods[0] == "inc" else -count)


OPCODES = {
    "bra": bra,
    "brx": brx,
    "ret": leave,
    "exit": leave,
    "trap": trap,
    "brkpt": trap,
    "nanosleep": yield_,
    "call": call,
    "shfl": shfl,
    "vote": vote,
    "elect": elect,
    "match": match,
    "redux": redux,
    "activemask": activemask,
    "bar": bar,
    "barrier": bar,
    "fence": fence,
    "membar": fence,
    "setmaxnreg": setmaxnreg,
    **dict.fromkeys(
        ("prefetch", "prefetchu", "griddepcontrol", "applypriority", "discard", "pmevent"), nothing
    ),
}
