"""wgmma: types x N x swizzle x majorness. Shared memory is one image of small integers, so that every result is exact
and a misplaced element shows; random images bound the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from vectors.model import Group, Vector, entry, identifier
from vectors.text import REGISTERS, braces, copy_in, load_registers, store_registers

_IMAGE = 49152
_B_AT = 16384
_SPAN = {0: 16, 1: 128, 2: 64, 3: 32}  # bytes, by the descriptor's mode
_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


@dataclass(frozen=True)
class _Case:
    acc: str = "f32"
    a: str = "bf16"
    b: str = "bf16"
    n: int = 64
    mode: int = 1
    a_major: int = 0  # 0: K-major, 1: MN-major
    b_major: int = 0
    registers: bool = False  # A in registers
    accumulate: bool = False
    negate: tuple[int, int] = (1, 1)
    a_start: int = 0  # bytes past the image's start
    base_offset: int = 0
    values: str = "exact"

    @property
    def sixteen(self) -> bool:
        return self.a in ("f16", "bf16")


def _descriptor(start: int, mode: int, major: int, base_offset: int) -> str:
    """PTX that leaves a descriptor of shared memory at `start` in %rd11 (start is added to smem's address)."""
    span = _SPAN[mode]
    if mode == 0:
        leading, stride = (128, 256) if major == 0 else (1024, 128)
    elif major == 0:
        leading, stride = 16, 8 * span
    else:
        leading, stride = 4096, 8 * span
    rest = (leading >> 4) << 16 | (stride >> 4) << 32 | base_offset << 49 | mode << 62
    return f"""  add.u32 %r12, %r11, {start}; and.b32 %r12, %r12, 0x3ffff; shr.u32 %r12, %r12, 4;
  cvt.u64.u32 %rd11, %r12; or.b64 %rd11, %rd11, 0x{rest:x};"""


def _vector(case: _Case) -> Vector:
    k = _K[case.a]
    count = case.n // 2 if case.acc != "f16" else case.n // 4
    d = [f"%r{20 + i}" for i in range(count)]
    a = [f"%r{200 + i}" for i in range(4)]
    opcode = f"wgmma.mma_async.sync.aligned.m64n{case.n}k{k}.{case.acc}.{case.a}.{case.b}"
    immediates = ""
    if case.acc != "s32":
        immediates = f", {case.negate[0]}, {case.negate[1]}"
        if case.sixteen:
            immediates += (
                f", {case.b_major}" if case.registers else f", {case.a_major}, {case.b_major}"
            )
    source = braces(a) if case.registers else "%rd10"
    body = [
        REGISTERS,
        copy_in("p0", _IMAGE),
        "  fence.proxy.async;\n  bar.sync 0;",
        "  mov.u32 %r11, smem;",
        _descriptor(case.a_start, case.mode, case.a_major, case.base_offset),
        "  mov.b64 %rd10, %rd11;",
        _descriptor(_B_AT, case.mode, case.b_major, 0),
        load_registers("p1", d, 128),
        load_registers("p0", a, 128) if case.registers else "",
        f"  setp.ne.u32 %p0, {int(case.accumulate)}, 0;",
        "  wgmma.fence.sync.aligned;",
        f"  {opcode} {braces(d)}, {source}, %rd11, %p0{immediates};",
        "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;",
        store_registers(d, 128),
    ]
    layout = f"{case.mode}{case.a_major}{case.b_major}{'r' if case.registers else ''}"
    if case.accumulate:
        layout += "_add"
    if case.negate != (1, 1):
        layout += f"_neg{case.negate[0] < 0:d}{case.negate[1] < 0:d}"
    if case.a_start:
        layout += f"_at{case.a_start}_{case.base_offset}"
    name = identifier(f"{opcode}.{layout}.{case.values}")
    image = f"bytes.{_IMAGE}" if case.acc == "s32" else f"{case.values}.{case.a}.{_IMAGE}"
    if case.a != case.b and case.acc != "s32":
        # e4m3 and e5m2 share one image: small integers of the one are other finite numbers of the other.
        image = f"{case.values}.e4m3.{_IMAGE}"
    sums = f"exact.{case.acc}.{128 * 128 * 4}"
    bound = {}
    if case.values == "random":
        absolute = {"f16": 4e-2}.get(case.acc, 3e-1 if k == 32 else 1e-4)
        bound = {"compare": "f4" if case.acc == "f32" else "f2", "absolute": absolute}
    text = entry(name, 2, "\n".join(line for line in body if line))
    return Vector(name, text, (image, sums), 512 * count, shared=_IMAGE, **bound)


def _cases() -> list[_Case]:
    cases = []
    for kind in ("bf16", "f16"):
        for mode in range(4):
            for a_major in (0, 1):
                for b_major in (0, 1):
                    n = 64 if (a_major, b_major) != (1, 0) else 24
                    cases.append(
                        _Case(a=kind, b=kind, n=n, mode=mode, a_major=a_major, b_major=b_major)
                    )
        for n in (8, 40, 128, 192, 256):
            cases.append(_Case(a=kind, b=kind, n=n, b_major=int(n % 3 == 0)))
    for mode in range(4):
        cases.append(_Case(mode=mode, registers=True, n=32))
        cases.append(_Case(mode=mode, registers=True, b_major=1, n=32))
    cases += [_Case(acc="f16", a="f16", b="f16", n=n, accumulate=n == 64) for n in (8, 64, 96)]
    cases += [_Case(acc="f16", a="f16", b="f16", n=32, registers=True)]
    for a, b in (
        ("tf32", "tf32"),
        ("e4m3", "e4m3"),
        ("e5m2", "e5m2"),
        ("e4m3", "e5m2"),
        ("e5m2", "e4m3"),
    ):
        for mode in range(4):
            cases.append(_Case(a=a, b=b, n=16 if mode else 64, mode=mode, accumulate=mode == 2))
        cases.append(_Case(a=a, b=b, n=48, registers=True))
    cases.append(_Case(acc="f16", a="e4m3", b="e4m3", n=32))
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            for mode in (0, 1):
                cases.append(_Case(acc="s32", a=a, b=b, n=32, mode=mode, accumulate=mode == 1))
            cases.append(_Case(acc="s32", a=a, b=b, n=16, registers=True))
    cases.append(_Case(accumulate=True, n=16))
    cases += [
        _Case(n=16, negate=negate, accumulate=True) for negate in ((-1, 1), (1, -1), (-1, -1))
    ]
    cases += [_Case(n=16, a_start=start) for start in (32, 64, 96, 1024 + 32)]
    cases += [_Case(n=16, mode=2, a_start=32), _Case(n=16, a_major=1, a_start=2048)]
    cases += [_Case(n=16, a_start=start, base_offset=start // 128) for start in (128, 384)]
    for acc, a in (
        ("f32", "bf16"),
        ("f32", "f16"),
        ("f16", "f16"),
        ("f32", "tf32"),
        ("f32", "e4m3"),
    ):
        cases.append(_Case(acc=acc, a=a, b=a, n=64, values="random"))
    return cases


def group() -> Group:
    g = Group("wgmma")
    for case in _cases():
        g.add(_vector(case))
    return g
