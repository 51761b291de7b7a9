"""The indices of a formula choose its family; what none covers is refused where it stands."""

import re

import numpy as np
import pytest

from tilegen import formula as fl
from tilegen.emit.render import render
from tilegen.errors import FormulaError, UsageError
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.named import NAMED
from tilegen.problems.reserved import ENDINGS, PATTERN, RESERVED
from tilegen.runtime import cpu
from tilegen.simulate import Options
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.verify.oracle import Case, verify
from tilegen.verify.simulated import simulate_case


@pytest.mark.parametrize(
    "text, family, order, reduced",
    [
        ("y[m,n] = gelu(x[m,n]) + b[n]", "elementwise", "mn", ""),
        ("y[a,b,c] = x[a,b,c] * s[b]", "elementwise", "abc", ""),
        ("y[m,n] = a[m] + b[n]", "elementwise", "mn", ""),
        ("y[m] = sum(x[m,n], n)", "rowwise", "mn", "n"),
        ("y[m] = sum(a[m] * b[n], n)", "rowwise", "mn", "n"),
        ("y[b,m,n] = x[b,m,n] / sum(x[b,m,n], n)", "rowwise", "bmn", "n"),
        ("y[b] = mean(x[b,m,n], (m, n))", "rowwise", "bmn", "mn"),
        ("y[n] = sum(x[m,n], m)", "columns", "mn", "m"),
        ("y[a,n] = max(x[a,m,n], m)", "columns", "amn", "m"),
        ("y = sum(x[m,n], (m, n))", "full", "mn", "mn"),
        ("y = max(x[n], n)", "full", "n", "n"),
        ("y[n,m] = x[m,n] * 2", "permute", "nm", ""),
        ("y[c,a,b] = x[a,b,c] + z[c,a,b]", "permute", "cab", ""),
        ("y[a,c,b,d] = x[a,b,c,d]", "elementwise", "acbd", ""),
        ("y[a,m,n] = x[m,a,n] / sum(x[m,a,n], n)", "rowwise", "amn", "n"),
    ],
)
def test_family(text, family, order, reduced):
    found = FormulaProblem(formula=text).family
    assert (found.name, found.order, found.reduced) == (family, tuple(order), tuple(reduced))


@pytest.mark.parametrize(
    "text, part, rewrite",
    [
        ("y[m,n] = x[m,n] - sum(x[m,n], n) - sum(x[m,n], m)", "over m where another", "of its own"),
        ("y[m,n] = x[n,m] / sum(x[n,m], m)", "across the order [m,n]", "t[m,n] = x[n,m]"),
        ("y[m,n] = x[m,n] / sum(x[m,n], (m, n))", "every index", "second formula"),
        ("y[b] = mean(x[a,b,c], (a, c))", "not neighbours in [a,b,c]", "x[b,a,c] for x[a,b,c]"),
        ("y = argmin(x[i], i)", "argmin over every index", "m = 1: y[m] = argmin(x[m,i], i)"),
        ("y = logsumexp(x[m,n], (m, n))", "logsumexp over every", "logsumexp(x[b,m,n], (m, n))"),
        ("y[m,n] = x[m,n] + b[n]; z[n] = b[n]", "[m,n] or [m]", "z[m,n]"),
        ("y[a,b,n] = x[a,b,n] / sum(x[a,b,n], n); z[a] = s[a]", "[a,b,n] or [a,b]", "z[a,b,n]"),
        ("y[n,m] = x[m,n]; z[m] = b[m]", "results of this formula have [n,m]", "z[n,m]"),
        ("y[i] = x[i]; z[j] = w[j]", "have [i,j] or [i]", "formula of its own"),
        ("y[m,n] = x[m,n] * length", "meaning of its own in the emitted text", "'my_length'"),
        ("y[m] = x[m] * x", "'x' lacks its indices", "Write x[m]"),
        ("double[m] = x[m]", "cannot be a name in C", "not a keyword"),
        ("y[m] = x[m] * NULL", "cannot be a name in C", "or a macro"),
        ("y = 2 * alpha", "carries an index", "y[n] = x[n] * 2"),
        ("y[m,n] = relu(sum(a[m,k] * b[n,k], k))", "product of matrices", "gemm, --layout tn"),
        ("y[m,n] = sum(a[k,m] * b[k,n], k)", "product of matrices", "gemm, --layout nt"),
        ("s[m,n] = x[m,n]; t[n,m] = x[m,n]", "'t' is not in the order", "t[m,n]"),
    ],
)
def test_what_no_family_covers_is_refused_with_a_rewrite(text, part, rewrite):
    with pytest.raises(FormulaError) as caught:
        FormulaProblem(formula=text)
    assert part in caught.value.message and "^" in caught.value.message
    assert rewrite in caught.value.hint


