"""Integer and bit forms: all bitwise."""

from __future__ import annotations

from vectors.model import Group, scalar


def group() -> Group:
    g = Group("integers")
    for bits in (16, 32, 64):
        a, b, c = (f"i{bits}.{slot}" for slot in "abc")
        for sign in "su":
            kind = f"{sign}{bits}"
            for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
                scalar(g, f"{op}.{kind}", f"{op}.{kind} $d, $0, $1;", (a, b), bits)
            scalar(g, f"mad.lo.{kind}", f"mad.lo.{kind} $d, $0, $1, $2;", (a, b, c), bits)
            scalar(g, f"shr.{kind}", f"shr.{kind} $d, $0, $1;", (a, "shift.a"), bits)
            if bits < 64:
                wide = 2 * bits
                scalar(g, f"mul.wide.{kind}", f"mul.wide.{kind} $d, $0, $1;", (a, b), wide)
                add = f"i{wide}.c"
                scalar(g, f"mad.wide.{kind}", f"mad.wide.{kind} $d, $0, $1, $2;", (a, b, add), wide)
            if bits > 16:
                div = f"i{bits}.div"
                for op in ("div", "rem"):
                    scalar(g, f"{op}.{kind}", f"{op}.{kind} $d, $0, $1;", (a, div), bits)
                scalar(g, f"mad.hi.{kind}", f"mad.hi.{kind} $d, $0, $1, $2;", (a, b, c), bits)
                scalar(
                    g, f"bfe.{kind}", f"bfe.{kind} $d, $0, $1, $2;", (a, "shift.a", "shift.b"), bits
                )
                shifted = f"bfind.shiftamt.{kind}"
                scalar(g, shifted, f"{shifted} $d, $0;", (a,))
                scalar(g, f"bfind.{kind}", f"bfind.{kind} $d, $0;", (a,))
        for op in ("and", "or", "xor"):
            scalar(g, f"{op}.b{bits}", f"{op}.b{bits} $d, $0, $1;", (a, b), bits)
        scalar(g, f"not.b{bits}", f"not.b{bits} $d, $0;", (a,), bits)
        scalar(g, f"shl.b{bits}", f"shl.b{bits} $d, $0, $1;", (a, "shift.a"), bits)
        for op in ("abs", "neg"):
            scalar(g, f"{op}.s{bits}", f"{op}.s{bits} $d, $0;", (a,), bits)
        if bits > 16:
            scalar(
                g,
                f"bfi.b{bits}",
                f"bfi.b{bits} $d, $0, $1, $2, $3;",
                (a, b, "shift.a", "shift.b"),
                bits,
            )
            scalar(g, f"brev.b{bits}", f"brev.b{bits} $d, $0;", (a,), bits)
            for op in ("clz", "popc"):
                scalar(g, f"{op}.b{bits}", f"{op}.b{bits} $d, $0;", (a,))
    words = ("i32.a", "i32.b", "i32.c")
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        scalar(g, f"prmt.b32{mode}", f"prmt.b32{mode} $d, $0, $1, $2;", words)
    for table in (0x80, 0xFE, 0x96, 0xCA, 0xE8, 0x3C, 0x01, 0x6A):
        scalar(g, f"lop3.b32.{table:02x}", f"lop3.b32 $d, $0, $1, $2, {table};", words)
    for way in "lr":
        for mode in ("clamp", "wrap"):
            form = f"shf.{way}.{mode}.b32"
            scalar(g, form, f"{form} $d, $0, $1, $2;", ("i32.a", "i32.b", "shift.a"))
    for left in "su":
        for right in "su":
            scalar(g, f"dp4a.{left}32.{right}32", f"dp4a.{left}32.{right}32 $d, $0, $1, $2;", words)
    for sign, names in (("s", "eq ne lt le gt ge"), ("u", "eq ne lt le gt ge lo ls hi hs")):
        for compare in names.split():
            for bits in (16, 32, 64):
                form = f"setp.{compare}.{sign}{bits}"
                body = f"{form} %p0, $0, $1; selp.u32 $d, 1, 0, %p0;"
                scalar(g, form, body, (f"i{bits}.a", f"i{bits}.b"))
    for combine in ("and", "or", "xor"):
        form = f"setp.lt.{combine}.s32"
        body = (
            f"setp.ne.u32 %p2, $2, 0; {form} %p0|%p1, $0, $1, %p2;"
            " selp.u32 %r3, 1, 0, %p0; selp.u32 %r4, 2, 0, %p1; or.b32 $d, %r3, %r4;"
        )
        scalar(g, form, body, words)
    scalar(g, "selp.b32", "setp.lt.s32 %p0, $2, 0; selp.b32 $d, $0, $1, %p0;", words)
    scalar(g, "slct.s32.s32", "slct.s32.s32 $d, $0, $1, $2;", words)
    scalar(g, "set.lt.u32.s32", "set.lt.u32.s32 $d, $0, $1;", words[:2])
    scalar(g, "cnot.b32", "cnot.b32 $d, $0;", words[:1])
    scalar(g, "add.sat.s32", "add.sat.s32 $d, $0, $1;", words[:2])
    scalar(g, "sad.s32", "sad.s32 $d, $0, $1, $2;", words)
    carried = (
        "add.cc.u32 %r3, $0, $1; addc.u32 $d, $2, $2; xor.b32 $d, $d, %r3;",
        "sub.cc.u32 %r3, $0, $1; subc.u32 $d, $2, $1; xor.b32 $d, $d, %r3;",
    )
    for form, body in zip(("add.cc.u32", "sub.cc.u32"), carried):
        scalar(g, form, body, words)
    pairs = "mov.b64 %rd5, {$0, $1}; shl.b64 %rd5, %rd5, 7; mov.b64 {%r3, %r4}, %rd5; xor.b32 $d, %r3, %r4;"
    scalar(g, "mov.b64.pack", pairs, words[:2])
    halves = "mov.b32 {%h0, %h1}, $0; add.s16 %h0, %h0, %h1; mov.b32 $d, {%h1, %h0};"
    scalar(g, "mov.b32.pack", halves, words[:1], regs=".reg .b16 %h<2>;")
    return g
