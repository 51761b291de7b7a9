"""Shuffles, votes, matches, reductions over a warp, lane masks, barriers that reduce. All bitwise."""

from __future__ import annotations

from vectors.model import Group, scalar

_FULL = "0xffffffff"


def group() -> Group:
    g = Group("warps")
    for mode in ("idx", "up", "down", "bfly"):
        # c packs the segment mask (bits 8-12) and the clamp (bits 0-4).
        for segment in (0x1F, 0x1F00, 0x1C1F, 0x1807, 0x0003):
            c = segment if mode != "up" else segment & 0x1F00
            form = f"shfl.sync.{mode}.b32"
            body = (
                f"and.b32 %r3, $1, 31; {form} %r4|%p0, $0, %r3, {c}, {_FULL};"
                " selp.u32 %r5, 0x10, 0, %p0; xor.b32 $d, %r4, %r5;"
            )
            scalar(g, form, body, ("i32.a", "shift.a"), suffix=f".{segment:x}")
    half = (
        "setp.lt.u32 %p1, %r1, 0; mov.u32 %r3, %laneid; setp.ge.u32 %p1, %r3, 16; mov.b32 $d, $0;"
        "\n  @%p1 bra SKIP;\n  shfl.sync.bfly.b32 $d, $0, 5, 0x1f, 0xffff;\nSKIP:"
    )
    scalar(g, "shfl.sync.bfly.b32", half, ("i32.a",), suffix=".half")
    sign = "setp.lt.s32 %p0, $0, 0;"
    every = "setp.ge.u32 %p0, $0, 0;"
    for mode in ("all", "any", "uni"):
        for name, test in (("sign", sign), ("every", every)):
            body = f"{test} vote.sync.{mode}.pred %p1, %p0, {_FULL}; selp.u32 $d, 1, 0, %p1;"
            scalar(g, f"vote.sync.{mode}.pred", body, ("i32.a",), suffix=f".{name}")
    scalar(g, "vote.sync.ballot.b32", f"{sign} vote.sync.ballot.b32 $d, %p0, {_FULL};", ("i32.a",))
    scalar(
        g,
        "vote.sync.ballot.b32.negated",
        f"{sign} vote.sync.ballot.b32 $d, !%p0, {_FULL};",
        ("i32.a",),
    )
    for op, kinds in (("add", "su"), ("min", "su"), ("max", "su")):
        for kind in kinds:
            form = f"redux.sync.{op}.{kind}32"
            scalar(g, form, f"{form} $d, $0, {_FULL};", ("i32.a",))
    for op in ("and", "or", "xor"):
        form = f"redux.sync.{op}.b32"
        scalar(g, form, f"or.b32 %r3, $0, 5; {form} $d, %r3, {_FULL};", ("i32.a",))
    scalar(
        g,
        "match.any.sync.b32",
        f"and.b32 %r3, $0, 3; match.any.sync.b32 $d, %r3, {_FULL};",
        ("i32.a",),
    )
    body = (
        f"shr.u32 %r3, %r2, 6; match.all.sync.b32 %r4|%p0, %r3, {_FULL};"
        " selp.u32 %r5, 3, 0, %p0; xor.b32 $d, %r4, %r5;"
    )
    scalar(g, "match.all.sync.b32", body, ())
    for mask in ("eq", "le", "lt", "ge", "gt"):
        scalar(g, f"lanemask_{mask}", f"mov.u32 $d, %lanemask_{mask};", ())
    scalar(g, "activemask.b32", "activemask.b32 $d;", ())
    body = f"elect.sync %r3|%p0, {_FULL}; selp.u32 %r4, 64, 0, %p0; or.b32 $d, %r3, %r4;"
    scalar(g, "elect.sync", body, ())
    scalar(g, "barrier.red.popc", f"{sign} bar.red.popc.u32 $d, 0, %p0;", ("i32.a",))
    for op in ("and", "or"):
        body = f"{sign} bar.red.{op}.pred %p1, 0, %p0; selp.u32 $d, 1, 0, %p1;"
        scalar(g, f"barrier.red.{op}", body, ("i32.a",))
    for name in ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid"):
        scalar(g, f"special.{name}", f"mov.u32 $d, %{name};", ())
    return g
