"""Floating-point formats by arithmetic on float64: decode, round once in any direction, encode.

A result that float64 cannot hold exactly is first rounded to odd (Boldo and Melquiond, "Emulation of FMA and correctly
rounded sums", 2008): the last bit then says that something was lost, and the second rounding is right.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Format:
    """bits: of the encoding; precision: significand bits, hidden one included; emin: exponent of the least normal."""

    bits: int
    precision: int
    emin: int
    largest: float
    nan: int
    infinite: bool = True


FORMATS = {
    "f64": Format(64, 53, -1022, float(np.finfo(np.float64).max), 0x7FF8000000000000),
    "f32": Format(32, 24, -126, float(np.finfo(np.float32).max), 0x7FFFFFFF),
    "tf32": Format(32, 11, -126, (2 - 2.0**-10) * 2.0**127, 0x7FFFE000),
    "f16": Format(16, 11, -14, 65504.0, 0x7FFF),
    "bf16": Format(16, 8, -126, (2 - 2.0**-7) * 2.0**127, 0x7FFF),
    "e4m3": Format(8, 4, -6, 448.0, 0x7F, infinite=False),
    "e5m2": Format(8, 3, -14, 57344.0, 0x7F),
}


def uint(bits: int) -> np.dtype:
    return np.dtype(f"u{max(bits, 8) // 8}")


def decode(raw: Array, kind: str) -> Array:
    """Encodings (unsigned integers) to float64, exactly."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return _decode(raw, kind)


def _decode(raw: Array, kind: str) -> Array:
    if kind == "f64":
        return raw.astype(np.uint64).view(np.float64)
    if kind in ("f32", "tf32"):
        word = raw.astype(np.uint32)
        return (
            (word & np.uint32(0xFFFFE000) if kind == "tf32" else word)
            .view(np.float32)
            .astype(np.float64)
        )
    if kind == "f16":
        return raw.astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return _TABLES[kind][raw.astype(np.uint8)]


def _table(kind: str) -> Array:
    """All 256 values of an 8-bit format."""
    form = FORMATS[kind]
    values = np.empty(256)
    for raw in range(256):
        fraction, field = raw & (2 ** (form.precision - 1) - 1), (raw & 127) >> (form.precision - 1)
        scale = 2.0 ** (max(field, 1) - 1 + form.emin - (form.precision - 1))
        value = (fraction + (2 ** (form.precision - 1) if field else 0)) * scale
        if kind == "e4m3" and raw & 127 == 127:
            value = np.nan
        if kind == "e5m2" and field == 31:
            value = np.nan if fraction else np.inf
        values[raw] = -value if raw & 128 else value
    return values


_TABLES = {kind: _table(kind) for kind in ("e4m3", "e5m2")}
_ROUND = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def round_to(value: Array, kind: str, mode: str = "rn") -> Array:
    """float64, exact or rounded to odd, to the nearest float64 that the format holds; overflow as IEEE 754 has it."""
    form = FORMATS[kind]
    if kind == "f64":
        return value
    _, exponent = np.frexp(value)
    quantum = np.maximum(exponent - form.precision, form.emin - form.precision + 1)
    finite = np.isfinite(value)
    if mode == "rna":
        scaled = np.ldexp(value, -quantum)
        rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    else:
        rounded = _ROUND[mode](np.ldexp(value, -quantum))
    result = np.copysign(np.ldexp(rounded, quantum), value)
    over = np.abs(result) > form.largest
    if over.any():
        toward_zero = (
            (mode == "rz") | ((mode == "rm") & (value > 0)) | ((mode == "rp") & (value < 0))
        )
        result = np.where(
            over, np.copysign(np.where(toward_zero, form.largest, np.inf), value), result
        )
    return np.where(finite, result, value)


