"""Bulk copies: tensor tiles of every rank and swizzle, over every edge, stores, reductions, im2col, multicast, plain
bulk copies. All bitwise; shared memory is dumped whole, so holes and overruns show."""

from __future__ import annotations

from vectors.model import Group, Map, Vector, entry, identifier
from vectors.text import REGISTERS, braces, copy_in, copy_out, fill_shared, wait

_REGION = 8192
_BAR = "[%r15]"  # the mbarrier's address: past the region
_SHARED = _REGION + 64
_POISON = 0xABABABAB
_SIZE = {
    "u8": 1,
    "u16": 2,
    "f16": 2,
    "bf16": 2,
    "u32": 4,
    "f32": 4,
    "tf32": 4,
    "u64": 8,
    "f64": 8,
    "s32": 4,
}

_START = f"""  mov.u32 %r11, smem; add.u32 %r15, %r11, {_REGION};
  mov.u32 %r10, %tid.x; setp.eq.u32 %p0, %r10, 0;
  @%p0 mbarrier.init.shared::cta.b64 {_BAR}, 1;
  @%p0 fence.mbarrier_init.release.cluster;
  fence.proxy.async;
  bar.sync 0;"""
_ONE = "  setp.ne.u32 %p1, %r10, 0;\n  @%p1 bra ISSUED;"


def _tensor(rank: int, coordinates: tuple[int, ...]) -> str:
    registers = [f"%w{i}" for i in range(rank)]
    moves = "\n".join(f"  mov.b32 {r}, {c};" for r, c in zip(registers, coordinates))
    return f"{moves}\n  mov.b64 %rd5, map0; cvta.param.u64 %rd6, %rd5;", braces(registers)


def _load(
    g: Group,
    label: str,
    tensor_map: Map,
    coordinates: tuple[int, ...],
    size: int,
    im2col: tuple[int, ...] = (),
    hint: bool = False,
) -> None:
    rank = len(tensor_map.dims)
    prepare, where = _tensor(rank, coordinates)
    mode = "im2col" if im2col else "tile"
    offsets = ""
    if im2col:
        prepare += "\n" + "\n".join(f"  mov.b16 %h{i}, {x};" for i, x in enumerate(im2col))
        offsets = ", " + braces([f"%h{i}" for i in range(len(im2col))])
    opcode = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
    )
    if hint:
        opcode += ".L2::cache_hint"
        prepare += "\n  createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;"
        offsets += ", %rd9"
    body = [
        REGISTERS,
        fill_shared(_REGION, _POISON),
        _START,
        _ONE,
        prepare,
        f"  mbarrier.arrive.expect_tx.shared::cta.b64 _, {_BAR}, {size};",
        f"  {opcode} [%r11], [%rd6, {where}], {_BAR}{offsets};",
        "ISSUED:",
        wait("%r15", 0, "WAIT"),
        copy_out(_REGION),
    ]
    name = identifier(f"load.{label}")
    text = entry(name, 1, "\n".join(body), maps=1)
    g.add(Vector(name, text, ("count.65536",), _REGION, shared=_SHARED, maps=(tensor_map,)))