@pytest.mark.parametrize(
    "text, rewrite",
    [
        ("mu[c] = mean(x[n,c,h,w], (n, h, w))", "x[c,n,h,w]"),
        ("y[t,h] = sum(x[b,t,k,h] * s[b], (b, k))", "x[t,b,k,h]"),
        ("h = max(x[m,n], (m, n)); y = sum(exp(x[m,n] - h), (m, n))", None),
        ("mu = mean(x[i], i); d = x[i] - mu; v = mean(d * d, i)", None),
    ],
)
def test_rewrites_fit(text, rewrite):
    with pytest.raises(FormulaError) as caught:
        FormulaProblem(formula=text)
    if rewrite:
        new, old = re.search(r"Write (\S+) for (\S+), and call", caught.value.hint).groups()
        assert new == rewrite and FormulaProblem(formula=text.replace(old, new))
    else:
        assert FormulaProblem(formula=caught.value.hint.split("= 1: ")[1]).family.name == "rowwise"


BROADCAST = {
    "y[m,n] = x[m]": {"m": 3, "n": 37},
    "y[m,n] = 2": {"m": 3, "n": 37},
    "y[m,n] = mean(x[m,n], n)": {"m": 3, "n": 300},
    "y[n] = mean(abs(x[k]), k)": {"n": 3, "k": 37},
    "y[m,n] = sum(abs(a[m,k] - b[n,k]), k)": {"m": 2, "n": 3, "k": 37},
    "s[m] = a[m] * 2; y[m,n] = x[m,n] * s": {"m": 3, "n": 300},
    "y[m,n] = x[m,n] / sum(x[m,n], n); z[m] = s[m] * 2": {"m": 2, "n": 65600},
}


@pytest.mark.parametrize("text", BROADCAST)
def test_arrays_without_some_index_are_written_and_read(text):
    sizes = BROADCAST[text]
    rendered = render(KernelSpec.make("formula", "portable", {"formula": text}))
    loaded = cpu.load(rendered.plan, build.library(rendered), rendered.symbol)
    verdict = verify(rendered.plan, loaded.run, cases=[Case(sizes, 1, 1, 1)])
    assert verdict.ok and verdict.cases == 1, verdict.failures


@pytest.mark.parametrize("text", ["y[m,n] = mean(x[m,n], n)", "y[n] = mean(abs(x[k]), k)"])
def test_cuda_writes_and_reads_arrays_without_some_index(text):
    rendered = render(KernelSpec.make("formula", "sm_90a", {"formula": text, "dtype": "bf16"}))
    found = simulate_case(rendered, BROADCAST[text], Options())
    assert found.ok, found.text()


@pytest.mark.parametrize("where", ["portable", "sm_90a"])
def test_many_indices_fit_the_lines_of_a_kernel(where):
    made = render(KernelSpec.make("y[p,b,h,t,d,e,g] = x[b,h,t,d,e,g,p]", where, {}))
    assert "(p > 1 && b > 0" in next(text for name, text in made.files.items() if name[-2:] != ".h")


