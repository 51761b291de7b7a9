"""Input arrays by name: edge values crossed with each other, then random ones. 1024 elements each."""

from __future__ import annotations

import zlib

import ml_dtypes
import numpy as np

from vectors.model import SAMPLES

_INTEGERS = (0, 1, 2, 3, 31, 32, 33, 64, 0x7F, 0x80, 0xFFFF, 0x10000, -1, -2)
_FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    -2.5,
    2.0**-126,
    2.0**-149,
    -(2.0**-140),
    65504.0,
    65520.0,
)
_FLOATS += (448.0, 464.0, -57344.0, 3.4028234663852886e38, np.inf, -np.inf, np.nan, 1.0 + 2.0**-23)
_HALVES = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 2.0**-14, 2.0**-24, -(2.0**-20), 65504.0, 1024.5)
_HALVES += (np.inf, -np.inf, np.nan, 448.0)


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _crossed(edges: np.ndarray, random: np.ndarray, slot: str) -> np.ndarray:
    """Slot a varies slowest and b fastest over all pairs of edges; what is left is random."""
    n = len(edges)
    index = np.arange(min(SAMPLES, n * n))
    pick = {"a": index // n, "b": index % n, "c": (index * 7 + 3) % n}[slot]
    result = random.copy()
    result[: len(index)] = edges[pick % n]
    return result


def _integer(name: str, bits: int, slot: str) -> np.ndarray:
    dtype = np.dtype(f"u{bits // 8}")
    edges = [value & (2**bits - 1) for value in _INTEGERS]
    edges += [2 ** (bits - 1), 2 ** (bits - 1) - 1, 2 ** (bits - 1) + 1]
    random = _rng(name).integers(0, 2**bits, SAMPLES, dtype=dtype, endpoint=False)
    return _crossed(np.array(edges, dtype), random, slot)


def _floating(name: str, dtype: np.dtype, edges: tuple[float, ...], slot: str) -> np.ndarray:
    rng = _rng(name)
    reach = {2: 6, 4: 60, 8: 300}[dtype.itemsize] * (8 if dtype == ml_dtypes.bfloat16 else 1)
    values = rng.standard_normal(SAMPLES) * 2.0 ** (rng.integers(-reach // 2, reach // 2, SAMPLES))
    values[SAMPLES // 2 :] = rng.standard_normal(SAMPLES // 2)
    with np.errstate(over="ignore"):
        return _crossed(np.array(edges).astype(dtype), values.astype(dtype), slot)


def _divisor(name: str) -> np.ndarray:
    """Integers that divide: never zero, never -1 (INT_MIN / -1 has no result)."""
    bits = 64 if "64" in name else 32
    values = _integer(name, bits, "b")
    values[values == 0] = 7
    values[values == 2**bits - 1] = 5
    return values


def pool(name: str) -> np.ndarray:
    """The array of that name. Scalar pools are `kind.slot`; others are images of memory, named by their makers."""
    kind, _, slot = name.partition(".")
    if kind in ("i16", "i32", "i64"):
        return _divisor(name) if slot == "div" else _integer(name, int(kind[1:]), slot)
    if kind == "shift":
        return _rng(name).integers(0, 70, SAMPLES).astype(np.uint32)
    if kind == "f32":
        return _floating(name, np.dtype(np.float32), _FLOATS, slot)
    if kind == "f64":
        return _floating(name, np.dtype(np.float64), _FLOATS + (2.0**-1074, 1e308), slot)
    if kind == "f16":
        return _floating(name, np.dtype(np.float16), _HALVES, slot)
    if kind == "bf16":
        return _floating(name, np.dtype(ml_dtypes.bfloat16), _HALVES, slot)
    if kind in ("f16x2", "bf16x2"):
        low = pool(f"{kind[:-2]}.{slot}")
        return np.stack([low, low[::-1]], axis=1).copy().view(np.uint32).reshape(-1)
    if kind == "small":  # |x| <= 8: where sine and cosine are bounded
        return _rng(name).uniform(-8, 8, SAMPLES).astype(np.float32)
    if kind == "positive":
        rng = _rng(name)
        return (rng.uniform(0.5, 2, SAMPLES) * 2.0 ** rng.integers(-40, 40, SAMPLES)).astype(
            np.float32
        )
    if kind == "bytes":
        return _rng(name).integers(0, 256, int(slot), dtype=np.uint8)
    if kind == "count":  # 0, 1, 2, ... as 16-bit words, so that a misplaced word is seen
        return np.arange(int(slot) // 2, dtype=np.uint16)
    if kind == "random":  # random.f32.SIZE: normal values
        dtype, _, size = slot.partition(".")
        values = _rng(name).standard_normal(int(size) // _DTYPES[dtype].itemsize)
        return values.astype(_DTYPES[dtype])
    if kind == "exact":  # exact.bf16.SIZE: integers whose sums of products are exact
        dtype, _, size = slot.partition(".")
        count = int(size) // _DTYPES[dtype].itemsize
        low = 0 if dtype == "u8" else -4
        return _rng(name).integers(low, 5, count).astype(_DTYPES[dtype])
    raise KeyError(name)


_DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s32": np.dtype(np.int32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
