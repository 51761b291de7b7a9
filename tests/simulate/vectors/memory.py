"""Loads and stores of every width, cp.async, ldmatrix, stmatrix, movmatrix, atomics. All bitwise."""

from __future__ import annotations

from vectors.model import Group, Vector, entry, identifier, scalar
from vectors.text import REGISTERS, braces, copy_in, copy_out, fill_shared, store_registers

_IMAGE = 4096


def _matrices(g: Group) -> None:
    rows = "mov.u32 %r10, %laneid; mad.lo.u32 %r10, %r10, 37, 11; and.b32 %r10, %r10, 255;"
    rows += " shl.b32 %r10, %r10, 4; mov.u32 %r11, smem; add.u32 %r10, %r10, %r11;"
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            names = [f"%r{20 + i}" for i in range(count)]
            form = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            body = [REGISTERS, copy_in("p0", _IMAGE, threads=32), "  bar.sync 0;", f"  {rows}"]
            body += [f"  {form} {braces(names)}, [%r10];", store_registers(names, 32)]
            name = identifier(form)
            text = entry(name, 1, "\n".join(body))
            g.add(
                Vector(
                    name, text, (f"count.{_IMAGE}",), 128 * count, block=(32, 1, 1), shared=_IMAGE
                )
            )

            form = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            loads = [
                "  ld.param.u64 %rd0, [p0]; mov.u32 %r12, %tid.x; mad.wide.u32 %rd0, %r12, 4, %rd0;"
            ]
            loads += [f"  ld.global.b32 {r}, [%rd0+{128 * i}];" for i, r in enumerate(names)]
            body = [
                REGISTERS,
                fill_shared(_IMAGE, 0xABABABAB, 32),
                "  bar.sync 0;",
                *loads,
                f"  {rows}",
            ]
            body += [f"  {form} [%r10], {braces(names)};", "  bar.sync 0;", copy_out(_IMAGE, 32)]
            name = identifier(form)
            text = entry(name, 1, "\n".join(body))
            g.add(Vector(name, text, ("bytes.512",), _IMAGE, block=(32, 1, 1), shared=_IMAGE))
    form = "movmatrix.sync.aligned.m8n8.trans.b16"
    scalar(g, form, f"{form} $d, $0;", ("i32.a",))


def _async_copies(g: Group) -> None:
    cases = [("ca", size, extra) for size in (4, 8, 16) for extra in ("", "size", "zero", "ignore")]
    cases += [("cg", 16, ""), ("cg", 16, "size"), ("cg.l2", 16, "")]
    for cache, size, extra in cases:
        hint = ".L2::128B" if cache == "cg.l2" else ""
        form = f"cp.async.{cache[:2]}.shared.global{hint}"
        tail = {"": "", "size": ", %r12", "zero": ", 0", "ignore": ", %p0"}[extra]
        body = [
            REGISTERS,
            fill_shared(2048, 0xABABABAB),
            "  bar.sync 0;",
            "  ld.param.u64 %rd0, [p0]; mov.u32 %r10, %tid.x; mov.u32 %r11, smem;",
            f"  mad.wide.u32 %rd1, %r10, {size}, %rd0; mad.lo.u32 %r11, %r10, {size}, %r11;",
            f"  rem.u32 %r12, %r10, {size + 1}; and.b32 %r13, %r10, 1; setp.eq.u32 %p0, %r13, 1;",
            f"  {form} [%r11], [%rd1], {size}{tail};",
            "  cp.async.commit_group;\n  cp.async.wait_group 0;\n  bar.sync 0;",
            copy_out(2048),
        ]
        name = identifier(f"cp.async.{cache}.{size}.{extra}")
        text = entry(name, 1, "\n".join(body))
        g.add(Vector(name, text, ("bytes.2048",), 2048, shared=2048))


