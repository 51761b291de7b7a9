"""Floating-point instructions (PTX ISA 9.7.3 to 9.7.5, 9.7.9.21): computed in float64, rounded once.

Approximations are the correctly rounded result here; hardware's differ from it by the bounds in the ISA's tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.operands import Operands, bits_of, resized, signed
from tilegen.simulate.numpy_backend.rounding import (
    FORMATS,
    add_odd,
    div_odd,
    encode,
    flush,
    fma64,
    fma_odd,
    int_odd,
    round_to,
    to_integer,
    uint,
)
from tilegen.simulate.ptx import Instruction

Array = np.ndarray
Step = Callable[[Array | None], None]

_MODES = ("rn", "rz", "rm", "rp", "rna")
_QUIET_NANS = {
    ("f32", "f64"): 0x7FC00000,
    ("f32", "bf16"): 0x7FC00000,
    ("f16", "f64"): 0x7E00,
    ("tf32", "f32"): 0x7FC00000,
}
_ORDERED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare(test: str, a: Array, b: Array, ftz: bool, kind: str) -> Array:
    """Ordered tests are false on NaN, unordered ones true."""
    if ftz:
        a, b = flush(a, kind.removesuffix("x2")), flush(b, kind.removesuffix("x2"))
    nan = np.isnan(a) | np.isnan(b)
    if test in ("num", "nan"):
        return nan if test == "nan" else ~nan
    if test in ("equ", "neu", "ltu", "leu", "gtu", "geu"):
        return _ORDERED[test[:-1]](a, b) | nan
    return _ORDERED[test](a, b) & ~nan


def _smaller(a: Array, b: Array, largest: bool, nan: bool) -> Array:
    """min and max: a NaN operand loses unless .NaN; -0 is less than +0."""
    take_a = (a > b) if largest else (a < b)
    equal = a == b
    sign = ~np.signbit(a) if largest else np.signbit(a)
    result = np.where(take_a | (equal & sign), a, b)
    result = np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))
    return np.where(np.isnan(a) | np.isnan(b), np.nan, result) if nan else result


def _function(name: str, base: str, mods: list[str]) -> Callable[..., Array]:
    """The exact (or rounded-to-odd) result in float64."""
    if name == "add":
        return np.add if base == "f64" else add_odd
    if name == "sub":
        return np.subtract if base == "f64" else lambda a, b: add_odd(a, -b)
    if name == "mul":
        return np.multiply
    if name in ("fma", "mad"):
        return fma64 if base == "f64" else fma_odd
    if name == "div":
        return div_odd
    if name in ("min", "max"):
        if "xorsign" in mods:

            def magnitude(a: Array, b: Array) -> Array:
                chosen = _smaller(np.abs(a), np.abs(b), name == "max", "NaN" in mods)
                negative = np.signbit(a) ^ np.signbit(b)
                return np.where(negative, -chosen, chosen)

            return magnitude
        return lambda a, b: _smaller(a, b, name == "max", "NaN" in mods)
    return {
        "rcp": lambda a: 1.0 / a,
        "sqrt": np.sqrt,
        "rsqrt": lambda a: 1.0 / np.sqrt(a),
        "ex2": np.exp2,
        "lg2": np.log2,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
    }[name]


def _negative_zero(name: str, values: list[Array], result: Array) -> Array:
    """Rounded down, a sum of zero is -0 unless both addends are +0."""
    if name == "fma":
        first, second = values[0] * values[1], values[2]
    else:
        first, second = values[0], values[1] if name == "add" else -values[1]
    positive = (first == 0) & (second == 0) & ~np.signbit(first) & ~np.signbit(second)
    return np.where((result == 0) & ~positive, -0.0, result)


def real_step(instruction: Instruction, operands: Operands) -> Step:
    """The step of a floating-point instruction."""
    words = instruction.opcode.split(".")
    name, mods, kind = words[0], words[1:-1], words[-1]
    base = kind.removesuffix("x2")
    if name in ("abs", "neg", "copysign", "testp"):
        return _sign_step(instruction, operands, name, mods, kind)
    mode = next((m for m in mods if m in _MODES), "rn")
    # The packed and bf16 forms of ex2 flush as they say; f32 approximations flush with .ftz.
    ftz, sat, relu = "ftz" in mods, "sat" in mods, "relu" in mods
    known = {
        "rn",
        "rz",
        "rm",
        "rp",
        "ftz",
        "sat",
        "relu",
        "approx",
        "full",
        "NaN",
        "xorsign",
        "abs",
    }
    if not set(mods) <= known:
        raise SimulationError(f"NumPy backend: {instruction.opcode} is not modelled")
    function = _function(name, base, mods)
    target = instruction.operands[0]
    reads = [operands.real(op, kind) for op in instruction.operands[1:]]

    def step(mask: Array | None) -> None:
        with np.errstate(all="ignore"):
            values = [read() for read in reads]
            if ftz:
                values = [flush(v, base) for v in values]
            result = round_to(function(*values), base, mode)
            if mode == "rm" and name in ("add", "sub", "fma"):
                result = _negative_zero(name, values, result)
            if ftz:
                result = flush(result, base)
            if sat:
                result = np.where(np.isnan(result), 0.0, np.clip(result, 0.0, 1.0)) + 0.0
            if relu:
                result = np.where(result <= 0, 0.0, result)
            if base == "f64":
                # A NaN that no operand brings is negative in float64, and in float64 alone.
                made = np.isnan(result) & ~np.any([np.isnan(v) for v in values], axis=0)
                raw = np.where(made, np.uint64(0xFFF8 << 48), encode(result, base))
                operands.write(target, raw, mask)
            else:
                operands.write_real(target, result, kind, mask)

    return step


def _sign_step(
    instruction: Instruction, operands: Operands, name: str, mods: list[str], kind: str
) -> Step:
    """abs, neg and copysign change one bit (of a number); testp asks for a class."""
    target, *sources = instruction.operands
    base = kind.removesuffix("x2")
    reads = [operands.real(op, kind) for op in sources]
    if name == "testp":
        least = 2.0 ** FORMATS[base].emin

        def tested(mask: Array | None) -> None:
            a = reads[0]()
            answer = {
                "finite": np.isfinite(a),
                "infinite": np.isinf(a),
                "number": ~np.isnan(a),
                "notanumber": np.isnan(a),
                "normal": np.isfinite(a) & ((np.abs(a) >= least) | (a == 0)),
                "subnormal": (np.abs(a) < least) & (a != 0),
            }[mods[0]]
            operands.write(target, answer, mask)

        return tested
    if name == "copysign":
        bits = bits_of(kind)
        top = uint(bits).type(1 << (bits - 1))
        raw = [operands.raw(op, bits) for op in sources]

        def copied(mask: Array | None) -> None:
            operands.write(target, (raw[0]() & top) | (raw[1]() & ~top), mask)

        return copied

    def step(mask: Array | None) -> None:
        value = reads[0]()
        if "ftz" in mods:
            value = flush(value, base)
        operands.write_real(target, np.abs(value) if name == "abs" else -value, kind, mask)

    return step


def convert_step(instruction: Instruction, operands: Operands) -> Step:
    """cvt with a floating-point side."""
    words = instruction.opcode.split(".")
    mods, target_kind, source_kind = words[1:-2], words[-2], words[-1]
    target, *sources = instruction.operands
    ftz, sat, relu = "ftz" in mods, "sat" in mods, "relu" in mods
    mode = next((m for m in mods if m in _MODES), "rn")
    if source_kind[0] in "su":
        return _from_integer(instruction, operands, target_kind, source_kind, mode)
    if target_kind[0] in "su":
        return _to_integer(operands, target, sources[0], target_kind, source_kind, mods)
    base, source_base = target_kind.removesuffix("x2"), source_kind.removesuffix("x2")
    # These keep the NaN's upper payload bits instead of the canonical NaN (as an H200 does).
    quiet_nan = _QUIET_NANS.get((base, source_base))
    if base == "tf32" and mode != "rna":
        quiet_nan = None
    whole = next((m for m in mods if m in ("rni", "rzi", "rmi", "rpi")), None)
    if target_kind.endswith("x2") and not source_kind.endswith("x2"):
        # the first source goes to the upper half
        reads = [operands.real(op, source_kind) for op in reversed(sources)]

        def read() -> Array:
            return np.stack([each() for each in reads], -1)

    else:
        read = operands.real(sources[0], source_kind)

    def step(mask: Array | None) -> None:
        with np.errstate(all="ignore"):
            value = read()
            if ftz:
                value = flush(value, source_base)
            if whole:
                rounding = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[whole]
                value = np.copysign(rounding(value), value)
            result = round_to(value, base, mode)
            if ftz and base == "f32":
                result = flush(result, base)
            if sat:
                result = np.where(np.isnan(result), 0.0, np.clip(result, 0.0, 1.0)) + 0.0
            if relu:
                result = np.where(result <= 0, 0.0, result)
            raw = encode(result, base, "satfinite" in mods)
            if quiet_nan is not None:
                raw = np.where(np.isnan(value), raw.dtype.type(quiet_nan), raw)
            if target_kind.endswith("x2"):
                raw = np.ascontiguousarray(raw).view(uint(bits_of(target_kind))).reshape(-1)
            operands.write(target, raw, mask)

    return step


def _from_integer(
    instruction: Instruction, operands: Operands, target_kind: str, source_kind: str, mode: str
) -> Step:
    target, source = instruction.operands
    read = operands.raw(source, bits_of(source_kind))

    def step(mask: Array | None) -> None:
        raw = read()
        exact = int_odd(signed(raw) if source_kind[0] == "s" else raw)
        if target_kind == "f64" and raw.dtype.itemsize == 8:
            exact = (signed(raw) if source_kind[0] == "s" else raw).astype(np.float64)
        with np.errstate(over="ignore"):
            operands.write_real(target, round_to(exact, target_kind, mode), target_kind, mask)

    return step


def _to_integer(
    operands: Operands, target, source, target_kind: str, source_kind: str, mods: list[str]
) -> Step:
    bits, is_signed = bits_of(target_kind), target_kind[0] == "s"
    mode = next(m for m in mods if m in ("rni", "rzi", "rmi", "rpi"))
    read = operands.real(source, source_kind)

    def step(mask: Array | None) -> None:
        value = read()
        if "ftz" in mods:
            value = flush(value, source_kind)
        result = to_integer(value, bits, is_signed, mode, source_kind == "f64")
        operands.write(target, resized(result.view(np.uint64), bits), mask, is_signed)

    return step
