"""Public bug reports about numerics and printed expressions, each test named by its row."""

from __future__ import annotations

import locale
import re
import subprocess
import sys

import numpy as np
import pytest
from compiled import run, source_of

from tilegen import formula as fl
from tilegen.emit.c_expr import print_statements
from tilegen.values import BF16, F32, F64, I8, I32, DType

BACKENDS = ("c", "cuda")
CONTEXT = {"indices": ("m", "n"), "specials": {"acc": F32}}


def bind(text: str, **changes) -> fl.TypedFormula:
    return fl.bind(fl.parse(text), **{**CONTEXT, **changes})


def printed(text: str, backend: str = "c", **changes) -> str:
    """The value of a bare formula as printed."""
    (line,) = print_statements(bind(text, **changes), backend, {}, {"out": "out"}).lines
    return line.removeprefix("out = ").removesuffix(";")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


def computed(text: str, acc, folder, *flags: str, kind: DType = F32, **changes) -> np.ndarray:
    """The compiled bare formula on a row of values of acc."""
    acc = np.atleast_2d(np.asarray(acc, kind.numpy))
    typed = bind(text, specials={"acc": kind}, **changes)
    sizes = {"m": acc.shape[0], "n": acc.shape[1]}
    env = {"acc": acc} if typed.specials else {}
    return run(typed, env, sizes, folder, *flags)["out"][0]


def meant(text: str, acc, kind: DType = F32, **changes) -> np.ndarray:
    """The float64 meaning on a row of values of acc, stored."""
    acc = np.atleast_2d(np.asarray(acc, kind.numpy))
    typed = bind(text, specials={"acc": kind}, **changes)
    return fl.evaluate(typed, {"acc": acc})["out"][0]


@pytest.mark.parametrize("flag", ["-O1", "-O3"])
@pytest.mark.parametrize(
    "text", ["relu(acc)", "clamp(acc, 0, 6)", "max(acc, 0)", "min(6, acc)", "hardtanh(acc)"]
)
def test_G01_clamps_of_nan_are_nan(text, flag, folder):
    nan = [np.nan, 7.0, -7.0]
    for values in (computed(text, nan, folder, flag), meant(text, nan)):
        assert np.isnan(values[0]) and np.isfinite(values[1:]).all()
    np.testing.assert_array_equal(computed(text, nan, folder, flag), meant(text, nan))


def test_G03_relu_keeps_the_sign_of_zero_and_nan(folder):
    for values in (
        computed("relu(acc)", [-0.0, np.nan], folder),
        meant("relu(acc)", [-0.0, np.nan]),
    ):
        assert np.signbit(values[0]) and values[0] == 0.0
        assert np.isnan(values[1])
    payload = np.array([0x7FC12345], np.uint32).view(np.float32)
    assert computed("relu(acc)", payload, folder).view(np.uint32)[0] == 0x7FC12345


def test_G05_subnormals_are_kept(folder):
    small = np.array([1e-40, -3e-42], np.float32)
    np.testing.assert_array_equal(computed("acc / 3", small, folder), small / np.float32(3))
    np.testing.assert_array_equal(computed("exp(acc)", small, folder), np.float32([1, 1]))
    assert computed("exp(acc)", [-100.0], folder)[0] == pytest.approx(np.exp(-100.0), rel=0.02)


def test_G07_gelu_and_gelu_tanh_are_two_functions(folder):
    x = [-2.6989]
    for gelu, tanh in (
        (computed("gelu(acc)", x, folder), computed("gelu_tanh(acc)", x, folder)),
        (meant("gelu(acc)", x), meant("gelu_tanh(acc)", x)),
    ):
        assert abs(gelu[0] - tanh[0]) == pytest.approx(4.73e-4, abs=5e-7)


