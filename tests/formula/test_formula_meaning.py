"""What formulas mean: parsing, names, types, evaluation on arrays, error bounds, analysis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen import formula as fl
from tilegen.errors import ArgumentError
from tilegen.values import BF16, F16, F32, F64, I8, I32, I64, TF32

CONTEXT = {"indices": ("m", "n"), "specials": {"acc": F32}}


def bind(text: str, **changes) -> fl.TypedFormula:
    return fl.bind(fl.parse(text), **{**CONTEXT, **changes})


def value(text: str, acc=0.0, **changes):
    """The meaning of a bare formula for one element."""
    typed = bind(text, **changes)
    env = {"acc": np.full((1, 1), acc)} if typed.specials else {}
    return fl.evaluate(typed, env, {"m": 1, "n": 1}, store=False)["out"][0, 0]


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("gelu( acc+bias [n] )", "gelu(acc + bias[n])"),
        ("h=acc;h*2", "h = acc; h * 2"),
        ("h = acc\n\nh * 2\n", "h = acc; h * 2"),
        ("a if acc>0 else b", "where(acc > 0, a, b)"),
        ("0<acc<=1", "0 < acc and acc <= 1"),
        ("not(acc>0)", "not acc > 0"),
        ("max(a,b,c)", "max(max(a, b), c)"),
        ("elu(acc)", "elu(acc)"),
        ("elu(acc,1.0)", "elu(acc)"),
        ("hardtanh(acc,-1,2)", "hardtanh(acc, -1, 2)"),
        ("+acc", "acc"),
        ("(-acc)**2", "(-acc)**2"),
        ("-acc**2", "-acc**2"),
        ("2**-acc", "2**-acc"),
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("a/(b*c)", "a / (b * c)"),
        ("a*(b%c)", "a * (b % c)"),
        ("(a or b) and c", "(a or b) and c"),
        ("float('inf')*float('-inf')*nan*pi", "inf * -inf * nan * 3.141592653589793"),
        ("sum(x[m,n],(m,n))", "sum(x[m,n], (m, n))"),
    ],
)
def test_canonical_text(text, canonical):
    assert fl.parse(text).text == canonical
    assert fl.parse(canonical) == fl.parse(text)


def test_names_of_a_formula():
    formula = fl.parse(
        "h[m,n] = x[m,n] + r[m,n]; s = mean(h * h, n); y[m,n] = h * rsqrt(s + eps) * w[n]"
    )
    assert formula.operands == {"x": ("m", "n"), "r": ("m", "n"), "w": ("n",)}
    assert formula.outputs == {"h": ("m", "n"), "y": ("m", "n")}
    assert formula.scalars == ("eps",)
    assert formula.intermediates == ("s",)
    assert formula.index_names == ("m", "n")
    assert formula.free_indices == (("m", "n"), ("m",), ("m", "n"))
    assert [r.op for r in formula.reductions] == ["mean"]


def test_output_of_rank_zero_and_of_a_bare_expression():
    assert fl.parse("y = sum(x[m,n], (m, n))").outputs == {"y": ()}
    assert fl.parse("acc + 1").outputs == {None: None}
    named = fl.parse("acc + 1").with_output("c", ("m", "n"))
    assert named.outputs == {"c": ("m", "n")} and named.text == "c[m,n] = acc + 1"
    assert named.with_output("d", ("m",)) is named


def test_operand_that_is_updated_in_place():
    formula = fl.parse("c[m,n] = alpha * acc + beta * c[m,n]")
    assert formula.in_out == ("c",)
    assert formula.operands == {"c": ("m", "n")} and formula.outputs == {"c": ("m", "n")}


def test_an_output_that_is_read_later_is_no_operand():
    formula = fl.parse("h[m,n] = x[m,n] * 2; y[m,n] = h[m,n] + h")
    assert formula.operands == {"x": ("m", "n")}
    typed = fl.bind(formula, outputs={"h": F16, "y": F32})
    out = fl.evaluate(typed, {"x": np.array([[1.0004]], np.float32)})
    assert out["y"][0, 0] == np.float32(4 * np.float64(np.float32(1.0004)))


def test_max_of_an_index_is_a_reduction_only_as_the_last_of_two():
    assert fl.parse("max(x[m,n], n)").reductions
    assert not fl.parse("max(n, x[m,n])").reductions
    assert not fl.parse("max(x[m,n], n, 0)").reductions
    assert not fl.parse("max(m, n) + x[m,n]").reductions
    assert not fl.parse("max(acc, k)").reductions


def test_formula_from_a_function():
    @tilegen.formula
    def epilogue(acc, bias, c):
        """The docstring is not part of it."""
        h = acc + bias[n]  # noqa: F821
        return gelu(h) + c[m, n]  # noqa: F821

    assert epilogue.text == "h = acc + bias[n]; gelu(h) + c[m,n]"
    assert isinstance(epilogue, fl.Formula)


def test_types():
    typed = bind("m // 2 + q[n] * 3", operands=I8)
    assert typed.statements[0].value.dtype == I64
    assert bind("m // 2", index_dtype="i32").statements[0].value.dtype == I32
    assert bind("m / 2").statements[0].value.dtype == F32
    assert bind("acc * m").compute == F32
    assert bind("acc * x[n]", operands=F64).compute == F64
    assert bind("f64(acc) * 3").compute == F64
    assert bind("acc + bias[n]", operands=F16, outputs=BF16).statements[0].value.dtype == F32


def test_scalar_types():
    assert bind("acc * alpha").scalars == {"alpha": F32}
    assert bind("acc * alpha", specials={"acc": F64}).scalars == {"alpha": F64}
    assert bind("acc * alpha", scalars={"alpha": F64}).scalars == {"alpha": F64}


def test_evaluation_broadcasts_by_index_name():
    rng = np.random.default_rng(1)
    x, w, s = rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=4)
    typed = fl.bind(fl.parse("y[n,m] = x[m,n] * w[n] + s[m] + m * 10 + n"), operands=F64)
    m, n = np.arange(4)[:, None], np.arange(6)
    got = fl.evaluate(typed, {"x": x, "w": w, "s": s})["y"]
    np.testing.assert_allclose(got, (x * w + s[:, None] + m * 10 + n).T, rtol=1e-15)


def test_evaluation_of_a_block_counts_indices_from_its_offset():
    typed = fl.bind(fl.parse("y[m,n] = x[m,n] * 0 + m * 100 + n"))
    got = fl.evaluate(typed, {"x": np.ones((2, 3))}, offsets={"m": 5, "n": 7})["y"]
    assert got.tolist() == [[507, 508, 509], [607, 608, 609]]


def test_sizes_that_no_array_carries():
    typed = bind("acc + 1", specials={"acc": fl.Special(F32, ("m",))})
    got = fl.evaluate(typed, {"acc": np.arange(2.0)}, {"n": 3})["out"]
    assert got.tolist() == [[1, 1, 1], [2, 2, 2]]
    with pytest.raises(ArgumentError, match="size of index 'n'"):
        fl.evaluate(typed, {"acc": np.arange(2.0)})


def test_arrays_that_do_not_fit():
    typed = bind("acc + bias[n]")
    with pytest.raises(ArgumentError, match="'bias' has 4 elements along n; another operand has 3"):
        fl.evaluate(typed, {"acc": np.ones((2, 3)), "bias": np.ones(4)})
    with pytest.raises(ArgumentError, match=r"'bias' has 2 dimensions; \[n\] needs 1"):
        fl.evaluate(typed, {"acc": np.ones((2, 3)), "bias": np.ones((1, 3))})
    with pytest.raises(ArgumentError, match="no value for 'bias'"):
        fl.evaluate(typed, {"acc": np.ones((2, 3))})


def test_softmax_and_its_kind():
    x = np.random.default_rng(2).normal(size=(3, 7)).astype(np.float32)
    wide = x.astype(np.float64)
    typed = fl.bind(
        fl.parse("e = exp(x[m,n] - max(x[m,n], n)); y[m,n] = e / sum(e, n)"), reductions=True
    )
    e = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(
        fl.evaluate(typed, {"x": x}, store=False)["y"], e / e.sum(1, keepdims=True), rtol=1e-14
    )


@pytest.mark.parametrize(
    "reduction, expected",
    [
        ("sum(x[m,n], n)", [6.0, np.nan, 0.0]),
        ("mean(x[m,n], n)", [2.0, np.nan, 0.0]),
        ("prod(x[m,n], n)", [6.0, np.nan, 0.0]),
        ("max(x[m,n], n)", [3.0, np.nan, 0.0]),
        ("min(x[m,n], n)", [1.0, np.nan, 0.0]),
        ("argmax(x[m,n], n)", [2, 1, 0]),
        ("argmin(x[m,n], n)", [0, 1, 0]),
        ("logsumexp(x[m,n], n)", [3.40760596444438, np.nan, 1.0986122886681098]),
        ("any(x[m,n] > 2, n)", [True, True, False]),
        ("all(x[m,n] == x[m,n], n)", [True, False, True]),
    ],
)
def test_reductions(reduction, expected):
    x = np.array([[1, 2, 3], [9, np.nan, 0], [0, 0, 0]], np.float32)
    typed = fl.bind(fl.parse(f"y[m] = {reduction}"), reductions=True)
    np.testing.assert_allclose(fl.evaluate(typed, {"x": x}, store=False)["y"], expected, rtol=1e-14)


@pytest.mark.parametrize(
    "reduction, expected",
    [("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf), ("mean", np.nan)]
    + [("logsumexp", -np.inf), ("argmax", 0)],
)
def test_reductions_over_nothing(reduction, expected):
    typed = fl.bind(fl.parse(f"y[m] = {reduction}(x[m,n], n)"), reductions=True)
    got = fl.evaluate(typed, {"x": np.ones((2, 0), np.float32)}, store=False)["y"]
    np.testing.assert_array_equal(got, [expected, expected])


def test_argmax_over_two_indices_counts_in_their_order():
    x = np.zeros((2, 3, 4), np.float32)
    x[1, 2, 3] = 1
    typed = fl.bind(
        fl.parse("a[i] = argmax(x[i,j,k], (j, k)); b[i] = argmax(x[i,j,k], (k, j))"),
        reductions=True,
    )
    got = fl.evaluate(typed, {"x": x})
    assert got["a"].tolist() == [0, 11] and got["b"].tolist() == [0, 11]
    x[:] = 0
    x[1, 1, 2] = 1
    got = fl.evaluate(typed, {"x": x})
    assert got["a"].tolist() == [0, 6] and got["b"].tolist() == [0, 7]


def test_casts_round_for_real():
    third = 1 / 3
    assert value("f16(acc)", third) == np.float64(np.float16(third))
    assert value("bf16(acc)", third) == np.float64(ml_dtypes.bfloat16(third))
    assert value("e4m3(acc)", 500.0) != value("e4m3(acc)", 500.0)  # NaN
    assert value("e4m3(acc)", 464.0) == 448.0
    assert value("e5m2(acc)", 61440.0) == np.inf
    assert value("tf32(acc)", 1 + 2**-11) == 1.0 and value("tf32(acc)", 1 + 3 * 2**-11) == 1 + 2**-9
    assert value("i32(acc)", 2.5) == 2 and value("i32(acc)", 1e20) == 2**31 - 1
    assert value("i8(acc)", float("nan")) == 0 and value("u8(acc)", -3.0) == 0
    assert value("i64(acc)", 1e30) == 2**63 - 1


def test_python_semantics_of_integers():
    for a in (-7, 7):
        for b in (-2, 2):
            assert value(f"({a}) // ({b})") == a // b
            assert value(f"({a}) % ({b})") == a % b
    assert value("7 / 2") == 3.5


def test_min_and_max_propagate_nan_and_where_hides_it():
    assert np.isnan(value("max(acc, 0)", np.nan)) and np.isnan(value("min(0, acc)", np.nan))
    assert value("where(acc == acc, acc, 7)", np.nan) == 7


def test_reads_follow_the_chosen_branch_and_intermediates():
    typed = bind("t = beta * c[m,n]; d[m,n] = where(beta == 0 or not acc == acc, acc, acc + t)")
    zero, one = fl.Assumption("beta", 0), fl.Assumption("beta", 1)
    assert "c" in fl.reads_under(typed) and "c" in fl.reads_under(typed, one)
    assert "c" not in fl.reads_under(typed, zero)
    assert fl.unread_when(typed, "c") == (zero,)
    assert fl.unread_when(bind("d[m,n] = c[m,n] + where(0 != beta, acc, 1)"), "acc") == (zero,)
    assert fl.unread_when_zero(bind("where(beta == 1, 0, acc)"), "acc") is None


def test_operands_by_indices():
    typed = bind("(acc + bias[n]) * s[m] * t[n] + r[m,n]")
    groups = fl.operands_by_indices(typed)
    assert groups == {("n",): ("bias", "t"), ("m",): ("s",), ("m", "n"): ("r",)}


def bound(text: str, acc: float, error: float, **changes) -> float:
    typed = bind(text, **changes)
    env = {"acc": np.full((1, 1), acc)}
    return fl.error_bound(typed, env, {"acc": error}, {"m": 1, "n": 1}, store=False)["out"][0, 0]


def test_error_bound_amplifies_by_what_the_formula_does():
    assert 1.0e-3 <= bound("1000 * acc", 1.0, 1e-6) < 1.2e-3
    assert bound("exp(acc)", 10.0, 1e-6) >= np.exp(10) * 1e-6
    assert bound("acc - 1000", 1000.0, 1e-3) >= 1e-3
    assert bound("gelu(acc)", 0.0, 1e-6) >= 0.5e-6
    assert bound("acc * acc", 3.0, 1e-6) >= 6e-6
    assert bound("1 / acc", 1e-3, 1e-6) >= 1e-3 * 1e3 * 1e-3
    assert np.isinf(bound("1 / acc", 1e-7, 1e-6))


def test_error_bound_sees_steps_and_comparisons_that_are_close():
    assert bound("where(acc > 0, 100, 0)", 1e-7, 1e-6) >= 100
    assert bound("where(acc > 0, 100, 0)", 1.0, 1e-6) == 0
    assert bound("round(acc)", 0.5, 1e-6) >= 1
    assert bound("i32(acc * 2)", 1.25, 1e-6) >= 1


def test_error_bound_of_exact_integers_is_zero():
    typed = bind("acc * 3 + m // 2", specials={"acc": I32})
    got = fl.error_bound(typed, {"acc": np.ones((1, 1), np.int32)}, {}, {"m": 1, "n": 1})
    assert got["out"][0, 0] == 0


def test_error_bound_of_what_overflows_is_infinite():
    assert np.isinf(bound("exp(acc)", 100.0, 0.0))
    assert np.isfinite(bound("exp(acc)", 100.0, 0.0, specials={"acc": F64}))


def test_error_bound_covers_float32_reductions():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(64, 4096)).astype(np.float32)
    typed = fl.bind(fl.parse("y[m] = sum(x[m,n], n)"), reductions=True)
    exact = fl.evaluate_with_bound(typed, arrays={"x": x}, scalars={})["y"]
    sequential = np.zeros(64, np.float32)
    for column in range(x.shape[1]):
        sequential += x[:, column]
    assert np.all(np.abs(sequential - exact[0]) <= exact[1])
    assert np.all(exact[1] < 0.2)


def test_tf32_operand_is_read_as_it_is():
    typed = bind("acc * 0 + x[n]", operands=TF32)
    got = fl.evaluate(typed, {"acc": np.zeros((1, 1)), "x": np.float32([1.2345678])}, store=False)
    assert got["out"][0, 0] == np.float64(np.float32(1.2345678))
