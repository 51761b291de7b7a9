"""What differs between emitted C and CUDA C: function names, casts, conversions of storage types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen.values import BOOL, F32, F64, I32, I64, DType

TAILS = {F32: "", F64: "_f64", I32: "_i32", I64: "_i64"}
"""What a helper's name ends with, by the type it works on."""

SHARED = {"min": "minimum", "max": "maximum", "hardtanh": "clamp", "isnan": "isnan"}
"""Functions whose C name differs from the formula's in both dialects."""

EXP_NEGATIVE = "exp_negative"
"""`exp` of what is known to be 0 at most, which C has a shorter function for."""

PLAIN = (
    "exp",
    "exp2",
    "log",
    "log1p",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "erf",
    "floor",
    "ceil",
    "trunc",
)


@dataclass(frozen=True)
class Dialect:
    """One language that formulas are printed in.

    Attributes:
        name: `c` or `cuda`.
        inline: how a helper function is declared.
        f32, f64: C name of each formula function that has one of its own, by type.
        loads: C function from a storage type to float; an empty name is a cast.
        stores: C function from float to a storage type.
        bool_type: the type of a named condition.
        library: functions that the language's own headers declare.
    """

    name: str
    inline: str
    f32: Mapping[str, str]
    f64: Mapping[str, str]
    loads: Mapping[str, str]
    stores: Mapping[str, str]
    bool_type: str
    library: frozenset[str]

    def is_library(self, name: str) -> bool:
        """Whether a called function needs no helper text."""
        return name in self.library

    def function(self, name: str, kind: DType) -> str:
        """The C function for a formula's function on arguments of type `kind`."""
        if kind.is_float:
            own = self.f32 if kind == F32 else self.f64
            if name in own:
                return own[name]
        elif name == "abs":
            return f"magnitude{TAILS[kind]}"
        if name == "isnan":
            return "isnan"
        return SHARED.get(name, name) + TAILS[kind]

    def type(self, kind: DType) -> str:
        """The C type of a local that holds a value of `kind`."""
        return self.bool_type if kind == BOOL else kind.c

    def cast(self, kind: DType, text: str) -> str:
        """A plain conversion; `text` must be a unary expression in C, any expression in CUDA C."""
        name = {F32: "float", F64: "double"}.get(kind, kind.c)
        return f"static_cast<{name}>({text})" if self.name == "cuda" else f"({name}){text}"


C = Dialect(
    name="c",
    inline="static inline",
    f32={n: f"{n}_f32" for n in PLAIN}
    | {"sqrt": "sqrtf", "sin": "sinf", "cos": "cosf", "abs": "fabsf", "round": "round_f32"}
    | {"rsqrt": "rsqrt_f32", "expm1": "expm1_f32", "pow": "powf"}
    | {EXP_NEGATIVE: "exp_negative_f32"},
    f64={n: n for n in PLAIN}
    | {EXP_NEGATIVE: "exp"}
    | {"abs": "fabs", "round": "rint", "rsqrt": "rsqrt_f64", "expm1": "expm1", "pow": "pow"},
    loads={n: f"{n}_to_f32" for n in ("f16", "bf16", "e4m3", "e5m2")},
    stores={n: f"f32_to_{n}" for n in ("f16", "bf16", "e4m3", "e5m2")},
    bool_type="int",
    library=frozenset("sqrtf sinf cosf fabsf powf isnan fabs rint pow expm1".split()) | {*PLAIN},
)

CUDA = Dialect(
    name="cuda",
    inline="__device__ __forceinline__",
    f32={n: f"{n}f" for n in PLAIN}
    | {"abs": "fabsf", "round": "rintf", "rsqrt": "rsqrtf", "expm1": "expm1f", "pow": "powf"}
    | {EXP_NEGATIVE: "expf"},
    f64={n: n for n in PLAIN}
    | {EXP_NEGATIVE: "exp"}
    | {"abs": "fabs", "round": "rint", "rsqrt": "rsqrt", "expm1": "expm1", "pow": "pow"},
    loads={"f16": "__half2float", "bf16": "__bfloat162float", "e4m3": "", "e5m2": ""},
    stores={
        "f16": "__float2half_rn",
        "bf16": "__float2bfloat16_rn",
        "e4m3": "to_e4m3",
        "e5m2": "to_e5m2",
    },
    bool_type="bool",
    library=frozenset("rintf rsqrtf expm1f powf fabsf isnan fabs rint rsqrt pow expm1".split())
    | frozenset("__half2float __bfloat162float __float2half_rn __float2bfloat16_rn".split())
    | {*PLAIN, *(f"{n}f" for n in PLAIN)},
)

CUDA_SHORT = replace(CUDA, f32={**CUDA.f32, "exp": "short_exp", EXP_NEGATIVE: "short_exp"})
"""CUDA C of formulas whose results all have 16 bits or fewer."""

DIALECTS = {"c": C, "c_openmp": C, "cuda": CUDA}
"""Dialects by name and by a target's backend."""


def dialect(name: str | Dialect) -> Dialect:
    """Look a dialect up by its name or by a target's backend; KeyError for none of ours."""
    return name if isinstance(name, Dialect) else DIALECTS[name]
