"""Integer, bit and predicate instructions (PTX ISA 9.7.1, 9.7.2, 9.7.6, 9.7.8) as functions of unsigned arrays."""

from __future__ import annotations

import numpy as np

from tilegen.simulate.numpy_backend.operands import resized, signed
from tilegen.simulate.numpy_backend.rounding import uint

Array = np.ndarray


def _wide(raw: Array, kind: str) -> Array:
    """As Python-sized integers of twice the width, in two's complement."""
    bits = int(kind[1:])
    return resized(raw, 2 * bits, kind[0] == "s")


def _high64(a: Array, b: Array, kind: str) -> Array:
    """Upper 64 bits of a 64 x 64 product, from four 32 x 32 ones."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> shift, b & mask, b >> shift
    middle = a1 * b0 + (a0 * b0 >> shift)
    low = (middle & mask) + a0 * b1
    high = a1 * b1 + (middle >> shift) + (low >> shift)
    if kind[0] == "s":
        zero = np.uint64(0)
        high = high - np.where(signed(a) < 0, b, zero) - np.where(signed(b) < 0, a, zero)
    return high


def multiply(mode: str, kind: str, a: Array, b: Array) -> Array:
    """mul.lo, .hi or .wide."""
    bits = int(kind[1:])
    if mode == "lo":
        return a * b
    if bits == 64:
        return _high64(a, b, kind)
    product = _wide(a, kind) * _wide(b, kind)
    return product if mode == "wide" else (product >> product.dtype.type(bits)).astype(uint(bits))


def divide(op: str, kind: str, a: Array, b: Array) -> Array:
    """div and rem truncate toward zero; a divisor of zero gives all ones (unspecified in PTX)."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if kind[0] == "u":
        result = a // safe if op == "div" else a % safe
    else:
        sa, sb = signed(a), signed(safe)
        ua, ub = np.abs(sa).view(a.dtype), np.abs(sb).view(a.dtype)
        quotient = ua // ub
        if op == "div":
            result = np.where((sa < 0) != (sb < 0), -quotient, quotient)
        else:
            rest = ua - quotient * ub
            result = np.where(sa < 0, -rest, rest)
    return np.where(zero, ~b.dtype.type(0), result)


def ordered(op: str, kind: str, a: Array, b: Array) -> Array:
    """min and max."""
    function = np.minimum if op == "min" else np.maximum
    if kind[0] == "s":
        return function(signed(a), signed(b)).view(a.dtype)
    return function(a, b)


def shift(op: str, kind: str, a: Array, amount: Array) -> Array:
    """shl and shr: amounts of the width or more give zero, or the sign."""
    bits = a.dtype.itemsize * 8
    near = np.minimum(amount, np.uint32(bits - 1)).astype(a.dtype)
    far = amount >= bits
    if op == "shl":
        return np.where(far, a.dtype.type(0), a << near)
    if kind[0] == "s":
        return (signed(a) >> signed(near)).view(a.dtype)
    return np.where(far, a.dtype.type(0), a >> near)


def _low_mask(length: Array, dtype: np.dtype) -> Array:
    bits = dtype.itemsize * 8
    whole = length >= bits
    partial = (dtype.type(1) << np.where(whole, 0, length).astype(dtype)) - dtype.type(1)
    return np.where(whole, ~dtype.type(0), partial)


def insert_field(a: Array, b: Array, position: Array, length: Array) -> Array:
    """bfi: bits of a into b; position and length are bytes."""
    bits, p, n = a.dtype.itemsize * 8, position & np.uint32(255), length & np.uint32(255)
    inside = p < bits
    offset = np.where(inside, p, 0).astype(a.dtype)
    mask = _low_mask(n, a.dtype) << offset
    return np.where(inside, (b & ~mask) | ((a << offset) & mask), b)


def extract_field(kind: str, a: Array, position: Array, length: Array) -> Array:
    """bfe: fields past the top are filled with zeros or with the sign of the last bit that is there."""
    bits, p, n = a.dtype.itemsize * 8, position & np.uint32(255), length & np.uint32(255)
    mask = _low_mask(n, a.dtype)
    field = shift("shr", "u", a, p) & mask
    if kind[0] == "u":
        return field
    last = np.minimum(p + n - np.uint32(1), np.uint32(bits - 1))
    sign = (a >> last.astype(a.dtype)) & a.dtype.type(1)
    filled = np.minimum(n, np.maximum(np.int64(bits) - p.astype(np.int64), 0).astype(np.uint32))
    result = np.where(sign != 0, field | ~_low_mask(filled, a.dtype), field)
    return np.where(n == 0, a.dtype.type(0), result)