def _rows(dtype: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a packed tensor, each padded to a multiple of 16 bytes."""
    strides, step = [], dims[0] * _SIZE[dtype]
    for extent in dims[1:]:
        step = -(-step // 16) * 16
        strides.append(step)
        step *= extent
    return tuple(strides)


def _map(buffer: int, dtype: str, dims, box, swizzle: str = "none", **rest) -> Map:
    return Map(buffer, dtype, tuple(dims), _rows(dtype, dims), tuple(box), swizzle=swizzle, **rest)


def _tiles(g: Group) -> None:
    edges = {"in": (0, 0), "low": (-8, -3), "high": (64, 60), "far": (1000, -1000), "mid": (16, 5)}
    for swizzle, inner in (("none", 64), ("128b", 64), ("64b", 32), ("32b", 16)):
        for edge, at in edges.items():
            tensor_map = _map(0, "bf16", (100, 67), (inner, 32), swizzle)
            _load(g, f"2d.bf16.{swizzle}.{edge}", tensor_map, at, inner * 32 * 2)
        # narrower than the span: rows keep the span's pitch
        if inner > 16:
            tensor_map = _map(0, "bf16", (100, 67), (inner // 2, 16), swizzle)
            _load(g, f"2d.bf16.{swizzle}.narrow", tensor_map, (8, 1), inner * 16)
    for dtype, inner in (
        ("u8", 128),
        ("f32", 32),
        ("u64", 16),
        ("f64", 16),
        ("tf32", 32),
        ("s32", 32),
    ):
        # as numbers, the image's 16-bit counts are small: rounding to tf32 shows in the upper half
        tensor_map = _map(0, dtype, (inner + 16 // _SIZE[dtype], 20), (inner, 16), "128b")
        _load(g, f"2d.{dtype}", tensor_map, (16 // _SIZE[dtype], 9), inner * 16 * _SIZE[dtype])
    _load(g, "1d", Map(0, "u16", (1000,), (), (256,)), (800,), 512)
    _load(g, "1d.low", Map(0, "u16", (1000,), (), (256,)), (-16,), 512)
    _load(g, "3d", _map(0, "u16", (40, 9, 7), (32, 4, 8), "64b"), (16, -2, 3), 32 * 4 * 8 * 2)
    _load(g, "4d", _map(0, "u16", (24, 5, 6, 4), (16, 3, 4, 3), "32b"), (8, 3, -1, 2), 16 * 36 * 2)
    _load(
        g,
        "5d",
        _map(0, "u16", (16, 3, 4, 3, 5), (8, 2, 3, 2, 4), "none"),
        (8, 1, 2, 2, -1),
        8 * 48 * 2,
    )
    _load(g, "nan", _map(0, "bf16", (100, 67), (64, 16), "128b", fill="nan"), (64, 60), 64 * 16 * 2)
    _load(
        g, "nan.f32", _map(0, "f32", (100, 67), (32, 16), "128b", fill="nan"), (80, 60), 32 * 16 * 4
    )
    _load(g, "hint", _map(0, "u16", (100, 67), (64, 16), "128b"), (8, 3), 64 * 16 * 2, hint=True)
    stepped = _map(0, "u16", (100, 67), (64, 32), "128b", element_strides=(1, 3))
    _load(g, "stride3", stepped, (32, 40), 64 * 11 * 2)
    stepped = _map(0, "u16", (40, 16, 16), (32, 8, 7), "64b", element_strides=(2, 2, 3))
    _load(g, "stride.3d", stepped, (16, 5, 10), 32 * 4 * 3 * 2)


def _im2col(g: Group) -> None:
    cases = (
        ("3d", (64, 20, 3), (-1,), (-1,), (0, -1, 1), (0,), (1, 1, 1)),
        ("3d.tap", (64, 20, 3), (-1,), (-1,), (0, 3, 0), (2,), (1, 1, 1)),
        ("4d", (64, 9, 8, 3), (-1, -1), (-1, -1), (0, 2, 1, 0), (1, 2), (1, 1, 1, 1)),
        ("4d.tail", (64, 9, 8, 3), (-1, -1), (-1, -1), (32, 5, 6, 2), (0, 2), (1, 1, 1, 1)),
        ("4d.stride2", (64, 9, 8, 3), (-1, -1), (-1, -1), (0, 1, -1, 1), (2, 1), (1, 2, 2, 1)),
        ("4d.nopad", (64, 9, 8, 3), (0, 0), (-2, -2), (0, 0, 0, 1), (2, 0), (1, 1, 1, 1)),
        ("5d", (32, 5, 4, 3, 2), (-1,) * 3, (-1,) * 3, (0, 1, 0, -1, 0), (1, 0, 2), (1,) * 5),
    )
    for label, dims, lower, upper, at, offsets, steps in cases:
        channels, pixels = min(dims[0], 64) if "tail" not in label else 32, 48
        swizzle = {64: "128b", 32: "64b"}[channels]
        tensor_map = Map(
            0,
            "u16",
            dims,
            _rows("u16", dims),
            element_strides=steps,
            swizzle=swizzle,
            lower=lower,
            upper=upper,
            channels=channels,
            pixels=pixels,
        )
        _load(g, f"im2col.{label}", tensor_map, at, channels * pixels * 2, offsets)


def _numbers(size: int) -> str:
    """Fill the output with numbers to reduce into, in place of the launch's fill."""
    return f"""  ld.param.u64 %rd7, [out]; mov.u32 %r10, %tid.x;
NUMBERS:
  setp.lt.u32 %p2, %r10, {size // 4};
  @!%p2 bra NUMBERS_DONE;
  mad.wide.u32 %rd8, %r10, 4, %rd7; st.global.b32 [%rd8], 0x40004000;
  add.u32 %r10, %r10, 128;
  bra NUMBERS;
NUMBERS_DONE:
  fence.proxy.async;"""


def _store(
    g: Group, label: str, tensor_map: Map, coordinates, output: int, source: str, reduce=""
) -> None:
    rank = len(tensor_map.dims)
    prepare, where = _tensor(rank, coordinates)
    verb = "cp.reduce.async" if reduce else "cp.async"
    opcode = f"{verb}.bulk.tensor.{rank}d.global.shared::cta{'.' + reduce if reduce else ''}.tile.bulk_group"
    clear = _numbers(output) if reduce else ""
    body = [
        REGISTERS,
        copy_in("p0", _REGION),
        clear,
        _START,
        _ONE,
        prepare,
        f"  {opcode} [%rd6, {where}], [%r11];",
        "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;",
        "ISSUED:\n  ret;",
    ]
    name = identifier(f"store.{label}")
    text = entry(name, 1, "\n".join(line for line in body if line), maps=1)
    g.add(Vector(name, text, (source,), output, shared=_SHARED, maps=(tensor_map,)))


def _stores(g: Group) -> None:
    for swizzle, inner in (("none", 64), ("128b", 64), ("64b", 32), ("32b", 16)):
        for edge, at in {"in": (8, 2), "high": (64, 28), "out": (128, 3)}.items():
            tensor_map = _map(-1, "bf16", (100, 37), (inner, 16), swizzle)
            _store(g, f"2d.{swizzle}.{edge}", tensor_map, at, 208 * 37, "count.65536")
    tensor_map = _map(-1, "bf16", (100, 37), (32, 16), "128b")
    _store(g, "2d.narrow", tensor_map, (8, 2), 208 * 37, "count.65536")
    _store(g, "1d", Map(-1, "u16", (1000,), (), (256,)), (800,), 2048, "count.65536")
    _store(
        g, "3d", _map(-1, "u16", (40, 9, 7), (32, 4, 8), "64b"), (16, 6, 3), 80 * 63, "count.65536"
    )
    _store(
        g, "4d", _map(-1, "u32", (8, 5, 6, 4), (4, 3, 4, 3)), (4, 3, 1, 2), 32 * 120, "count.65536"
    )
    stepped = _map(-1, "u16", (64, 40), (64, 32), "128b", element_strides=(1, 3))
    _store(g, "stride3", stepped, (0, 20), 128 * 40, "count.65536")
    for op, dtype, inner in (
        ("add", "u32", 32),
        ("add", "s32", 32),
        ("add", "u64", 16),
        ("add", "f16", 64),
        ("add", "bf16", 64),
        ("add", "f32", 32),
        ("min", "u32", 32),
        ("max", "s32", 32),
        ("min", "f16", 64),
        ("max", "bf16", 64),
        ("inc", "u32", 32),
        ("dec", "u32", 32),
        ("and", "u32", 32),
        ("or", "u32", 32),
        ("xor", "u64", 16),
    ):
        floating = dtype in ("f16", "bf16", "f32")
        source = f"random.{dtype}.8192" if floating else "bytes.8192"
        dims = (inner + 16 // _SIZE[dtype], 20)
        tensor_map = _map(-1, dtype, dims, (inner, 16), "128b")
        output = tensor_map.strides[0] * 20
        _store(g, f"{op}.{dtype}", tensor_map, (16 // _SIZE[dtype], 9), output, source, op)


def _plain(g: Group) -> None:
    opcode = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    body = [
        REGISTERS,
        fill_shared(_REGION, _POISON),
        _START,
        _ONE,
        "  ld.param.u64 %rd6, [p0];",
        f"  mbarrier.arrive.expect_tx.shared::cta.b64 _, {_BAR}, 1040;",
        f"  {opcode} [%r11+32], [%rd6+48], 1040, {_BAR};",
        "ISSUED:",
        wait("%r15", 0, "WAIT"),
        copy_out(_REGION),
    ]
    name = identifier("bulk.load")
    g.add(Vector(name, entry(name, 1, "\n".join(body)), ("count.65536",), _REGION, shared=_SHARED))
    for reduce, dtype, source in (
        ("", "", "count.65536"),
        ("add", "u32", "bytes.8192"),
        ("add", "f32", "random.f32.8192"),
        ("add.noftz", "f16", "random.f16.8192"),
        ("add.noftz", "bf16", "random.bf16.8192"),
        ("max", "s32", "bytes.8192"),
        ("xor", "b64", "bytes.8192"),
    ):
        verb = "cp.reduce.async" if reduce else "cp.async"
        kind = f".{reduce}.{dtype}" if reduce else ""
        body = [
            REGISTERS,
            copy_in("p0", _REGION),
            _numbers(2048) if reduce else "",
            _START,
            _ONE,
            "  ld.param.u64 %rd6, [out];",
            f"  {verb}.bulk.global.shared::cta.bulk_group{kind} [%rd6+16], [%r11+64], 2000;",
            "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;",
            "ISSUED:\n  ret;",
        ]
        name = identifier(f"bulk.store{kind}")
        text = entry(name, 1, "\n".join(line for line in body if line))
        g.add(Vector(name, text, (source,), 2048, shared=_SHARED))


def group() -> Group:
    g = Group("tma")
    _tiles(g)
    _im2col(g)
    _stores(g)
    _plain(g)
    return g
