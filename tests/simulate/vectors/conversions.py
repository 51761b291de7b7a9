"""cvt: integer widths, integers and floats in every rounding, narrow floats. All bitwise."""

from __future__ import annotations

from vectors.model import Group, scalar

_H = ".reg .b16 %h<4>;"


def _integers(g: Group) -> None:
    for source in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        for target in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
            width, out = max(int(source[1:]), 16), int(target[1:])
            for sat in ("", ".sat") if source != target else ("",):
                # Saturation exists where the target cannot hold every source value.
                if sat and source[0] == target[0] and int(target[1:]) >= int(source[1:]):
                    continue
                if sat and source[0] == "u" and target[0] == "s" and out > int(source[1:]):
                    continue
                form = f"cvt{sat}.{target}.{source}"
                if out == 8:
                    body = f"{form} %r3, $0; and.b32 $d, %r3, 255;"
                    scalar(g, form, body, (f"i{width}.a",), 32)
                else:
                    scalar(g, form, f"{form} $d, $0;", (f"i{width}.a",), out)


def _floats(g: Group) -> None:
    for source in ("s32", "u32", "s64", "u64", "s16", "u16", "s8", "u8"):
        width = max(int(source[1:]), 16)
        modes = ("rn", "rz", "rm", "rp") if width >= 32 else ("rn",)
        for mode in modes:
            scalar(
                g, f"cvt.{mode}.f32.{source}", f"cvt.{mode}.f32.{source} $d, $0;", (f"i{width}.a",)
            )
        scalar(g, f"cvt.rn.f64.{source}", f"cvt.rn.f64.{source} $d, $0;", (f"i{width}.a",), 64)
        scalar(g, f"cvt.rn.f16.{source}", f"cvt.rn.f16.{source} $d, $0;", (f"i{width}.a",), 16)
    for target in ("s32", "u32", "s64", "u64", "s16", "u16", "s8", "u8"):
        out = int(target[1:])
        for mode in ("rni", "rzi", "rmi", "rpi"):
            for ftz in ("", ".ftz") if mode in ("rzi", "rpi") else ("",):
                form = f"cvt.{mode}{ftz}.{target}.f32"
                body = f"{form} $d, $0;" if out > 8 else f"{form} %r3, $0; and.b32 $d, %r3, 255;"
                scalar(g, form, body, ("f32.a",), max(out, 16) if out > 8 else 32)
        form = f"cvt.rzi.{target}.f16"
        if out > 8:
            scalar(g, form, f"{form} $d, $0;", ("f16.a",), out)
        if out >= 32:
            form = f"cvt.rzi.{target}.f64"
            scalar(g, form, f"{form} $d, $0;", ("f64.a",), out)
    for mode in ("rni", "rzi", "rmi", "rpi"):
        scalar(g, f"cvt.{mode}.f32.f32", f"cvt.{mode}.f32.f32 $d, $0;", ("f32.a",))
        scalar(g, f"cvt.{mode}.f16.f16", f"cvt.{mode}.f16.f16 $d, $0;", ("f16.a",), 16)
        scalar(g, f"cvt.{mode}.f64.f64", f"cvt.{mode}.f64.f64 $d, $0;", ("f64.a",), 64)
    for mode in ("rn", "rz", "rm", "rp"):
        scalar(g, f"cvt.{mode}.f32.f64", f"cvt.{mode}.f32.f64 $d, $0;", ("f64.a",))
        if mode in ("rn", "rz"):
            scalar(g, f"cvt.{mode}.f16.f32", f"cvt.{mode}.f16.f32 $d, $0;", ("f32.a",), 16)
            scalar(g, f"cvt.{mode}.bf16.f32", f"cvt.{mode}.bf16.f32 $d, $0;", ("f32.a",), 16)
    scalar(g, "cvt.f64.f32", "cvt.f64.f32 $d, $0;", ("f32.a",), 64)
    scalar(g, "cvt.f32.f16", "cvt.f32.f16 $d, $0;", ("f16.a",))
    scalar(g, "cvt.f32.bf16", "cvt.f32.bf16 $d, $0;", ("bf16.a",))
    scalar(g, "cvt.f64.f16", "cvt.f64.f16 $d, $0;", ("f16.a",), 64)
    scalar(g, "cvt.rn.f16.f64", "cvt.rn.f16.f64 $d, $0;", ("f64.a",), 16)
    scalar(g, "cvt.sat.f32.f32", "cvt.sat.f32.f32 $d, $0;", ("f32.a",))
    scalar(g, "cvt.rn.sat.f16.f32", "cvt.rn.sat.f16.f32 $d, $0;", ("f32.a",), 16)
    scalar(g, "cvt.rn.relu.f16.f32", "cvt.rn.relu.f16.f32 $d, $0;", ("f32.a",), 16)
    scalar(g, "cvt.rn.relu.bf16.f32", "cvt.rn.relu.bf16.f32 $d, $0;", ("f32.a",), 16)


def _narrow(g: Group) -> None:
    two = ("f32.a", "f32.b")
    for kind in ("f16x2", "bf16x2"):
        for mode in ("rn", "rz", "rn.relu", "rz.relu"):
            scalar(g, f"cvt.{mode}.{kind}.f32", f"cvt.{mode}.{kind}.f32 $d, $0, $1;", two)
    for mode in ("rna", "rn", "rz", "rn.relu"):
        scalar(g, f"cvt.{mode}.tf32.f32", f"cvt.{mode}.tf32.f32 $d, $0;", two[:1])
    for kind in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            form = f"cvt.rn.satfinite{relu}.{kind}.f32"
            scalar(g, form, f"{form} %h0, $0, $1; cvt.u32.u16 $d, %h0;", two, 32, _H)
            form = f"cvt.rn.satfinite{relu}.{kind}.f16x2"
            scalar(g, form, f"{form} %h0, $0; cvt.u32.u16 $d, %h0;", ("f16x2.a",), 32, _H)
        form = f"cvt.rn.f16x2.{kind}"
        scalar(g, form, f"cvt.u16.u32 %h0, $0; {form} $d, %h0;", ("i32.c",), 32, _H)
    words = ("i32.a", "i32.b", "i32.c")
    for target in ("u8", "s8"):
        form = f"cvt.pack.sat.{target}.s32.b32"
        scalar(g, form, f"{form} $d, $0, $1, $2;", words)
    for target in ("u16", "s16"):
        form = f"cvt.pack.sat.{target}.s32"
        scalar(g, form, f"{form} $d, $0, $1;", words[:2])


def group() -> Group:
    g = Group("conversions")
    _integers(g)
    _floats(g)
    _narrow(g)
    return g
