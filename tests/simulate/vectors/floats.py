"""Floating-point forms. IEEE operations bitwise, NaN payload included; approximations within units in the last place."""

from __future__ import annotations

from vectors.model import Group, scalar

_COMPARISONS = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split()


def _f32(g: Group) -> None:
    three = ("f32.a", "f32.b", "f32.c")
    for op in ("add", "sub", "mul"):
        for mode in (".rn", ".rz", ".rm", ".rp", ".rn.ftz", ".rn.sat", ".rn.ftz.sat"):
            scalar(g, f"{op}{mode}.f32", f"{op}{mode}.f32 $d, $0, $1;", three[:2])
    for mode in (".rn", ".rz", ".rm", ".rp", ".rn.ftz", ".rn.sat"):
        scalar(g, f"fma{mode}.f32", f"fma{mode}.f32 $d, $0, $1, $2;", three)
    for op in ("div.rn", "div.rn.ftz", "div.rz"):
        scalar(g, f"{op}.f32", f"{op}.f32 $d, $0, $1;", three[:2])
    for op in ("rcp.rn", "sqrt.rn", "sqrt.rn.ftz", "abs", "neg", "abs.ftz", "neg.ftz"):
        scalar(g, f"{op}.f32", f"{op}.f32 $d, $0;", three[:1])
    for op in ("min", "max"):
        for mode in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            scalar(g, f"{op}{mode}.f32", f"{op}{mode}.f32 $d, $0, $1;", three[:2])
    scalar(g, "copysign.f32", "copysign.f32 $d, $0, $1;", three[:2])
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        body = f"testp.{test}.f32 %p0, $0; selp.u32 $d, 1, 0, %p0;"
        scalar(g, f"testp.{test}.f32", body, three[:1])
    for compare in _COMPARISONS:
        for mode in ("", ".ftz"):
            form = f"setp.{compare}{mode}.f32"
            scalar(g, form, f"{form} %p0, $0, $1; selp.u32 $d, 1, 0, %p0;", three[:2])
    scalar(g, "set.gt.u32.f32", "set.gt.u32.f32 $d, $0, $1;", three[:2])
    scalar(g, "set.gt.f32.f32", "set.gt.f32.f32 $d, $0, $1;", three[:2])


def _approximations(g: Group) -> None:
    def approx(op: str, inputs: tuple[str, ...], ulp: float, absolute: float = 0) -> None:
        operands = ", ".join(f"${i}" for i in range(len(inputs)))
        form = f"{op}.f32"
        scalar(g, form, f"{form} $d, {operands};", inputs, 32, "", "f4", ulp, absolute)

    for mode in ("", ".ftz"):
        approx(f"ex2.approx{mode}", ("f32.a",), 2)
        approx(f"rcp.approx{mode}", ("f32.a",), 1)
        approx(f"sqrt.approx{mode}", ("f32.a",), 1)
        approx(f"rsqrt.approx{mode}", ("f32.a",), 2)
        approx(f"lg2.approx{mode}", ("f32.a",), 2, 2.0**-22)
        approx(f"sin.approx{mode}", ("small.a",), 0, 2.0**-19)
        approx(f"cos.approx{mode}", ("small.a",), 0, 2.0**-19)
    approx("tanh.approx", ("f32.a",), 0, 2.0**-10.5)
    approx("div.approx", ("positive.a", "positive.b"), 2)
    approx("div.full", ("positive.a", "positive.b"), 2)
    approx("div.approx.ftz", ("positive.a", "positive.b"), 2)


def _f64(g: Group) -> None:
    three = ("f64.a", "f64.b", "f64.c")
    for op in ("add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max", "copysign"):
        scalar(g, f"{op}.f64", f"{op}.f64 $d, $0, $1;", three[:2], 64)
    scalar(g, "fma.rn.f64", "fma.rn.f64 $d, $0, $1, $2;", three, 64)
    for op in ("rcp.rn", "sqrt.rn", "abs", "neg"):
        scalar(g, f"{op}.f64", f"{op}.f64 $d, $0;", three[:1], 64)
    for compare in ("lt", "neu", "nan", "eq"):
        form = f"setp.{compare}.f64"
        scalar(g, form, f"{form} %p0, $0, $1; selp.u32 $d, 1, 0, %p0;", three[:2])


def _halves(g: Group) -> None:
    for kind in ("f16", "bf16", "f16x2", "bf16x2"):
        bits = 32 if "x2" in kind else 16
        three = tuple(f"{kind}.{slot}" for slot in "abc")
        brain = kind.startswith("bf16")
        for op in ("add", "sub", "mul"):
            modes = (".rn",) if brain else (".rn", ".rn.ftz", ".rn.sat")
            for mode in modes:
                scalar(g, f"{op}{mode}.{kind}", f"{op}{mode}.{kind} $d, $0, $1;", three[:2], bits)
        for mode in (".rn", ".rn.relu") if brain else (".rn", ".rn.ftz", ".rn.sat", ".rn.relu"):
            scalar(g, f"fma{mode}.{kind}", f"fma{mode}.{kind} $d, $0, $1, $2;", three, bits)
        for op in ("min", "max", "min.NaN", "max.NaN"):
            scalar(g, f"{op}.{kind}", f"{op}.{kind} $d, $0, $1;", three[:2], bits)
        for op in ("abs", "neg"):
            scalar(g, f"{op}.{kind}", f"{op}.{kind} $d, $0;", three[:1], bits)
        base = kind.removesuffix("x2")
        element = {"f16": "f2", "bf16": "bf16"}[base]
        exponential = "ex2.approx" if base == "f16" else "ex2.approx.ftz"
        # The result is rounded from an approximation: the neighbour may be taken, and near zero an absolute step.
        for op, absolute in (
            (exponential, 2.0**-24),
            ("tanh.approx", 2.0**-10 if base == "f16" else 2.0**-8),
        ):
            scalar(
                g,
                f"{op}.{kind}",
                f"{op}.{kind} $d, $0;",
                three[:1],
                bits,
                "",
                element,
                1.5,
                absolute,
            )
        for compare in ("lt", "eq", "neu", "ge"):
            form = f"setp.{compare}.{kind}"
            if bits == 16:
                body = f"{form} %p0, $0, $1; selp.u32 $d, 1, 0, %p0;"
            else:
                body = (
                    f"{form} %p0|%p1, $0, $1; selp.u32 %r3, 1, 0, %p0; selp.u32 %r4, 2, 0, %p1;"
                    " or.b32 $d, %r3, %r4;"
                )
            scalar(g, form, body, three[:2])


def group() -> Group:
    g = Group("floats")
    _f32(g)
    _approximations(g)
    _f64(g)
    _halves(g)
    return g