def encode(value: Array, kind: str, saturate: bool = False) -> Array:
    """float64 that the format holds (or NaN, Inf) to encodings; NaN becomes the canonical one."""
    form = FORMATS[kind]
    nan = np.isnan(value)
    if saturate or not form.infinite:
        value = np.clip(value, -form.largest, form.largest)
    if kind == "f64":
        raw = (
            value.view(np.uint64)
            if value.dtype == np.float64
            else value.astype(np.float64).view(np.uint64)
        )
    elif kind in ("f32", "tf32"):
        raw = value.astype(np.float32).view(np.uint32)
    elif kind == "f16":
        raw = value.astype(np.float16).view(np.uint16)
    elif kind == "bf16":
        raw = (value.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        raw = _encode8(value, form)
    return np.where(nan, uint(form.bits).type(form.nan), raw)


def _encode8(value: Array, form: Format) -> Array:
    magnitude = np.abs(np.where(np.isnan(value), 0.0, value))
    infinite = np.isinf(magnitude)
    magnitude = np.where(infinite, 0.0, magnitude)
    _, exponent = np.frexp(magnitude)
    field = np.where(magnitude > 0, np.maximum(exponent - form.emin, 0), 0)
    step = np.ldexp(1.0, np.maximum(field, 1) - 1 + form.emin - (form.precision - 1))
    units = np.rint(magnitude / step).astype(np.int64)
    raw = np.where(field > 0, units + (field - 1) * 2 ** (form.precision - 1), units)
    raw = np.where(infinite, 0x7C, raw)
    return (raw | np.where(np.signbit(value), 128, 0)).astype(np.uint8)


def flush(value: Array, kind: str = "f32") -> Array:
    """Subnormals of the format to zero of the same sign (.ftz)."""
    tiny = np.abs(value) < 2.0 ** FORMATS[kind].emin
    return np.where(tiny, np.copysign(0.0, value), value)


def _odd(value: Array, error: Array) -> Array:
    """value + error, |error| below half an ulp of value, rounded to odd."""
    raw = value.view(np.int64)
    lost = (error != 0) & np.isfinite(value) & (raw & 1 == 0)
    away = (error > 0) == (value > 0)
    return np.where(lost, raw + np.where(away, 1, -1), raw).view(np.float64)


def add_odd(a: Array, b: Array) -> Array:
    """a + b rounded to odd; Knuth's two-sum gives the error."""
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    return _odd(np.ascontiguousarray(total), np.where(np.isfinite(total), error, 0.0))


def fma_odd(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded to odd, where a and b have at most 26 significant bits: their product is exact."""
    return add_odd(a * b, c)


def div_odd(a: Array, b: Array) -> Array:
    """a / b of narrow operands: float64's quotient is exact or far from every narrow number, so nothing is lost."""
    return a / b


_libm = ctypes.CDLL(ctypes.util.find_library("m"))
_libm.fma.restype = ctypes.c_double
_libm.fma.argtypes = [ctypes.c_double] * 3


def _split(a: Array) -> tuple[Array, Array]:
    """Veltkamp's halves of 26 bits each."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """float64 fma: the algorithm of the paper above, and the C library's fma where exponents are extreme."""
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    part, part_error = _two_sum(c, rest)
    total, total_error = _two_sum(product, part)
    result = np.where((a == 0) | (b == 0), product + c, total + add_odd(part_error, total_error))
    with np.errstate(all="ignore"):
        size = np.abs(np.stack([a, b, c, product]))
    tame = ((size > 2.0**-400) & (size < 2.0**400) | (size == 0)).all(0)
    tame &= (product != 0) | (a == 0) | (b == 0)
    for at in np.flatnonzero(~tame):
        result[at] = _libm.fma(float(a[at]), float(b[at]), float(c[at]))
    return result


def int_odd(value: Array) -> Array:
    """64-bit integers to float64, rounded to odd."""
    if value.dtype.itemsize < 8:
        return value.astype(np.float64)
    high = (value >> value.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return add_odd(high, low)


def to_integer(value: Array, bits: int, signed: bool, mode: str, wide: bool) -> Array:
    """float64 to an integer, saturating; NaN is 0, or 2^(bits-1) from float64 or to 64 bits (PTX ISA, cvt)."""
    with np.errstate(invalid="ignore"):
        whole = _ROUND[{"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}[mode]](value)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        dtype = np.dtype(np.int64 if signed else np.uint64)
        inside = (whole >= low) & (whole < float(high) + 1)
        result = np.where(inside, whole, 0).astype(dtype)
    result = np.where(~inside & (value > 0), dtype.type(high), result)
    result = np.where(~inside & (value < 0), dtype.type(low), result)
    lost = dtype.type(-(2**63) if signed else 2**63) if bits == 64 else dtype.type(0)
    if wide and bits < 64:
        lost = dtype.type(-(2 ** (bits - 1)) if signed else 2 ** (bits - 1))
    return np.where(np.isnan(value), lost, result)