def test_G09_stores_of_bf16_round_to_nearest_even(folder):
    nan = np.array([0x7F800001], np.uint32).view(np.float32)[0]
    values = np.array([3.14, 1.00390625, nan, np.finfo(np.float32).max], np.float32)
    for got in (computed("acc", values, folder, outputs=BF16), meant("acc", values, outputs=BF16)):
        got = got.astype(np.float32)
        assert got[0] == 3.140625 and got[1] == 1.0 and np.isnan(got[2]) and got[3] == np.inf


def test_G09_stores_of_bf16_have_no_bias(folder):
    x = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    stored = computed("acc", x, folder, outputs=BF16).astype(np.float64)
    assert abs(np.mean(stored / x - 1.0)) < 1e-5


def test_G13_reductions_of_half_types_are_evaluated_in_float64():
    typed = fl.bind(fl.parse("y[m] = sum(x[m,n], n)"), operands="f16", reductions=True)
    total = fl.evaluate(typed, {"x": np.ones((1, 3000), np.float16)}, store=False)["y"]
    assert total == 3000.0


def test_F19_mean_of_a_half_type_does_not_overflow():
    typed = fl.bind(fl.parse("y = mean(x[n], n)"), operands="f16", outputs="f16", reductions=True)
    assert fl.evaluate(typed, {"x": np.ones(100_000, np.float16)})["y"] == 1.0


def test_F17_maximum_of_negative_elements_starts_at_minus_infinity():
    typed = fl.bind(fl.parse("y[m] = max(x[m,n], n)"), reductions=True)
    x = np.array([[-5.0, -1.0], [-np.inf, -np.inf]], np.float32)
    np.testing.assert_array_equal(fl.evaluate(typed, {"x": x})["y"], [-1.0, -np.inf])


@pytest.mark.parametrize("backend", BACKENDS)
def test_J01_a_sum_that_is_divided_keeps_its_parentheses(backend):
    assert printed("(acc + bias[n]) / 2", backend) == "(acc + bias[n]) / 2.0f"
    assert printed("acc + bias[n] / 2", backend) == "acc + bias[n] / 2.0f"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "text, expected",
    [
        ("acc - (bias[n] - acc)", "acc - (bias[n] - acc)"),
        ("(acc - bias[n]) - acc", "acc - bias[n] - acc"),
        ("acc + (bias[n] + acc)", "acc + (bias[n] + acc)"),
        ("acc / (bias[n] * acc)", "acc / (bias[n] * acc)"),
        ("acc / bias[n] * acc", "acc / bias[n] * acc"),
        ("-(-acc)", "-(-acc)"),
        ("-(acc + 1)", "-(acc + 1.0f)"),
        ("-acc * 2", "-acc * 2.0f"),
        ("acc - -1", "acc - -1.0f"),
        ("-(-1.0)*acc", "1.0f * acc"),
        ("(acc + 1)**2", "square(acc + 1.0f)"),
        ("-acc**2", "-(acc * acc)"),
        ("acc / acc**2", "acc / (acc * acc)"),
    ],
)
def test_J01_precedence_is_exact_without_spare_parentheses(text, expected, backend):
    assert printed(text, backend) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_J03_a_product_with_a_remainder_keeps_its_parentheses(backend):
    text = printed("-2 * (m % 3)", backend, outputs=None)
    assert text == "-2 * (m % 3)"


def test_J03_value(folder):
    got = run(bind("-2 * (m % 3)"), {}, {"m": 6, "n": 1}, folder)["out"]
    assert got[5, 0] == -4


@pytest.mark.parametrize("backend", BACKENDS)
def test_J05_a_selection_in_a_product_is_parenthesised(backend):
    text = printed("where(acc > 0, acc, 1) * 2", backend)
    assert text == "(acc > 0.0f ? acc : 1.0f) * 2.0f"


