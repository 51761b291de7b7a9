"""Every refusal: the message, the line, the caret under the column, what is allowed instead."""

from __future__ import annotations

import pytest

import tilegen
from tilegen import formula as fl
from tilegen.errors import FormulaError
from tilegen.formula.functions import FOREIGN
from tilegen.values import F32, I32

CONTEXT = {"indices": ("m", "n"), "specials": {"acc": F32}}
KNOWN = {"operands": {"bias": F32, "residual": F32}, "scalars": {"alpha": F32}}

# formula, start of the message, text under the carets, part of the hint
PARSING = [
    (
        "gleu(acc + bias[n])",
        "unknown function 'gleu'",
        "gleu",
        "Did you mean 'gelu'? Functions: where",
    ),
    ("zzz(acc)", "unknown function 'zzz'", "zzz", "Functions: where"),
    ("clip(acc, 0, 1)", "unknown function 'clip'", "clip", "Write clamp(x, low, high). Functions"),
    ("acc + w[t[n]]", "an index is a bare name", "t[n]", "where(n == t[m], x[m,n], 0)"),
    ("acc + w[:, n]", "an index is a bare name", ":", "Give each index a name"),
    ("acc + ", "this does not parse", "", "A formula is one or more of"),
    ("acc > 0 ? acc : 0", "this does not parse", "?", "where(c, a, b)"),
    ("where(acc > 0 && acc < 1, acc, 0)", "this does not parse", "&", "a and b"),
    ("where(acc < 0 || acc > 1, acc, 0)", "this does not parse", "|", "a or b"),
    ("where(!acc, 1, 0)", "this does not parse", "!", "not a"),
    ("acc^2", "this operator is not part of the language", "acc^2", "A power is x ** 2"),
    ("acc @ acc", "this operator is not part of the language", "acc @ acc", "operator gemm"),
    ("(acc", "this does not parse", "(", "A formula is one or more of"),
    ("", "the formula is empty", "", "Write an expression"),
    (
        "if acc > 0: acc",
        "a Python `if` cannot choose by a value",
        "if acc > 0: acc",
        "where(c, a, b)",
    ),
    ("for i in x: i", "a formula has no loops", "for i in x: i", "index names are the loops"),
    ("while x: x", "a formula has no loops", "while x: x", "index names"),
    ("c[m,n] += acc", "a formula has no augmented assignment", "c[m,n] += acc", "in full"),
    ("c: int = acc", "a formula has no annotations", "c: int = acc", "name = expression"),
    ("import math", "a formula imports nothing", "import math", "built in"),
    ("from math import exp", "a formula imports nothing", "from math import exp", "built in"),
    ("del x", "this statement is not part of the language", "del x", "name = expression"),
    ("a = b = acc", "one name for one assignment", "a = b = acc", "two assignments"),
    ("a, b = acc", "this cannot be assigned to", "a, b", "output with its indices"),
    ("math.exp(acc)", "only a function of the language can be called", "math.exp", "Functions"),
    ("acc.real", "a formula has no attributes", "acc.real", "bare name"),
    ("lambda x: x", "a formula has no lambda", "lambda x: x", "intermediate"),
    ("[acc]", "a formula has no lists", "[acc]", "Operators"),
    ("{acc: 1}", "a formula has no dictionaries", "{acc: 1}", "Operators"),
    ("{acc}", "a formula has no sets", "{acc}", "Operators"),
    ("(acc, acc)", "one value is needed here, not a tuple", "(acc, acc)", "assignments"),
    ("exp([x for x in acc])", "a formula has no comprehensions", "[x for x in acc]", "Reduce"),
    (
        "max(x for x in acc)",
        "max takes 2 or more arguments, not 1",
        "max(x for x in acc)",
        "max(a, b, ...)",
    ),
    ("acc + 'a'", "a formula has no strings", "'a'", "int or float"),
    ("acc + 2j", "a formula has no complex numbers", "2j", "int or float"),
    ("acc + f'{x}'", "a formula has no strings", "f'{x}'", "Operators"),
    ("acc + ...", "a formula has no such literals", "...", "int or float"),
    ("exp((h := acc))", "a formula has no :=", "h := acc", "before"),
    ("max(*acc, 1)", "a formula has no *arguments", "*acc", "one by one"),
    ("acc @ acc", "this operator is not part of the language", "acc @ acc", "Operators"),
    ("acc & 1", "this operator is not part of the language", "acc & 1", "and, or, not"),
    ("~acc", "this operator is not part of the language", "~acc", "and, or, not"),
    ("acc is 1", "this comparison is not part of the language", "acc is 1", "Operators"),
    ("exp(x=acc)", "arguments have no names in a formula", "x=acc", "exp(x)"),
    ("exp(acc, 2)", "exp takes 1 argument, not 2", "exp(acc, 2)", "exp(x)"),
    ("elu(acc, 1, 2)", "elu takes 1 to 2 arguments, not 3", "elu(acc, 1, 2)", "elu(x, alpha=1.0)"),
    ("f16(acc, 2)", "f16 takes 1 argument, not 2", "f16(acc, 2)", "f16(x)"),
    ("sum(acc)", "sum takes 2 arguments, not 1", "sum(acc)", "sum(e, n)"),
    ("acc + gelu", "'gelu' is a function", "gelu", "gelu(x)"),
    ("acc + exp[n]", "'exp' is a word of the language", "exp[n]", "Call a function"),
    ("(acc + 1)[n]", "only a named operand has indices", "(acc + 1)[n]", "bias[n]"),
    ("acc + bias[0]", "an index is a bare name", "0", "bias[n]"),
    ("acc + bias[n + 1]", "an index is a bare name", "n + 1", "a view needs no copy"),
    ("acc + bias[exp]", "'exp' belongs to the language and is no index", "exp", "bias[n]"),
    ("acc + bias[n,n]", "index 'n' is used twice in one operand", "n", "two names"),
    ("acc + n[n]", "'n' is an index here and has no elements", "n[n]", ""),
    ("float('1.5')", "float() takes the text of inf or nan alone", "float('1.5')", "f32(x)"),
    (
        "99999999999999999999 + acc",
        "this integer does not fit 64 bits",
        "99999999999999999999",
        "float",
    ),
    ("sum(x[n], q)", "'q' is no index of this formula", "q", "its indices: n"),
    ("sum(x[n], 2)", "this is no index of this formula", "2", "its indices: n"),
    ("sum(x[n], (n, n))", "index 'n' is reduced twice", "n", "once"),
    ("sum(x[n], ())", "a reduction needs an index", "()", "sum(e, n)"),
    ("exp = acc; exp + 1", "'exp' belongs to the language", "exp", "another name"),
    ("n = acc; bias[n] + n", "'n' is an index of this formula", "n", "another name"),
    ("h = acc; h = acc; h", "'h' is assigned twice", "h = acc", "second name"),
    ("acc; acc", "a bare expression must be the last statement", "acc", "h = ..."),
    ("h + 1; h = acc", "a bare expression must be the last statement", "h + 1", "h = ..."),
    ("c[m,n] = h; h = acc", "'h' is used before its assignment", "h", "Assign it first"),
    ("h = h + acc; h", "'h' is used in its own assignment", "h", "c[m,n] = acc + c[m,n]"),
    ("acc + x[n] + x[m,n]", "'x' has 1 indices elsewhere and 2 here", "x[m,n]", "one rank"),
    ("acc + x[n] + x[m]", "'x' is read as [n] elsewhere", "x[m]", "same indices"),
    ("c[m,n] = acc + c[n,m]", "'c' is written as [m,n]", "c[n,m]", "element that is written"),
    ("c[m,n] = acc + c[m]", "'c' is written as [m,n]", "c[m]", "element that is written"),
    ("h = acc; h[n] + 1", "'h' is an intermediate and carries no indices", "h[n]", "Write h."),
]

