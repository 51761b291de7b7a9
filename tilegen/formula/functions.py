"""The functions, reductions, casts and constants of the formula language, in one table each."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the language.

    Attributes:
        low, high: the fewest and most arguments.
        kind: `float` (arguments become the compute type), `same` (arguments are promoted together and
            integers stay integers), `rounding` (a float function that leaves integers alone).
        defaults: values of the trailing arguments that may be left out.
        meaning: one line for the reference and for messages.
    """

    name: str
    low: int
    high: int
    kind: str
    meaning: str
    defaults: tuple[float, ...] = ()

    @property
    def signature(self) -> str:
        """How a call looks, for messages and the reference: `elu(x, alpha=1.0)`."""
        tail = SIGNATURES.get(self.name, "x")
        return f"{self.name}({tail})"


SIGNATURES = {
    "where": "c, a, b",
    "min": "a, b, ...",
    "max": "a, b, ...",
    "clamp": "x, low, high",
    "leaky_relu": "x, slope=0.01",
    "elu": "x, alpha=1.0",
    "hardtanh": "x, low=-1.0, high=1.0",
    "softcap": "s, cap",
}
MANY = 99


def _table(*rows: Function) -> dict[str, Function]:
    return {row.name: row for row in rows}


FUNCTIONS: dict[str, Function] = _table(
    Function("where", 3, 3, "same", "a where c holds, else b; only the chosen branch is evaluated"),
    Function("min", 2, MANY, "same", "the smallest argument; NaN if any argument is NaN"),
    Function("max", 2, MANY, "same", "the largest argument; NaN if any argument is NaN"),
    Function(
        "clamp", 3, 3, "same", "x limited to [low, high]; NaN stays NaN, a NaN limit limits nothing"
    ),
    Function("abs", 1, 1, "same", "absolute value"),
    Function("exp", 1, 1, "float", "e to the power x"),
    Function("exp2", 1, 1, "float", "2 to the power x"),
    Function("log", 1, 1, "float", "natural logarithm"),
    Function("log1p", 1, 1, "float", "log(1 + x), accurate near 0"),
    Function("sqrt", 1, 1, "float", "square root"),
    Function("rsqrt", 1, 1, "float", "1 / sqrt(x)"),
    Function("tanh", 1, 1, "float", "hyperbolic tangent"),
    Function("sin", 1, 1, "float", "sine, x in radians"),
    Function("cos", 1, 1, "float", "cosine, x in radians"),
    Function("erf", 1, 1, "float", "error function"),
    Function("sigmoid", 1, 1, "float", "1 / (1 + exp(-x))"),
    Function("relu", 1, 1, "same", "0 where x < 0, else x: NaN stays NaN, -0.0 stays -0.0"),
    Function("leaky_relu", 1, 2, "float", "slope * x where x < 0, else x", (0.01,)),
    Function("elu", 1, 2, "float", "alpha * (exp(x) - 1) where x < 0, else x", (1.0,)),
    Function("selu", 1, 1, "float", "scaled elu with the constants of the SELU paper"),
    Function("gelu", 1, 1, "float", "x * Phi(x) with the exact erf"),
    Function("gelu_tanh", 1, 1, "float", "the tanh approximation of gelu"),
    Function("silu", 1, 1, "float", "x * sigmoid(x)"),
    Function("mish", 1, 1, "float", "x * tanh(softplus(x))"),
    Function("softplus", 1, 1, "float", "log(1 + exp(x))"),
    Function("hardtanh", 1, 3, "float", "clamp(x, low, high)", (-1.0, 1.0)),
    Function("hardswish", 1, 1, "float", "x * clamp(x + 3, 0, 6) / 6"),
    Function("hardsigmoid", 1, 1, "float", "clamp(x + 3, 0, 6) / 6"),
    Function("softcap", 2, 2, "float", "cap * tanh(s / cap)"),
    Function("floor", 1, 1, "rounding", "largest whole number not above x"),
    Function("ceil", 1, 1, "rounding", "smallest whole number not below x"),
    Function("round", 1, 1, "rounding", "nearest whole number, ties to even"),
    Function("trunc", 1, 1, "rounding", "x without its fraction"),
    Function("isnan", 1, 1, "float", "true for NaN"),
)

REDUCTIONS: dict[str, str] = {
    "sum": "sum of the elements; 0 over an empty index",
    "mean": "sum divided by the size; NaN over an empty index",
    "max": "largest element; NaN if any is NaN; -inf over an empty index",
    "min": "smallest element; NaN if any is NaN; inf over an empty index",
    "prod": "product of the elements; 1 over an empty index",
    "argmax": "position of the first largest element; of the first NaN if there is one",
    "argmin": "position of the first smallest element; of the first NaN if there is one",
    "logsumexp": "log(sum(exp(x))) without overflow; -inf over an empty index",
    "any": "true if a condition holds somewhere",
    "all": "true if a condition holds everywhere",
}

CASTS: tuple[str, ...] = (
    "f64",
    "f32",
    "tf32",
    "f16",
    "bf16",
    "e4m3",
    "e5m2",
    "i64",
    "i32",
    "i8",
    "u8",
)

CONSTANTS: dict[str, float] = {"inf": math.inf, "nan": math.nan, "pi": math.pi}

# What to write for a function of NumPy or PyTorch that the language lacks.
FOREIGN: dict[str, str] = {
    "amax": "max(e, n)",
    "amin": "min(e, n)",
    "average": "mean(e, n)",
    "clip": "clamp(x, low, high)",
    "cosh": "(exp(x) + exp(-x)) / 2",
    "dot": "sum(a[m,n] * b[m,n], n)",
    "fabs": "abs(x)",
    "isfinite": "abs(x) < inf",
    "isinf": "abs(x) == inf",
    "log10": "log(x) * 0.4342944819032518",
    "log2": "log(x) * 1.4426950408889634",
    "log_softmax": "x[m,n] - logsumexp(x[m,n], n)",
    "maximum": "max(a, b)",
    "minimum": "min(a, b)",
    "norm": "sqrt(sum(x[m,n] * x[m,n], n))",
    "pow": "x ** y",
    "reciprocal": "1 / x",
    "relu6": "clamp(x, 0, 6)",
    "sign": "where(x > 0, 1, where(x < 0, -1, x))",
    "sinh": "(exp(x) - exp(-x)) / 2",
    "softmax": "h = exp(x[m,n] - max(x[m,n], n)); y[m,n] = h / sum(h, n)",
    "square": "x * x",
    "std": "d = x[m,n] - mean(x[m,n], n); y[m] = sqrt(mean(d * d, n))",
    "swish": "silu(x)",
    "tan": "sin(x) / cos(x)",
    "var": "d = x[m,n] - mean(x[m,n], n); y[m] = mean(d * d, n)",
}

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805

RESERVED: frozenset[str] = frozenset(
    {*FUNCTIONS, *REDUCTIONS, *CASTS, *CONSTANTS, "float", "and", "or", "not", "if", "else"}
)
"""Names that a formula may not give to an operand, a scalar or an intermediate."""