@pytest.mark.parametrize(
    "text",
    [
        "where(acc > 0, acc, where(acc < -1, 2, 3)) * 2",
        "where(acc > 0, where(acc > 1, acc, 1), 3)",
        "where(where(acc > 0, acc, 1) > 0.5, acc, 1)",
        "where(acc > 0 and acc < 1 or not (acc == 2), acc, 1)",
        "where((acc > 0) == (acc < 3), acc, 1)",
        "(acc > 0) + (acc < 1)",
        "acc if acc > 1 else -acc if acc < -1 else 0",
        "where(0 < acc <= 1, acc, 2)",
    ],
)
def test_J05_nested_selections_compile_without_a_warning_and_mean_the_same(text, folder):
    acc = [-2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0]
    np.testing.assert_array_equal(computed(text, acc, folder), meant(text, acc))


def test_J07_integer_division_of_indices(folder):
    got = run(bind("m // 98 + 0 * n"), {}, {"m": 99, "n": 1}, folder)["out"][:, 0]
    assert got[97] == 0 and got[98] == 1
    got = run(bind("m // 49 + 0 * n"), {}, {"m": 99, "n": 1}, folder)["out"][:, 0]
    assert got[98] == 2


@pytest.mark.parametrize("divisor", [7, -7, 1, -1, 2**31 - 1])
def test_J07_floor_division_and_remainder_of_negatives_are_pythons(divisor, folder):
    values = np.array([-(2**31) + 1, -15, -14, -1, 0, 1, 14, 15, 2**31 - 1], np.int32)
    for op, python in (("//", lambda a: a // divisor), ("%", lambda a: a % divisor)):
        text = f"acc {op} {divisor}"
        got = computed(text, values, folder, kind=I32, outputs=I32)
        assert got.tolist() == [python(v) for v in values.tolist()]
        np.testing.assert_array_equal(got, meant(text, values, I32, outputs=I32))


def test_J07_division_by_zero_is_defined(folder):
    got = run(bind("(m - 1) // (n - 1) + 10 * ((m - 1) % (n - 1))"), {}, {"m": 3, "n": 1}, folder)
    assert got["out"][:, 0].tolist() == [1, 0, -1]
    got = run(bind("m // n + m % n"), {}, {"m": 3, "n": 1}, folder)["out"]
    assert got[:, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_J09_infinity_and_nan_are_macros(backend):
    text = printed('where(acc > 0, acc, float("nan"))', backend)
    assert text == "acc > 0.0f ? acc : NAN"
    assert printed("clamp(acc, -inf, 0)", backend) == "clamp(acc, -INFINITY, 0.0f)"


def test_J09_infinity_and_nan_compile_and_are_right(folder):
    got = computed('where(acc > 0, acc, float("nan"))', [1.0, -1.0], folder)
    assert got[0] == 1.0 and np.isnan(got[1])
    got = computed("clamp(acc, -inf, 0)", [3.0, -1e30, -np.inf], folder)
    np.testing.assert_array_equal(got, np.float32([0.0, -1e30, -np.inf]))
    got = computed("acc + 1e39", [1.0], folder)
    assert got[0] == np.inf


def test_J11_text_does_not_depend_on_the_locale():
    script = (
        "import locale, contextlib\n"
        "for name in ('de_DE.UTF-8', 'fr_FR.UTF-8', ''):\n"
        "    with contextlib.suppress(locale.Error):\n"
        "        locale.setlocale(locale.LC_ALL, name)\n"
        "from tilegen import formula as fl\n"
        "from tilegen.emit.c_expr import print_statements\n"
        "t = fl.bind(fl.parse('acc * 0.044715'), indices=('n',), specials={'acc': 'f32'})\n"
        "print(print_statements(t, 'c').lines[0])\n"
    )
    environment = {
        "LC_ALL": "de_DE.UTF-8",
        "PYTHONPATH": ":".join(sys.path),
        "PATH": "/usr/bin:/bin",
    }
    out = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert out.stdout == "out[n] = acc * 0.044715f;\n", out.stderr


def test_J11_a_comma_locale_in_this_process_changes_nothing():
    """Where the machine has such a locale."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("de_DE.UTF-8", "de_DE.utf8", "C"):
            try:
                locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue
            assert printed("acc * 0.044715") == "acc * 0.044715f"
    finally:
        locale.setlocale(locale.LC_ALL, before)


FLOAT_LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*(e[+-]?\d+)?|0x[\da-f.]+p[+-]?\d+)(?![\w.])")


@pytest.mark.parametrize("backend", BACKENDS)
def test_J13_no_double_literal_in_float_text(backend):
    from tilegen.formula.functions import FUNCTIONS

    for name, row in FUNCTIONS.items():
        arguments = ["acc", "0.5", "2.5"][: max(row.low, min(row.high, 3))]
        if name == "where":
            arguments[0] = "acc > 0"
        typed = bind(f"{name}({', '.join(arguments)}) + 0.1")
        found = print_statements(typed, backend, {}, {"out": "out"})
        body = "\n".join(
            line.split("//")[0]
            for t in (*found.helper_texts, *found.lines)
            for line in t.split("\n")
        )
        assert not FLOAT_LITERAL.search(body), (name, FLOAT_LITERAL.search(body))
        assert "double" not in body


def test_J13_double_formulas_have_no_float_literal():
    typed = bind("gelu(acc) * 0.1", specials={"acc": F64})
    found = print_statements(typed, "c", {}, {"out": "out"})
    body = "\n".join(
        line.split("//")[0] for t in (*found.helper_texts, *found.lines) for line in t.split("\n")
    )
    assert not re.search(r"[\d.]f\b", body) and "float" not in body


def test_J15_formulas_that_differ_in_a_constant_or_an_order_have_different_names():
    texts = ["acc * 0.1", "acc * 0.10000001", "acc + bias[n]", "bias[n] + acc"]
    assert len({fl.digest(fl.parse(t)) for t in texts}) == len(texts)
    assert printed(texts[0]) != printed(texts[1])
    assert fl.digest(fl.parse("acc  *  0.1 ")) == fl.digest(fl.parse("acc * 0.1"))


def test_B05_beta_zero_reads_nothing_of_c():
    typed = bind("c[m,n] = where(alpha == 0, 0, alpha * acc) + where(beta == 0, 0, beta * c[m,n])")
    assert fl.unread_when_zero(typed, "c") == "beta"
    assert fl.unread_when_zero(typed, "acc") == "alpha"
    env = {"acc": np.full((1, 1), np.nan), "c": np.full((1, 1), np.nan, np.float32)}
    assert fl.evaluate(typed, {**env, "alpha": 0.0, "beta": 0.0})["c"] == 0.0


def test_B05_compiled(folder):
    typed = bind("c[m,n] = where(alpha == 0, 0, alpha * acc) + where(beta == 0, 0, beta * c[m,n])")
    for value in (np.nan, np.inf):
        env = {"acc": np.full((1, 2), 3.0), "c": np.full((1, 2), value), "alpha": 2.0, "beta": 0.0}
        assert run(typed, env, {"m": 1, "n": 2}, folder)["c"].tolist() == [[6.0, 6.0]]


def test_integer_store_saturates_and_rounds(folder):
    values = [-1e30, -129.0, -2.5, -0.5, 0.5, 1.5, 127.5, np.nan, np.inf]
    got = computed("acc", values, folder, outputs=I8)
    assert got.tolist() == [-128, -128, -2, 0, 0, 2, 127, 0, 127]
    np.testing.assert_array_equal(got, meant("acc", values, outputs=I8))


def test_source_of_a_formula_is_what_a_person_writes():
    source, _ = source_of(bind("gelu(acc + bias[n])", outputs=BF16, operands=BF16))
    assert "const float value = gelu(acc[(m * n_size + n)] + bf16_to_f32(bias[n]));" in source