BINDING = [
    (
        "acc + bais[n]",
        "unknown operand 'bais'",
        "bais[n]",
        "Did you mean 'bias'? Operands: bias, residual",
    ),
    (
        "acc * alhpa",
        "unknown name 'alhpa'",
        "alhpa",
        "Did you mean 'alpha'? Known here: acc, m, n, alpha",
    ),
    ("ac + bias[n]", "unknown name 'ac'", "ac", "Did you mean 'acc'?"),
    ("acc + bias[n] * bias", "'bias' lacks its indices", "bias", "Write bias[n]."),
    ("acc + bias[k]", "'k' is no index here", "k", "Indices: m, n."),
    ("c[m,k] = acc", "'k' is no index here", "k", "Indices: m, n."),
    ("acc[m,n] + 1", "'acc' carries no indices here", "acc[m,n]", "Write acc: it is at [m,n]."),
    ("acc = bias[n]; acc", "'acc' has a meaning here", "acc = bias[n]", "Rename it"),
    ("h = acc * 2", "nothing reads 'h'", "h = acc * 2", "h[m,n] = ..."),
    (
        "acc / sum(bias[n], n)",
        "a reduction cannot be computed here",
        "sum(bias[n], n)",
        "one element",
    ),
    (
        "acc + max(residual[m,n], n)",
        "a reduction cannot be computed here",
        "max(residual[m,n], n)",
        "put the index first: max(n, residual[m,n])",
    ),
    ("c[m] = acc", "this varies with n, and c[m] does not", "acc", "sum(e, n)"),
    ("acc // 2", "// takes integers, not f32", "acc // 2", "floor(a / b)"),
    ("acc % 2", "% takes integers, not f32", "acc % 2", "a - b * floor(a / b)"),
    ("where(acc, 1, 2)", "a condition is needed here, not a f32 value", "acc", "acc != 0"),
    ("acc and acc > 1", "a condition is needed here", "acc", "acc != 0"),
    ("not acc", "a condition is needed here", "acc", "acc != 0"),
    ("acc + m**5", "an integer power is 2, 3 or 4", "m**5", "f32(m)**5"),
]