def _bits(a: Array) -> Array:
    """[lanes, bits], least significant first."""
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
    return np.unpackbits(octets, axis=-1, bitorder="little")


def count_ones(a: Array) -> Array:
    return _bits(a).sum(-1).astype(np.uint32)


def leading_zeros(a: Array) -> Array:
    bits = _bits(a)[..., ::-1]
    return np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1]).astype(np.uint32)


def find_top(kind: str, a: Array, amount: bool) -> Array:
    """bfind: position of the top bit that differs from the sign, or (.shiftamt) the shift that brings it to the top;
    all ones where there is none."""
    if kind[0] == "s":
        a = np.where(signed(a) < 0, ~a, a)
    zeros, top = leading_zeros(a), np.uint32(a.dtype.itemsize * 8 - 1)
    return np.where(a == 0, np.uint32(0xFFFFFFFF), zeros if amount else top - zeros)


def reverse(a: Array) -> Array:
    octets = np.packbits(_bits(a)[..., ::-1], axis=-1, bitorder="little")
    return octets.view(a.dtype).reshape(a.shape)


def permute(mode: str, a: Array, b: Array, c: Array) -> Array:
    """prmt.b32: bytes of {b, a} chosen by nibbles of c, or by a mode and the low two bits of c."""
    source = np.stack([a, b], -1).view(np.uint8).reshape(*a.shape, 8)
    if mode == "":
        nibbles = np.stack([(c >> np.uint32(4 * i)) & np.uint32(15) for i in range(4)], -1)
        chosen = np.take_along_axis(source, (nibbles & 7).astype(np.int64), -1)
        sign = np.where(chosen & 128, 255, 0).astype(np.uint8)
        picked = np.where(nibbles & 8, sign, chosen)
    else:
        i = (c & np.uint32(3)).astype(np.int64)[..., None]
        k = np.arange(4)
        index = {
            "f4e": i + k,
            "b4e": (i - k) % 8,
            "rc8": i + 0 * k,
            "ecl": np.maximum(i, k),
            "ecr": np.minimum(i, k),
            "rc16": (i & 1) * 2 + k % 2,
        }[mode]
        picked = np.take_along_axis(source, index, -1)
    return np.ascontiguousarray(picked).view(np.uint32).reshape(a.shape)


def logic3(table: int, a: Array, b: Array, c: Array) -> Array:
    """lop3: bit (4a + 2b + c) of the table."""
    result = np.zeros_like(a)
    for index in range(8):
        if table >> index & 1:
            result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
    return result


def funnel(way: str, mode: str, a: Array, b: Array, c: Array) -> Array:
    """shf: shift the pair {b, a}."""
    n = (np.minimum(c, np.uint32(32)) if mode == "clamp" else c & np.uint32(31)).astype(np.uint64)
    pair = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    if way == "r":
        return (pair >> n).astype(np.uint32)
    return (pair << n >> np.uint64(32)).astype(np.uint32)


def dot4(left: str, right: str, a: Array, b: Array, c: Array) -> Array:
    """dp4a: four byte products, added to c."""

    def octets(word: Array, kind: str) -> Array:
        view = np.ascontiguousarray(word).view(np.int8 if kind[0] == "s" else np.uint8)
        return view.reshape(*word.shape, 4).astype(np.int64)

    total = (octets(a, left) * octets(b, right)).sum(-1)
    return (total + c.astype(np.int64)).astype(np.uint64).astype(np.uint32)


def compare(test: str, kind: str, a: Array, b: Array) -> Array:
    """setp on integers; lo, ls, hi, hs are unsigned."""
    unsigned = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    if test in unsigned:
        test = unsigned[test]
    elif kind[0] == "s":
        a, b = signed(a), signed(b)
    return COMPARISONS[test](a, b)


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def saturate(value: Array, source: str, target: str) -> Array:
    """cvt.sat between integers: clamp to the target's range. Returns the target's bits."""
    bits = int(target[1:])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if target[0] == "s" else (0, 2**bits - 1)
    typed = signed(value) if source[0] == "s" else value
    info = np.iinfo(typed.dtype)
    return np.clip(typed, max(low, info.min), min(high, info.max)).view(value.dtype)
