"""mma.sync of every type that the targets have: exact small integers bitwise, normal values within a bound."""

from __future__ import annotations

from dataclasses import replace

from vectors.model import Group, Vector, entry, identifier
from vectors.text import REGISTERS, braces, load_registers, store_registers

_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1, "f64": 8}
# shape, accumulator, A, B; the bound of the random case
_FORMS = [
    ("m16n8k8", "f32", "f16", "f16", 1e-4),
    ("m16n8k8", "f16", "f16", "f16", 2e-2),
    ("m16n8k16", "f32", "f16", "f16", 1e-4),
    ("m16n8k16", "f16", "f16", "f16", 4e-2),
    ("m16n8k8", "f32", "bf16", "bf16", 1e-4),
    ("m16n8k16", "f32", "bf16", "bf16", 1e-4),
    ("m16n8k4", "f32", "tf32", "tf32", 1e-4),
    ("m16n8k8", "f32", "tf32", "tf32", 1e-4),
    *[("m16n8k32", "f32", a, b, 2e-1) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")],
    *[
        (f"m16n8k{k}", "s32", a, b, 0.0)
        for k in (16, 32)
        for a in ("s8", "u8")
        for b in ("s8", "u8")
    ],
    ("m8n8k16", "s32", "s8", "s8", 0.0),
    ("m8n8k16", "s32", "u8", "s8", 0.0),
]


def _registers(shape: str, acc: str, a: str, b: str) -> tuple[int, int, int]:
    """32-bit registers a lane of A, B and the accumulator."""
    m, rest = shape[1:].split("n")
    n, k = (int(x) for x in rest.split("k"))
    m = int(m)
    size = {"f32": 4, "s32": 4, "f16": 2}[acc]
    return m * k * _BYTES[a] // 128, n * k * _BYTES[b] // 128, m * n * size // 128


def _vector(form: tuple[str, str, str, str, float], values: str, saturate: bool = False) -> Vector:
    shape, acc, a, b, bound = form
    na, nb, nd = _registers(shape, acc, a, b)
    ra = [f"%r{20 + i}" for i in range(na)]
    rb = [f"%r{40 + i}" for i in range(nb)]
    rc = [f"%r{60 + i}" for i in range(nd)]
    sat = ".satfinite" if saturate else ""
    opcode = f"mma.sync.aligned.{shape}.row.col{sat}.{acc}.{a}.{b}.{acc}"
    body = [
        REGISTERS,
        load_registers("p0", ra, 32),
        load_registers("p1", rb, 32),
        load_registers("p2", rc, 32),
        f"  {opcode} {braces(rc)}, {braces(ra)}, {braces(rb)}, {braces(rc)};",
        store_registers(rc, 32),
    ]
    name = identifier(f"{opcode}.{values}")
    if acc == "s32":
        inputs = ("bytes.1024", "bytes.1024", "i32.a" if saturate else "exact.s32.1024")
    else:
        inputs = (f"{values}.{a}.1024", f"{values}.{b}.1024", f"{values}.{acc}.1024")
    vector = Vector(name, entry(name, 3, "\n".join(body)), inputs, 128 * nd, block=(32, 1, 1))
    if values == "random" and acc != "s32":
        vector = replace(vector, compare="f4" if acc == "f32" else "f2", absolute=bound)
    return vector


def _double(g: Group) -> None:
    opcode = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    body = [
        REGISTERS,
        "  .reg .b64 %f<4>;",
        "  mov.u32 %r10, %tid.x;",
        "  ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r10, 8, %rd0;",
        "  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r10, 16, %rd1;",
        "  ld.global.b64 %f0, [%rd0]; ld.global.b64 %f1, [%rd0+256];",
        "  ld.global.b64 %f2, [%rd0+512]; ld.global.b64 %f3, [%rd0+768];",
        f"  {opcode} {{%f2, %f3}}, {{%f0}}, {{%f1}}, {{%f2, %f3}};",
        "  st.global.v2.b64 [%rd1], {%f2, %f3};\n  ret;",
    ]
    name = identifier(opcode)
    g.add(Vector(name, entry(name, 1, "\n".join(body)), ("exact.f64.1024",), 512, block=(32, 1, 1)))


def group() -> Group:
    g = Group("mma")
    for form in _FORMS:
        g.add(_vector(form, "exact"))
        if form[1] == "s32":
            g.add(_vector(form, "random", saturate=True))
        else:
            g.add(_vector(form, "random"))
    _double(g)
    return g