def carets(message: str) -> str:
    """The text that the carets of a message stand under."""
    *_, line, marks = message.split("\n")
    assert set(marks) <= {" ", "^"} and marks.endswith("^")
    return line[marks.index("^") : len(marks)]


@pytest.mark.parametrize("text, problem, under, hint", PARSING, ids=[row[0] for row in PARSING])
def test_parser_refuses_at_the_column(text, problem, under, hint):
    with pytest.raises(FormulaError) as error:
        fl.parse(text)
    assert error.value.exit_code == 2
    assert error.value.message.startswith(problem)
    assert carets(error.value.message) == under
    assert hint in error.value.hint


@pytest.mark.parametrize("text, problem, under, hint", BINDING, ids=[row[0] for row in BINDING])
def test_binding_refuses_at_the_column(text, problem, under, hint):
    with pytest.raises(FormulaError) as error:
        fl.bind(fl.parse(text), **CONTEXT, **KNOWN)
    assert error.value.message.startswith(problem)
    assert carets(error.value.message) == under
    assert hint in error.value.hint


def test_scalar_that_is_an_operand_lacks_its_indices():
    with pytest.raises(FormulaError, match=r"'bias' lacks its indices") as error:
        fl.bind(fl.parse("acc + bias[n] * bias"), **CONTEXT)
    assert error.value.hint == "Write bias[n]."


def test_output_that_is_not_declared():
    with pytest.raises(FormulaError, match="'d' is no output here") as error:
        fl.bind(fl.parse("c[m,n] = acc; d[m,n] = acc"), **CONTEXT, outputs={"c": F32})
    assert "Outputs: c." in error.value.hint


def test_integer_sum_is_not_a_condition():
    with pytest.raises(FormulaError, match="not a i32 value"):
        fl.bind(fl.parse("where(acc, 1, 0)"), indices=("m", "n"), specials={"acc": I32})


def test_error_in_a_formula_of_several_lines_shows_its_line():
    with pytest.raises(FormulaError) as error:
        fl.parse("h = acc + bias[n]\n  y[m,n] = gleu(h)\n")
    assert error.value.message == (
        "unknown function 'gleu' (line 2)\n    y[m,n] = gleu(h)\n             ^^^^"
    )


def test_caret_counts_characters_not_bytes():
    with pytest.raises(FormulaError) as error:
        fl.parse("α + gleu(β)")
    assert error.value.message.endswith("  α + gleu(β)\n      ^^^^")


def test_caret_of_an_expression_over_several_lines_stays_on_its_first():
    with pytest.raises(FormulaError) as error:
        fl.bind(fl.parse("(acc +\n  1) // 2"), **CONTEXT)
    assert error.value.message.split("\n")[1:] == ["  (acc +", "  ^^^^^^"]


def test_function_whose_name_is_no_parameter():
    with pytest.raises(FormulaError) as error:

        @tilegen.formula
        def epilogue(acc, bias):
            h = acc + bais[n]  # noqa: F821
            return gelu(h)  # noqa: F821

    assert "unknown name 'bais'" in error.value.message
    assert carets(error.value.message) == "bais[n]"
    assert "Did you mean 'bias'? Parameters: acc, bias." in error.value.hint


def test_function_with_a_parameter_that_nothing_reads():
    with pytest.raises(FormulaError, match="nothing reads 'bias'"):

        @tilegen.formula
        def epilogue(acc, bias):
            return gelu(acc)  # noqa: F821


def test_function_with_keyword_parameters():
    with pytest.raises(FormulaError, match="positional parameters only"):

        @tilegen.formula
        def epilogue(acc, *rest):
            return acc


def test_function_without_source():
    with pytest.raises(FormulaError, match="source of this function cannot be read"):
        tilegen.formula(eval("lambda acc: acc"))


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_what_is_offered_for_a_foreign_function_is_a_formula(text):
    assert fl.parse(text.replace("(e, n)", "(e[n], n)"))
