"""Tensor copies byte for byte: clipping, swizzles, narrow boxes, im2col, multicast, reductions, illegal coordinates."""

from pathlib import Path

import numpy as np
import pytest

from tilegen.simulate import Memory, TensorMap, compile_ptx, report, simulate_ptx

KERNELS = Path(__file__).parent / "kernels"
SPAN = {"none": 0, "32b": 32, "64b": 64, "128b": 128}
ROWS, COLUMNS, BYTES = 37, 96, 16384


def swizzle(offset: int, span: int) -> int:
    return offset ^ ((offset // 128 % max(span // 16, 1)) * 16) if span else offset


def run(kernel, arguments, memory, **options):
    ptx = compile_ptx(KERNELS / "boxes.cu", "90a")
    cluster = (2, 1, 1) if kernel == "multicast" else (1, 1, 1)
    return simulate_ptx(
        ptx,
        cluster,
        (32, 1, 1),
        arguments,
        memory=memory,
        kernel=kernel,
        cluster=cluster,
        **options,
    )


def matrix(memory, writable=False):
    x = np.arange(ROWS * COLUMNS, dtype=np.uint16)
    return x.reshape(ROWS, COLUMNS), memory.allocate("x", x, writable=writable)


def tiled(buffer, box, mode, **more):
    return TensorMap(
        "tiled",
        "u16",
        buffer.address,
        (COLUMNS, ROWS),
        (COLUMNS * 2,),
        box,
        more.pop("steps", (1, 1)),
        swizzle=mode,
        **more,
    )


def expected_load(x, columns, rows, left, top, mode, at=0, fill=0, step=1):
    """The shared memory that a load leaves: rows at the swizzle span's pitch, elements outside filled."""
    out = np.full(BYTES, 0xCD, np.uint8)
    pitch = max(columns * 2, SPAN[mode])
    for r in range(rows):
        line = np.full(columns, fill, np.uint16)
        for c in range(columns):
            row, column = top + r * step, left + c
            if 0 <= row < ROWS and 0 <= column < COLUMNS:
                line[c] = x[row, column]
        for piece in range(0, columns * 2, 16):
            to = swizzle(1024 + at + r * pitch + piece, SPAN[mode]) - 1024
            out[to : to + 16] = line.view(np.uint8)[piece : piece + 16]
    return out


@pytest.mark.parametrize("order", ["deterministic", "lazy"])
@pytest.mark.parametrize("left, top", [(0, 0), (8, 5), (-16, -3), (88, 30), (1000, 2), (0, -100)])
@pytest.mark.parametrize(
    "mode, columns",
    [("none", 24), ("32b", 16), ("64b", 32), ("128b", 64), ("128b", 16), ("64b", 8)],
)
def test_a_load_clips_fills_and_swizzles(mode, columns, left, top, order):
    memory = Memory()
    x, source = matrix(memory)
    out = memory.allocate("out", BYTES)
    arguments = (tiled(source, (columns, 20), mode), out, left, top, columns * 20 * 2, 0)
    outcome = run("load_2d", arguments, memory, order=order)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(out.data, expected_load(x, columns, 20, left, top, mode))


def test_the_swizzle_follows_the_absolute_address():
    memory = Memory()
    x, source = matrix(memory)
    out = memory.allocate("out", BYTES)
    outcome = run("load_2d", (tiled(source, (64, 20), "128b"), out, 0, 0, 2560, 384), memory)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(out.data, expected_load(x, 64, 20, 0, 0, "128b", at=384))


def test_a_traversal_stride_moves_every_other_row_and_nan_fills():
    memory = Memory()
    x, source = matrix(memory)
    out = memory.allocate("out", BYTES)
    map_ = TensorMap(
        "tiled",
        "bf16",
        source.address,
        (COLUMNS, ROWS),
        (COLUMNS * 2,),
        (32, 19),
        (1, 2),
        oob_fill="nan",
    )
    outcome = run("load_2d", (map_, out, 80, 30, 32 * 10 * 2, 0), memory)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(
        out.data, expected_load(x, 32, 10, 80, 30, "none", fill=0x7FF7, step=2)
    )


@pytest.mark.parametrize("left, top", [(0, 0), (88, 30), (8, 100)])
@pytest.mark.parametrize("mode, columns", [("none", 24), ("32b", 16), ("128b", 64), ("128b", 24)])
def test_a_store_writes_what_lies_inside(mode, columns, left, top):
    memory = Memory()
    x, target = matrix(memory, writable=True)
    content = np.random.default_rng(0).integers(0, 256, BYTES).astype(np.uint8)
    source = memory.allocate("in", content, writable=False)
    outcome = run("store_2d", (tiled(target, (columns, 20), mode), source, left, top), memory)
    assert outcome.ok, report(outcome)
    expected, pitch = x.copy(), max(columns * 2, SPAN[mode])
    for r in range(20):
        for c in range(columns):
            at = swizzle(1024 + r * pitch + c * 2 // 16 * 16, SPAN[mode]) - 1024 + c * 2 % 16
            if top + r < ROWS and left + c < COLUMNS:
                expected[top + r, left + c] = content[at : at + 2].view(np.uint16)[0]
    np.testing.assert_array_equal(target.view(np.uint16, (ROWS, COLUMNS)), expected)


@pytest.mark.parametrize(
    "kernel, left, top, text",
    [
        ("load_2d", 4, 0, "must be a multiple of 16"),
        ("load_2d", -4, 0, "must be a multiple of 16"),
        ("store_2d", 4, 0, "must be a multiple of 16"),
        ("store_2d", -8, 0, "stores take no negative coordinate"),
        ("store_2d", 0, -1, "stores take no negative coordinate"),
    ],
)
def test_coordinates_that_hardware_refuses_are_found(kernel, left, top, text):
    memory = Memory()
    _, x = matrix(memory, writable=True)
    other = memory.allocate("other", np.zeros(BYTES, np.uint8))
    more = (64 * 40, 0) if kernel == "load_2d" else ()
    outcome = run(kernel, (tiled(x, (64, 20), "128b"), other, left, top, *more), memory)
    assert any(f.kind == "tma" and text in f.message for f in outcome.findings), report(outcome)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "start, offset",
    [((-1, -1, 0), (0, 0)), ((-1, -1, 0), (2, 1)), ((3, 3, 0), (1, 1)), ((5, 5, 1), (2, 2))],
)
def test_im2col_walks_the_pixels_of_a_convolution(start, offset, stride):
    n, h, w, c, channels, pixels = 3, 7, 8, 32, 16, 40
    memory = Memory()
    x = np.arange(n * h * w * c, dtype=np.uint16).reshape(n, h, w, c)
    source, out = memory.allocate("x", x, writable=False), memory.allocate("out", BYTES)
    map_ = TensorMap(
        "im2col",
        "u16",
        source.address,
        (c, w, h, n),
        (c * 2, w * c * 2, h * w * c * 2),
        (),
        (1, stride, stride, 1),
        swizzle="32b",
        lower_corner=(-1, -1),
        upper_corner=(-1, -1),
        channels_per_pixel=channels,
        pixels_per_column=pixels,
    )
    outcome = run("load_im2col", (map_, out, 8, *start, *offset, channels * pixels * 2), memory)
    assert outcome.ok, report(outcome)
    expected = np.full(BYTES, 0xCD, np.uint8)
    # Filter 3 x 3, padding 1: base pixels from -1 to extent - 2, in order.
    bases = [
        (b, y, z)
        for b in range(n)
        for y in range(-1, h - 1, stride)
        for z in range(-1, w - 1, stride)
    ]
    position = (start[2], start[1], start[0])
    first = bases.index(position)
    for p in range(pixels):
        line = np.zeros(channels, np.uint16)
        if first + p < len(bases):
            b, y, z = bases[first + p]
            y, z = y + offset[1], z + offset[0]
            if 0 <= y < h and 0 <= z < w:
                line = x[b, y, z, 8 : 8 + channels]
        for piece in range(0, channels * 2, 16):
            to = swizzle(1024 + p * 32 + piece, 32) - 1024
            expected[to : to + 16] = np.ascontiguousarray(line).view(np.uint8)[piece : piece + 16]
    np.testing.assert_array_equal(out.data, expected)


def test_multicast_reaches_both_blocks_and_counts_in_both():
    memory = Memory()
    x, source = matrix(memory)
    out = memory.allocate("out", 2 * BYTES)
    outcome = run("multicast", (tiled(source, (64, 8), "128b"), out, 1024), memory)
    assert outcome.ok, report(outcome)
    expected = expected_load(x, 64, 16, 0, 0, "128b")
    np.testing.assert_array_equal(out.data.reshape(2, BYTES), np.stack([expected, expected]))


def test_a_bulk_reduction_adds_in_memory():
    memory = Memory()
    a, b = np.arange(256, dtype=np.float32), np.ones(256, np.float32)
    source, target = memory.allocate("a", a, writable=False), memory.allocate("b", b)
    outcome = run("reduce", (source, target, 1024), memory)
    assert outcome.ok, report(outcome)
    np.testing.assert_array_equal(target.view(np.float32), a + b)


def test_an_operand_that_is_no_map_is_found():
    memory = Memory()
    out = memory.allocate("out", BYTES)
    outcome = run("load_2d", (bytes(128), out, 0, 0, 0, 0), memory)
    assert "the operand is not a tensor map" in report(outcome)
