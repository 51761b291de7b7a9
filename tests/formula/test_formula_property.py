"""Random formulas: the compiled C agrees with the float64 meaning within the stated bound."""

from __future__ import annotations

import re

import numpy as np
import pytest
from compiled import agree, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilegen import formula as fl
from tilegen.values import BF16, E4M3, F16, F32, F64, I8

SIZES = {"m": 3, "n": 5}
FLOAT_LEAVES = ["acc", "bias[n]", "scale[m]", "r[m,n]", "alpha", "h", "0.044715", "2", "-1.5", "0"]
INT_LEAVES = ["m", "n", "3", "7", "-2", "q[m,n]", "98"]
UNARY = [
    *(
        "exp tanh sin cos erf sigmoid relu elu selu gelu gelu_tanh silu mish softplus abs round floor"
    ).split(),
    *(
        "ceil trunc leaky_relu hardtanh hardswish hardsigmoid log1p exp2 f16 bf16 f32 tf32 i32 i8"
    ).split(),
]


SHAPES = [
    "({f} + {f})",
    "({f} - {f})",
    "({f} * {f})",
    "({f} / {f})",
    "-{f}",
    "{unary}({f})",
    "{unary}({f})",
    "min({f}, {f})",
    "max({f}, {f})",
    "clamp({f}, -1, {f})",
    "({f})**2",
    "({f})**3",
    "({f})**4",
    "sqrt(abs({f}))",
    "log(abs({f}) + 0.5)",
    "where({f} {compare} {f}, {f}, {f})",
    "({f} if {f} < {f} and not n == 2 else {f})",
    "({f} + ({i}) // {divisor})",
    "({f} * (({i}) % {divisor}))",
]
INT_SHAPES = ["({i} + {i})", "({i} - {i})", "({i} * {i})", "({i} // {i})", "({i} % {i})"]
INT_SHAPES += ["min({i}, {i} + 0)", "max({i}, 0 + {i})", "abs({i})", "-{i}"]
WORDS = {
    "unary": UNARY,
    "compare": ["<", "<=", ">", ">=", "==", "!="],
    "divisor": ["3", "-2", "98", "m", "n"],
}


@st.composite
def expressions(draw, depth: int = 4) -> str:
    """The text of a random float expression."""
    return _grow(draw, "{f}", draw(st.integers(0, depth)))


def _grow(draw, shape: str, depth: int) -> str:
    parts = re.split(r"{(\w+)}", shape)
    for place in range(1, len(parts), 2):
        kind = parts[place]
        if kind in WORDS:
            parts[place] = draw(st.sampled_from(WORDS[kind]))
        elif depth <= 0 or draw(st.integers(0, 3)) == 0:
            parts[place] = draw(st.sampled_from(FLOAT_LEAVES if kind == "f" else INT_LEAVES))
        else:
            inner = draw(st.sampled_from(SHAPES if kind == "f" else INT_SHAPES))
            parts[place] = _grow(draw, inner, depth - 1)
    return "".join(parts)


def environment(kind, rng: np.random.Generator) -> dict:
    return {
        "acc": rng.normal(size=(3, 5)).astype(kind.numpy),
        "bias": rng.normal(size=5).astype(F16.numpy),
        "scale": rng.normal(size=3).astype(BF16.numpy),
        "r": rng.normal(size=(3, 5)).astype(E4M3.numpy),
        "q": rng.integers(-9, 9, size=(3, 5)).astype(I8.numpy),
        "alpha": 0.7,
    }


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formulas")


def check(text: str, kind, out, folder, seed: int = 0) -> None:
    typed = fl.bind(
        fl.parse(text),
        indices=("m", "n"),
        specials={"acc": kind},
        operands={"bias": F16, "scale": BF16, "r": E4M3, "q": I8},
        outputs=out,
    )
    env = environment(kind, np.random.default_rng(seed))
    needed = {n: env[n] for n in (*typed.operands, *typed.specials, *typed.scalars)}
    special = {n: (needed[n], 0.0) for n in typed.specials}
    expected = fl.evaluate_with_bound(typed, arrays=env, scalars=env, sizes=SIZES, specials=special)
    got = run(typed, needed, SIZES, folder)
    for name, (value, bound) in expected.items():
        assert agree(got[name], value, bound), (text, got[name], value, bound)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    first=expressions(),
    second=expressions(),
    kind=st.sampled_from([F32, F32, F64]),
    out=st.sampled_from([None, F16, BF16]),
)
def test_compiled_formula_agrees_with_its_meaning(folder, first, second, kind, out):
    first = re.sub(r"\bh\b", "acc", first)
    check(f"h = {first}; h + {second}", kind, out, folder)


@settings(max_examples=200, deadline=None)
@given(text=expressions())
def test_canonical_text_parses_to_the_same_formula(text):
    formula = fl.parse(text)
    assert fl.parse(formula.text) == formula
    assert fl.parse(formula.text).text == formula.text
