"""The float64 meaning of each function and reduction on NumPy arrays, and rounding to each type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilegen.formula.functions import SELU_ALPHA, SELU_SCALE
from tilegen.values import TF32, DType

Array = np.ndarray


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    each = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(each(x), dtype=np.float64)


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _clamp(x: Array, low: Array, high: Array) -> Array:
    above = np.where(x < low, low, x)
    return np.where(above > high, high, above)


def _gelu_tanh(x: Array) -> Array:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return x * _sigmoid(2.0 * inner)


def _elu(x: Array, alpha: Array) -> Array:
    return np.where(x < 0, alpha * np.expm1(x), x)


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


MEANINGS: dict[str, Callable[..., Array]] = {
    "min": np.minimum,
    "max": np.maximum,
    "clamp": _clamp,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": erf,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.where(x < 0, np.zeros_like(x), x),
    "leaky_relu": lambda x, slope: np.where(x < 0, slope * x, x),
    "elu": _elu,
    "selu": lambda x: SELU_SCALE * _elu(x, np.float64(SELU_ALPHA)),
    "gelu": lambda x: 0.5 * x * erfc(x * -math.sqrt(0.5)),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * _sigmoid(x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "softplus": _softplus,
    "hardtanh": _clamp,
    "hardswish": lambda x: x * _clamp(x + 3.0, 0.0, 6.0) / 6.0,
    "hardsigmoid": lambda x: _clamp(x + 3.0, 0.0, 6.0) / 6.0,
    "softcap": lambda s, cap: cap * np.tanh(s / cap),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
}
"""Function name to its meaning; float arguments are float64, integers keep their type."""


def reduce(op: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Reduce `x` over `axes`, keeping them with size 1; the values over nothing are the documented ones.

    argmax and argmin give the position in the order of `axes`, as int64.
    """
    match op:
        case "sum":
            return np.sum(x, axis=axes, keepdims=True)
        case "prod":
            return np.prod(x, axis=axes, keepdims=True)
        case "mean":
            size = math.prod(x.shape[axis] for axis in axes)
            return np.sum(x, axis=axes, keepdims=True) / np.float64(size)
        case "max":
            return np.max(x, axis=axes, keepdims=True, initial=_lowest(x.dtype))
        case "min":
            return np.min(x, axis=axes, keepdims=True, initial=_highest(x.dtype))
        case "any":
            return np.any(x, axis=axes, keepdims=True)
        case "all":
            return np.all(x, axis=axes, keepdims=True)
        case "logsumexp":
            top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
            shift = np.where(np.isfinite(top), top, 0.0)
            return np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
        case "argmax" | "argmin":
            return _position(np.argmax if op == "argmax" else np.argmin, x, axes)
    raise AssertionError(f"no meaning for {op}")


def _position(find: Callable[..., Array], x: Array, axes: tuple[int, ...]) -> Array:
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [1 if axis in axes else x.shape[axis] for axis in range(x.ndim)]
    flat = x.transpose([*kept, *axes]).reshape([*(x.shape[k] for k in kept), -1])
    if flat.shape[-1] == 0:
        return np.zeros(shape, np.int64)
    return find(flat, axis=-1).reshape(shape).astype(np.int64)


def _lowest(kind: np.dtype) -> float | int:
    return -np.inf if kind.kind == "f" else np.iinfo(kind).min


def _highest(kind: np.dtype) -> float | int:
    return np.inf if kind.kind == "f" else np.iinfo(kind).max


def round_to(x: Array, kind: DType) -> Array:
    """`x` rounded to the values of `kind`, in the type that it is computed in (float64 or an integer).

    Floats round to nearest even and overflow as IEEE does (to NaN for e4m3, which has no infinity);
    to an integer, a float is rounded to nearest even first, NaN becomes 0, and what is out of range
    becomes the nearest value in range.
    """
    if kind.kind == "bool":
        return x != 0
    if kind.is_float:
        if kind == TF32:
            return round_tf32(x)
        return x.astype(np.float64).astype(kind.numpy).astype(np.float64)
    limits = np.iinfo(kind.numpy)
    if x.dtype.kind != "f":
        wide = x.astype(np.int64)
        return np.clip(wide, limits.min, limits.max).astype(kind.numpy)
    whole = np.nan_to_num(np.rint(x), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = np.clip(whole, float(limits.min), float(limits.max))
    high = inside >= float(limits.max)
    return np.where(high, limits.max, np.where(high, 0, inside).astype(np.int64)).astype(kind.numpy)


def round_tf32(x: Array) -> Array:
    """`x` to the 10 fraction bits of tf32, nearest even; NaN and infinities unchanged. float64."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & ~np.uint32(
        0x1FFF
    )
    return np.where(np.isfinite(x), rounded.view(np.float32), x).astype(np.float64)