@pytest.mark.parametrize("where", ["sm_90a", "x86-64-v4", "portable"])
@pytest.mark.parametrize(
    "text",
    [
        "{y}[m,n] = {x}[m,n] * {w}[n]",
        "{y}[n,m] = {x}[m,n]",
        "{y}[n] = sum({x}[m,n], m)",
        "{y}[m,n] = {x}[m,n] / sum({x}[m,n], m)",
        "{y}[m,n] = {x}[m,n] * sum({x}[m,n] * {w}[n], n) * {w}[n]",
        "{y} = sum({x}[n] * {w}[n], n)",
    ],
)
def test_long_names_fit_the_lines_of_a_kernel(text, where):
    """Emission refuses longer lines."""
    names = {"y": "long_name_of_output", "x": "long_name_of_input", "w": "long_name_of_weights"}
    made = render(KernelSpec.make(text.format(**names), where, {}))
    assert "long_name_of_input" in made.files[made.source]


def test_statements_that_long_names_break_are_kept_whole():
    """A declaration that goes on in the next line is known by its name."""
    text = "{y}[m,n] = {x}[m,n] * {w}[n] + sum({x}[m,n], n)"
    names = {"y": "output" * 7, "x": "input" * 7, "w": "weights" * 5}
    made = render(KernelSpec.make(text.format(**names), "portable", {}))
    for name in (names["y"], names["x"]):
        used = made.files[made.source].count(f"{name}_row")
        assert f"*{name}_row =" in made.files[made.source] and used > 1


def test_many_reductions_of_a_pass_fit_the_lines_of_a_kernel():
    text = "; ".join(
        f"{n}[m] = {n[:3]}(x[m,n] * {i + 2}, n)" for i, n in enumerate(("min_", "max_", "sum_"))
    )
    made = render(KernelSpec.make(f"{text}; p[m] = prod(x[m,n], n)", "portable", {}))
    assert "#pragma omp simd \\\n" in next(iter(made.files.values()))


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'softmax'"):
        FormulaProblem(formula="sofmax")


@pytest.mark.parametrize("where", ["portable", "sm_75", "sm_90a"])
def test_every_named_formula_has_a_kernel(where):
    for name in NAMED:
        assert render(KernelSpec.make(name, where, {})).files


@pytest.mark.parametrize("name", NAMED)
def test_every_named_formula_has_a_meaning_and_a_bound(name):
    problem = FormulaProblem(formula=name)
    rng = np.random.default_rng(1)
    sizes = {i: 4 for i in problem.family.order}
    arrays = problem.draw(sizes, rng)
    expected = problem.reference(sizes, arrays, problem.draw_scalars(rng))
    for tensor in problem.tensors():
        if tensor.is_written:
            found = expected[tensor.name]
            assert found.value.shape == found.bound.shape == (4,) * len(tensor.dims)
    assert FormulaProblem(formula=problem.typed.text).formula == name


def test_out_turns_other_outputs_into_intermediates():
    text = "h[m,n] = x[m,n] + r[m,n]; y[m,n] = h * 2"
    assert [t.name for t in FormulaProblem(formula=text).tensors() if t.is_written] == ["h", "y"]
    assert [t.name for t in FormulaProblem(formula=text, out="y").tensors() if t.is_written] == [
        "y"
    ]
    with pytest.raises(UsageError, match="--out"):
        FormulaProblem(formula=text, out="z")


# A declaration: a type, then a name that a value, a list or an array's extent follows.
LOCAL = re.compile(
    r"(?:^|[(,]|\bconst\b)\s*[A-Za-z_][\w:<>]*[\s*&]+(?:const )?([a-z]\w+)\s*(?:=(?!=)|[;,)\[{])",
    re.M,
)


