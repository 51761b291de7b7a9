"""Helper functions of printed formulas: which there are, their text, and what each needs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jinja2 import nodes

from tilegen.emit.c_expr.dialects import TAILS, Dialect, dialect
from tilegen.emit.c_expr.literals import literal
from tilegen.emit.environment import environment
from tilegen.formula.functions import SELU_ALPHA, SELU_SCALE
from tilegen.values import F32, F64, I32, I64, DType

ARITHMETIC = "common/arithmetic.h.j2"
ACTIVATIONS = "common/activations.h.j2"
PARTS = {
    "c": (
        "c_openmp/parts/math.h.j2",
        "c_openmp/parts/exponential.h.j2",
        "c_openmp/parts/activations.h.j2",
        "c_openmp/parts/convert.h.j2",
    ),
    "cuda": ("cuda/parts/math.cuh.j2",),
}
# Helpers that a 16-bit result does not need in full precision have a shorter text there.
SHORT = "cuda/parts/short_math.cuh.j2"

_WORD = re.compile(r"[A-Za-z_]\w*")
_MATH = re.compile(
    r"\b(fabsf?|copysignf|sqrtf?|exp2?|expm1|log|log1p|tanh|sinf?|cosf?|erf|powf?|rint|floor|ceil|trunc"
    r"|isnan|INFINITY|NAN)\b"
)


@dataclass(frozen=True)
class Names:
    """What `common/activations.h.j2` needs to know of a dialect and a type."""

    inline: str
    type: str
    tail: str
    end: str
    exp: str
    exp_negative: str
    expm1: str
    log1p: str
    tanh: str
    erf: str
    abs: str
    sqrt_half: str
    sqrt_two_over_pi: str
    selu_alpha: str
    selu_scale: str


def _names(into: Dialect, kind: DType) -> Names:
    called = ("exp", "exp_negative", "expm1", "log1p", "tanh", "erf", "abs")
    callee = {n: into.function(n, kind) for n in called}
    shortest = float if kind == F64 else lambda v: float(str(np.float32(v)))
    constants = {
        "sqrt_half": np.sqrt(0.5),
        "sqrt_two_over_pi": np.sqrt(2.0 / np.pi),
        "selu_alpha": SELU_ALPHA,
        "selu_scale": SELU_SCALE,
    }
    values = {name: literal(shortest(value), kind) for name, value in constants.items()}
    end = "f" if kind == F32 else ""
    return Names(into.inline, kind.c, TAILS[kind], end, **callee, **values)


@functools.cache
def _macros(part: str) -> tuple[str, ...]:
    """The macros of a part, in the order of its text."""
    source = environment().loader.get_source(environment(), part)[0]
    return tuple(m.name for m in environment().parse(source).find_all(nodes.Macro))


def catalogue(into: str | Dialect) -> dict[str, str]:
    """Every helper function of a dialect: its name and its text, which starts with a comment line."""
    return _catalogue(dialect(into).name)


@functools.cache
def _catalogue(name: str) -> dict[str, str]:
    into = dialect(name)
    found: dict[str, str] = {}
    for part in PARTS[into.name]:
        module = environment().get_template(part).module
        for macro in _macros(part):
            found[macro] = str(getattr(module, macro)()).strip("\n")
    if into.name == "cuda":
        short = environment().get_template(SHORT).module
        found |= {"short_exp": str(short.short_exp()).strip("\n")}
    module = environment().get_template(ARITHMETIC).module
    for macro in _macros(ARITHMETIC):
        for kind in _kinds(macro):
            text = str(getattr(module, macro)(into.inline, kind.c, TAILS[kind])).strip("\n")
            # A dialect's own part comes first: C has a choose of its own for float.
            found.setdefault(_defined(text), text)
    module = environment().get_template(ACTIVATIONS).module
    for macro in _macros(ACTIVATIONS):
        for kind in (F32, F64):
            text = str(getattr(module, macro)(_names(into, kind))).strip("\n")
            found.setdefault(_defined(text), text)
    return found


def _kinds(macro: str) -> tuple[DType, ...]:
    """The types that a macro of the arithmetic part is made for."""
    if macro.startswith("saturate"):
        return (I32,)
    if macro.startswith(("floor_", "magnitude")) or macro.endswith("_integer"):
        return (I32, I64)
    if macro in ("maximum", "minimum"):
        return (F32, F64)
    return (F32, F64, I32, I64)


def _defined(text: str) -> str:
    """The name of the function that a helper's text defines."""
    return re.search(r"(\w+)\(", text.split("\n")[1]).group(1)


def closure(used: Iterable[str], into: str | Dialect) -> tuple[str, ...]:
    """The helpers named in `used` and all that these call, each after what it calls."""
    known = catalogue(into)
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        for word in _WORD.findall(known[name].split("\n", 2)[2]):
            if word in known and word != name:
                add(word)
        ordered[name] = None

    for name in used:
        add(name)
    return tuple(ordered)


def helper_texts(used: Iterable[str], into: str | Dialect) -> tuple[str, ...]:
    """The text of each helper of `closure(used)`, without a final newline, in an order that compiles."""
    known = catalogue(into)
    return tuple(known[name] for name in closure(used, into))


def shortened(texts: Iterable[str]) -> list[str]:
    """Texts of CUDA helpers, those that have a shorter one for 16-bit results replaced by it."""
    short = environment().get_template(SHORT).module
    known = _macros(SHORT)
    found = []
    for text in texts:
        name = _defined(text)
        found.append(str(getattr(short, name)()).strip("\n") if name in known else text)
    return found


def includes_for(texts: Iterable[str], into: str | Dialect) -> tuple[str, ...]:
    """The standard headers, `<math.h>` and the like, that helper texts and printed lines need, sorted."""
    joined = "\n".join(line.split("//")[0] for text in texts for line in text.split("\n"))
    if dialect(into).name == "cuda":
        needs = {
            "<cuda_bf16.h>": r"__nv_bfloat16|__bfloat162float|__float2bfloat16_rn",
            "<cuda_fp16.h>": r"__half\b|__half2float|__float2half_rn",
            "<cuda_fp8.h>": r"__nv_fp8_",
            "<stdint.h>": r"\bu?int\d+_t\b|\bU?INT\d+_",
        }
    else:
        needs = {
            "<math.h>": _MATH.pattern,
            "<stdint.h>": r"\bu?int\d+_t\b|\bU?INT\d+_",
            "<string.h>": r"\bmemcpy\b",
        }
    return tuple(sorted(name for name, pattern in needs.items() if re.search(pattern, joined)))