def _widths(g: Group) -> None:
    """Load through one width and store the lanes' registers: sign extension and order of vector elements."""
    loads = (
        ("ld.global.s8", 1, 1, 32),
        ("ld.global.u8", 1, 1, 32),
        ("ld.global.s16", 2, 1, 32),
        ("ld.global.u16", 2, 1, 32),
        ("ld.global.nc.b32", 4, 1, 32),
        ("ld.global.v2.u8", 2, 2, 16),
        ("ld.global.v4.s8", 4, 4, 16),
        ("ld.global.v2.u16", 4, 2, 16),
        ("ld.global.v4.u16", 8, 4, 16),
        ("ld.global.v2.b32", 8, 2, 32),
        ("ld.global.v4.b32", 16, 4, 32),
        ("ld.global.nc.L1::no_allocate.v4.b32", 16, 4, 32),
        ("ld.global.L2::128B.v4.b32", 16, 4, 32),
        ("ld.relaxed.gpu.global.b32", 4, 1, 32),
        ("ld.acquire.gpu.global.b32", 4, 1, 32),
        ("ld.volatile.global.b32", 4, 1, 32),
        ("ld.v2.b32", 8, 2, 32),
    )
    for form, step, count, bits in loads:
        regs = [f"%r{20 + i}" if bits == 32 else f"%h{i}" for i in range(count)]
        target = regs[0] if count == 1 else braces(regs)
        body = [
            REGISTERS,
            f"  ld.param.u64 %rd0, [p0]; mov.u32 %r10, %tid.x; mad.wide.u32 %rd0, %r10, {step}, %rd0;",
            f"  {form} {target}, [%rd0];",
        ]
        if bits == 16:
            body += [f"  cvt.u32.u16 %r{20 + i}, %h{i};" for i in range(count)]
        body.append(store_registers([f"%r{20 + i}" for i in range(count)], 128))
        name = identifier(form)
        g.add(Vector(name, entry(name, 1, "\n".join(body)), ("bytes.2048",), 512 * count))
    stores = (("st.shared.b8", 1, 1), ("st.shared.b16", 2, 1), ("st.shared.v2.b32", 8, 2))
    stores += (("st.shared.v4.b32", 16, 4), ("st.shared.v2.b8", 2, 2))
    for form, step, count in stores:
        names = [f"%r{20 + i}" for i in range(count)]
        source = names[0] if count == 1 else braces(names)
        if form in ("st.shared.b8", "st.shared.b16", "st.shared.v2.b8"):
            source = "%h0" if count == 1 else "{%h0, %h1}"
        body = [
            REGISTERS,
            fill_shared(2048, 0xABABABAB),
            "  bar.sync 0;",
            "  ld.param.u64 %rd0, [p0]; mov.u32 %r10, %tid.x; mov.u32 %r11, smem;",
            f"  mad.wide.u32 %rd0, %r10, 16, %rd0; mad.lo.u32 %r11, %r10, {step}, %r11;",
            "  ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd0];",
            "  cvt.u16.u32 %h0, %r20; cvt.u16.u32 %h1, %r21;",
            f"  {form} [%r11], {source};",
            "  bar.sync 0;",
            copy_out(2048),
        ]
        name = identifier(form)
        text = entry(name, 1, "\n".join(body))
        g.add(Vector(name, text, ("bytes.2048",), 2048, shared=2048))


def _atomics(g: Group) -> None:
    """Three parts: unique addresses with the value returned, then eight addresses that 128 threads share."""
    kinds = [("add", t) for t in ("u32", "s32", "u64", "f32", "f64", "f16x2", "bf16x2")]
    kinds += [(op, t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64")]
    kinds += [(op, f"b{n}") for op in ("and", "or", "xor", "exch", "cas") for n in (32, 64)]
    kinds += [("inc", "u32"), ("dec", "u32")]
    for space in ("global", "shared"):
        for op, kind in kinds:
            bits = 64 if "64" in kind else 32
            size = bits // 8
            half = ".noftz" if kind in ("f16x2", "bf16x2") else ""
            form = f"atom.{space}.{op}{half}.{kind}"
            pool = kind if kind in ("f16x2", "bf16x2", "f32", "f64") else f"i{bits}"
            base = ("%rd4", ".b64") if space == "global" else ("%r14", ".b32")
            address = "%rd5" if space == "global" else "%r15"
            value, old = ("%rd10", "%rd11") if bits == 64 else ("%r20", "%r21")
            operand = value if op != "cas" else f"{value}, {'%rd12' if bits == 64 else '%r22'}"
            shared_ok = op not in ("exch", "cas", "inc", "dec") and not kind.startswith(("f", "bf"))
            second = (
                f"  and.b32 %r16, %r10, 7;\n  mad{'.wide' if space == 'global' else '.lo'}.u32 {address},"
                f" %r16, {size}, {base[0]};\n  red.{space}.{op}.{kind} [{address}+{128 * size}], {value};"
                if shared_ok
                else ""
            )
            pointer = "  mov.u64 %rd4, %rd3;" if space == "global" else "  mov.u32 %r14, smem;"
            stores = f"  st.{space}.b{bits} [{address}], %s0;\n"
            stores += f"  st.{space}.b{bits} [{address}+{128 * size}], %s0;"
            body = [
                REGISTERS,
                f"  .reg .b{bits} %s0;",
                "  ld.param.u64 %rd3, [out]; mov.u32 %r10, %tid.x;",
                f"  ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r10, {size}, %rd0;",
                f"  ld.param.u64 %rd1, [p1]; mad.wide.u32 %rd1, %r10, {size}, %rd1;",
                f"  ld.global.b{bits} %s0, [%rd0]; ld.global.b{bits} {value}, [%rd1];",
                f"  mov.b{bits} {'%rd12' if bits == 64 else '%r22'}, %s0;" if op == "cas" else "",
                # half of the compares fail
                (
                    (
                        f"  and.b32 %r17, %r10, 1; setp.eq.u32 %p0, %r17, 1;\n  @%p0 mov.b{bits} {value}, %s0;"
                    )
                    if op == "cas"
                    else ""
                ),
                pointer,
                f"  mad{'.wide' if space == 'global' else '.lo'}.u32 {address}, %r10, {size}, {base[0]};",
                stores,
                "  bar.sync 0;",
                f"  {form} {old}, [{address}], {operand};",
                f"  mad.wide.u32 %rd6, %r10, {size}, %rd3; st.global.b{bits} [%rd6+{256 * size}], {old};",
                second,
                "  bar.sync 0;",
            ]
            if space == "shared":
                body.append(copy_out(256 * size))
            else:
                body.append("  ret;")
            name = identifier(form)
            text = entry(name, 2, "\n".join(line for line in body if line))
            shared = 256 * size if space == "shared" else 0
            g.add(Vector(name, text, (f"{pool}.a", f"{pool}.b"), 384 * size, shared=shared))


def group() -> Group:
    g = Group("memory")
    _matrices(g)
    _async_copies(g)
    _widths(g)
    _atomics(g)
    return g