@pytest.mark.parametrize("target", ["x86-64-v4", "sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "text",
    [
        "y[m,n] = x[m,n] + 1",
        "y[m,n] = exp(x[m,n]) * sum(exp(x[m,n]), n)",
        "y[b,n] = max(x[b,m,n], m)",
        "y = sum(x[m,n], (m, n))",
        "y[b,n,m] = x[b,m,n]",
    ],
)
def test_formulas_take_no_name_of_a_launcher(text, target):
    kernel = render(KernelSpec.make(text, target, {"dtype": "f32"}))
    head = re.compile(rf'^(?:extern "C" cudaError_t|int) {kernel.symbol}\(', re.M)
    source = kernel.files[kernel.source]
    launcher = source[head.search(source).end() :]
    names = {name for name in LOCAL.findall(launcher) if not name.startswith(("x_", "y_", "cuda"))}
    assert len(names) > 3 and names <= RESERVED
    for name in ("first", "threads"):
        with pytest.raises(UsageError, match=f"'{name}' has a meaning of its own"):
            FormulaProblem(formula=text.replace("x[", f"{name}[")).typed


# What is declared outside of functions: functions, types, and what an array's name is part of.
FUNCTION = re.compile(
    r"^(?:static |__device__ |inline )[^\n(]*?\b(\w+)\(|^\w[\w:<>]* [*&]?(\w+)\(", re.M
)
TYPE = re.compile(r"^(?:\} |struct )(?:alignas\(.*\) )?(\w+)", re.M)


@pytest.mark.parametrize("target", ["x86-64-v4", "sm_90a"])
@pytest.mark.parametrize(
    "text",
    [
        "yy[m,n] = silu(xx[m,n]) * ww[n]",
        "yy[m,n] = exp(xx[m,n] - max(xx[m,n], n)) * ww[n] * mean(xx[m,n], n) + bb[n]",
        "yy[a,b] = sum(xx[a,b,c,d], (c, d))",
        "yy[n] = max(xx[m,n] * ww[n], m)",
        "yy = sum(xx[m,n] * ww[n], (m, n))",
        "yy[b,n,m] = xx[b,m,n] + ww[n]",
    ],
)
def test_formulas_take_no_name_of_the_emitted_text(text, target):
    kernel = render(KernelSpec.make(text, target, {"dtype": "bf16"}))
    source = re.sub(r"//[^\n]*", "", kernel.files[kernel.source])
    names = {a or b for a, b in FUNCTION.findall(source)} | set(TYPE.findall(source))
    names -= {"alignas", kernel.symbol, f"{kernel.symbol}_supports", f"{kernel.symbol}_workspace"}
    names = {n for n in names if not n.startswith(kernel.symbol)}
    free = {n for n in names - RESERVED - fl.FUNCTIONS.keys() if not PATTERN.match(n)}
    assert len(names) > 5 and not free
    ends = set(re.findall(r"\b(?:xx|yy|ww|bb)_(\w+)", source))
    assert {e for e in ends if not re.match(r"[abcdmn]+$|stride_[abcdmn]$", e)} <= ENDINGS


@pytest.mark.parametrize(
    "text, name",
    [
        ("y[m,n] = x[m,n] * x_row[n]", "x_row"),
        ("y[m,n] = x[m,n] * x_mn[n]", "x_mn"),
        ("y[m,n] = x[m,n] + y_stride_m[n]", "y_stride_m"),
        ("m_index = s[m] * 2; y[m,n] = x[m,n] * m_index", "m_index"),
        ("y[m,n] = x[m,n] * kChunk", "kChunk"),
        ("y[m,n] = load[m,n] * 2", "load"),
        ("y[m,n] = x[m,n] * exp_f32", "exp_f32"),
    ],
)
def test_names_that_the_emitted_text_has_taken_are_refused(text, name):
    with pytest.raises(FormulaError, match=f"'{name}' has a meaning of its own"):
        FormulaProblem(formula=text)
    assert FormulaProblem(formula=text.replace(name, f"my_{name}"))
