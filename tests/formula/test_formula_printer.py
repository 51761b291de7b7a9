"""Formulas as C text: helpers, names, layout, storage types; the text compiles clean on both backends."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiled import WARNINGS, build, source_of
from ulp_check import FUNCTIONS as MEASURED
from ulp_check import measure

from tilegen import formula as fl
from tilegen.emit import c_expr
from tilegen.emit.c_expr import catalogue, closure, helper_texts, includes_for, print_statements
from tilegen.emit.c_expr import shortened
from tilegen.emit.wrap import fit, wrap
from tilegen.emit.hygiene import faults
from tilegen.emit.sweeps import Writer
from tilegen.errors import TemplateFault, UsageError
from tilegen.formula.functions import FUNCTIONS
from tilegen.problems.formula import FormulaProblem
from tilegen.values import BF16, E4M3, E5M2, F16, F32, F64, I8, I32, TF32, U8, BOOL

BACKENDS = ("c", "cuda")
CONTEXT = {"indices": ("m", "n"), "specials": {"acc": F32}}


def bind(text: str, **changes) -> fl.TypedFormula:
    return fl.bind(fl.parse(text), **{**CONTEXT, **changes})


def lines(text: str, backend: str = "c", names=None, stores=None, **changes) -> list[str]:
    return list(
        print_statements(bind(text, **changes), backend, names, stores or {"out": "out"}).lines
    )


def test_epilogue_reads_like_written_by_hand():
    places = {"residual": "residual[m * ldr + n]"}
    text = "gelu(acc + bias[n]) + residual[m,n]"
    stores = {"out": "c[m * ldc + n]"}
    assert lines(text, "cuda", places, stores, operands=F16, outputs=F16) == [
        "const float value = gelu(acc + __half2float(bias[n])) + __half2float(residual[m * ldr + n]);",
        "c[m * ldc + n] = __float2half_rn(value);",
    ]
    assert lines(text, "c", places, stores) == [
        "c[m * ldc + n] = gelu(acc + bias[n]) + residual[m * ldr + n];"
    ]


def test_accumulator_alone_is_stored_without_a_local():
    assert lines("acc", "cuda", outputs=BF16) == ["out = __float2bfloat16_rn(acc);"]
    assert lines("acc", "c", outputs=F32) == ["out = acc;"]


def test_intermediates_and_several_outputs():
    text = "h = acc + bias[n]; t[m,n] = tanh(h); y[m,n] = t * h"
    stores = {"t": "t[i]", "y": "store(y + i, {value});"}
    assert lines(text, "c", {}, stores, outputs={"t": BF16, "y": F16}) == [
        "const float h = acc + bias[n];",
        "const float t_value = tanh_f32(h);",
        "t[i] = f32_to_bf16(t_value);",
        "const float y_value = t_value * h;",
        "store(y + i, f32_to_f16(y_value));",
    ]


def test_output_that_is_read_as_stored_before_is_the_operand():
    text = "c[m,n] = acc + c[m,n]; d[m,n] = c * 2"
    assert lines(text, "c", {"c": "c[i]"}, {"c": "c[i]", "d": "d[i]"}) == [
        "const float c_value = acc + c[i];",
        "c[i] = c_value;",
        "d[i] = c_value * 2.0f;",
    ]


def test_names_and_values_that_are_loaded_already():
    typed = bind("acc * alpha + bias[n]", operands=F16)
    names = {"acc": "acc[i][j]", "alpha": "e.alpha", "bias": "bias_frag[j]"}
    found = print_statements(typed, "cuda", names, {"out": "y"}, loaded={"bias": F32})
    assert found.lines == ("y = acc[i][j] * e.alpha + bias_frag[j];",)


def test_intermediate_named_like_a_function_of_c():
    assert lines("expf = acc * 2; expf + 1", "cuda")[0] == "const float expf_value = acc * 2.0f;"
    assert lines("maximum = acc * 2; max(maximum, 1)")[1] == "out = maximum(maximum_value, 1.0f);"
    with pytest.raises(UsageError, match="'double' cannot be a name in C"):
        lines("double = acc * 2; double + 1")


def test_what_has_no_text_is_a_fault_of_the_caller():
    with pytest.raises(TemplateFault, match=r"no C text was given for the operand r\[m,n\]"):
        lines("acc + r[m,n]")
    reduced = fl.bind(fl.parse("y[m] = sum(x[m,n], n)"), reductions=True)
    with pytest.raises(TemplateFault, match=r"sum\(x\[m,n\], n\) is computed by the kernel"):
        print_statements(reduced, "c", {"x": "x[i]"})


@pytest.mark.parametrize("backend", BACKENDS)
def test_helpers_are_those_that_are_called_and_come_in_order(backend):
    found = print_statements(bind("mish(acc) + hardswish(acc)"), backend, {}, {"out": "out"})
    assert set(found.helpers) >= {"mish", "hardswish", "hardsigmoid", "clamp"}
    assert "gelu" not in found.helpers
    assert found.helpers.index("clamp") < found.helpers.index("hardsigmoid")
    assert len(found.helper_texts) == len(found.helpers)
    assert not print_statements(bind("acc + 1"), backend, {}, {"out": "out"}).helpers


@pytest.mark.parametrize("backend", BACKENDS)
def test_helper_texts_are_clean_and_commented(backend):
    for name, text in catalogue(backend).items():
        assert faults(text + "\n") == [], name
        assert text.startswith("// ") and text.split("\n")[0].endswith("."), name
        assert f" {name}(" in text.split("\n")[1], name
        assert "#define" not in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_helper_is_reached_by_some_formula(backend):
    kinds = (F32, F64, I32)
    texts = []
    for name, row in FUNCTIONS.items():
        arguments = ["acc > 0" if name == "where" else "acc", "acc", "acc"]
        texts.append(f"{name}({', '.join(arguments[: max(row.low, min(row.high, 3))])})")
    texts += [f"acc**{power}" for power in (2.5, 4)] + [f"(acc + 1)**{p}" for p in (2, 3, 4)]
    reached = set()
    storage = (F16, BF16, E4M3, E5M2, TF32, I8, U8, I32, F32, F64)
    for kind in kinds:
        for text in [*texts, "acc + x[n]"]:
            for operand in storage:
                typed = bind(text, specials={"acc": kind}, operands=operand, outputs=operand)
                reached |= set(print_statements(typed, backend, {}, {"out": "out"}).helpers)
    for text in (
        "m // -n",
        "m % -n",
        "min(m, n + 0)",
        "max(m, 0 + n)",
        "abs(m - n)",
        "relu(m - n)",
    ):
        for index in ("i32", "i64"):
            typed = bind(text, index_dtype=index, outputs=I8)
            reached |= set(print_statements(typed, backend, {}, {"out": "out"}).helpers)
    for text in (
        "clamp(m - n, 0, 3)",
        "(m - n)**2 + (m - n)**3 + (m - n)**4",
        "i64(acc)",
        "i32(m)",
    ):
        for index in ("i32", "i64"):
            typed = bind(text, index_dtype=index)
            reached |= set(print_statements(typed, backend, {}, {"out": "out"}).helpers)
    short = Writer(FormulaProblem(formula="y[n] = exp(x[n])", dtype="bf16"), backend)
    short.expression(short.problem.typed.statements[0].value)
    assert set(catalogue(backend)) - reached - set(short.printer.used) == set()


def all_helpers(backend: str) -> str:
    texts = helper_texts(catalogue(backend), backend)
    headers = [f"#include {h}" for h in includes_for(texts, backend)]
    return "\n".join([*headers, "", *texts, ""])


@pytest.mark.parametrize("standard", ["c11", "c17"])
def test_c_helpers_compile_without_a_warning(standard, tmp_path):
    names = ", ".join(f"(any){name}" for name in catalogue("c"))
    use = f"typedef void (*any)(void);\nextern const any used[];\nconst any used[] = {{{names}}};\n"
    path = Path(tmp_path, "helpers.c")
    path.write_text(all_helpers("c") + use)
    flags = [*WARNINGS[1:], "-Wno-cast-function-type", "-Wdouble-promotion"]
    subprocess.run(
        ["cc", f"-std={standard}", *flags, "-c", path, "-o", path.with_suffix(".o")], check=True
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_cuda_helpers_compile_without_a_warning(tmp_path):
    path = Path(tmp_path, "helpers.cu")
    uses = [
        f"__device__ void *use_{i}() {{ return reinterpret_cast<void *>({name}); }}"
        for i, name in enumerate(catalogue("cuda"))
    ]
    path.write_text(all_helpers("cuda") + "\n".join(uses) + "\n")
    command = [
        "nvcc",
        "-std=c++17",
        "-Werror",
        "all-warnings",
        "-Xcompiler",
        "-Wall,-Wextra,-Werror",
    ]
    command += ["-gencode=arch=compute_80,code=sm_80", "-c", str(path), "-o", str(tmp_path / "a.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flags", [["-ffp-contract=off"], ["-march=native", "-ffp-contract=fast"]])
def test_errors_of_c_functions_are_within_what_their_comments_say(flags):
    measured = measure(list(MEASURED), 65_537, flags)
    for name, (error, where) in measured.items():
        limit = MEASURED[name][1]
        assert error <= limit, f"{name}: {error} ulp at {where}"
        comment = catalogue("c")[name].split("\n")[0]
        assert "ulp" not in comment or f"within {limit:g} ulp" in comment


def test_the_tail_of_the_short_gelu_is_as_exact_as_its_comment_says():
    (text,) = (x for x in shortened(helper_texts(["gelu"], "cuda")) if " gelu(" in x)
    values = {"a": np.linspace(0, 13, 1 << 16, dtype=np.float32)}
    for sum_of_products in re.findall(r"\bp = (.*);", text):
        python = re.sub(r"(\d[\d.e-]*)f\b", r"np.float32(\1)", sum_of_products)
        values["p"] = eval(python, {"np": np}, values)
    tail = np.array([math.erfc(a / math.sqrt(2)) / 2 for a in values["a"].tolist()])
    error = np.abs(np.exp2(values["p"].astype(float)) / tail - 1)
    near = values["a"] < 3.8
    limits = re.search(r"within\s+(?:// )?(\S+) of itself.* 3\.8, (\S+) beyond", text).groups()
    assert error[near].max() <= float(limits[0]) and error[~near].max() <= float(limits[1])


@pytest.mark.parametrize(
    "name",
    ["exp", "exp2", "log", "log1p", "tanh", "erf", "rsqrt", "round", "floor", "ceil", "trunc"]
    + [
        "sigmoid",
        "silu",
        "gelu",
        "gelu_tanh",
        "softplus",
        "mish",
        "elu",
        "selu",
        "hardswish",
        "leaky_relu",
        "hardtanh",
        "hardsigmoid",
        "abs",
        "f16",
        "bf16",
        "e4m3",
        "e5m2",
        "tf32",
        "i8",
        "u8",
        "i32",
        "relu",
    ],
)
def test_a_loop_over_a_function_becomes_vector_code(name, tmp_path):
    typed = fl.bind(fl.parse(f"y[n] = {name}(x[n])"))
    source = (
        source_of(typed)[0]
        .replace("for (", "#pragma omp simd\nfor (")
        .replace("const float *x, float *y", "const float *restrict x, float *restrict y")
    )
    path = tmp_path / "loop.c"
    path.write_text(source)
    command = ["cc", "-std=gnu11", "-O3", "-fopenmp-simd", "-mavx2", "-mfma"]
    command += ["-fno-math-errno"] if name == "rsqrt" else []
    command += ["-fopt-info-vec-optimized", "-c", str(path), "-o", str(tmp_path / "loop.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "loop vectorized" in done.stderr, source


HALVES = [(F16, 16), (BF16, 16), (E4M3, 8), (E5M2, 8)]


@pytest.mark.parametrize("kind, bits", HALVES, ids=[k.name for k, _ in HALVES])
def test_every_stored_value_loads_exactly_and_stores_back(kind, bits, tmp_path):
    every = np.arange(2**bits, dtype=np.uint32).astype(f"u{bits // 8}").view(kind.numpy)
    library = build(
        source_of(fl.bind(fl.parse("y[n] = x[n]"), operands=kind, outputs=F32))[0], tmp_path
    )
    wide = np.zeros(2**bits, np.float32)
    _call(library, every, wide)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    library = build(source_of(fl.bind(fl.parse("y[n] = x[n]"), outputs=kind))[0], tmp_path)
    back = np.zeros_like(every)
    _call(library, wide, back)
    np.testing.assert_array_equal(back.astype(np.float32), wide)


@pytest.mark.parametrize("kind, bits", HALVES, ids=[k.name for k, _ in HALVES])
def test_stores_round_as_ml_dtypes_does_at_and_around_every_midpoint(kind, bits, tmp_path):
    every = np.arange(2**bits, dtype=np.uint32).astype(f"u{bits // 8}").view(kind.numpy)
    finite = np.unique(every.astype(np.float32)[np.isfinite(every.astype(np.float32))])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    top = finite[-1] + (finite[-1] - finite[-2]) * np.float32([0.25, 0.5, 0.75])
    middle = np.concatenate([middle, top, -top, finite])
    x = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
    x = np.concatenate([x, [np.nan, np.inf, -np.inf, 3e38, 1e-45]]).astype(np.float32)
    library = build(source_of(fl.bind(fl.parse("y[n] = x[n]"), outputs=kind))[0], tmp_path)
    got = np.zeros(x.size, kind.numpy)
    _call(library, x, got)
    with np.errstate(all="ignore"):
        expected = x.astype(kind.numpy)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(
        np.signbit(got.astype(np.float32)), np.signbit(expected.astype(np.float32))
    )


def _call(library, source: np.ndarray, target: np.ndarray) -> None:
    pointers = (ctypes.c_void_p(a.ctypes.data) for a in (source, target))
    library.run(ctypes.c_int64(source.size), *pointers)


def test_conditions_are_stored_as_0_and_1(tmp_path):
    typed = bind("p = acc > 0; y[m,n] = p and acc < 2", outputs=BOOL)
    source, found = source_of(typed)
    assert found.lines[0] == "const int p = acc[(m * n_size + n)] > 0.0f;"
    assert print_statements(typed, "cuda", {}, {"y": "y"}).lines[0] == "const bool p = acc > 0.0f;"
    build(source, tmp_path)


def test_long_statements_break_at_the_loosest_operator():
    line = "const float value = " + " + ".join(f"first_{i} * second_{i}" for i in range(6)) + ";"
    broken = wrap(line, 60)
    assert all(len(part) <= 60 for part in broken)
    assert all(part.endswith("+") for part in broken[:-1])
    assert all(part.startswith("    ") for part in broken[1:])
    assert " ".join(part.strip() for part in broken) == line
    assert wrap("short;", 60) == ["short;"]
    assert wrap("x" * 80 + ";", 60) == ["x" * 80 + ";"]


def test_a_text_is_fitted_to_its_width_line_by_line():
    text = """\
int short_line;
  // A comment that goes on for longer than the width, which its words fill again.
  int first_name = second_name + third_name;  // what it is for
  asm("one string of assembly that nobody may break, whatever its width is");
#pragma omp parallel for reduction(+ : a_long_name, another_long_name)
"""
    assert fit(text, 40) == """\
int short_line;
  // A comment that goes on for longer
  // than the width, which its words
  // fill again.
  // what it is for
  int first_name = second_name +
      third_name;
  asm("one string of assembly that nobody may break, whatever its width is");
#pragma omp parallel for reduction(+ : a_long_name, another_long_name)
"""


def test_a_negative_literal_is_not_taken_for_an_operator():
    line = "const float value = maximum(first_operand, -1.0f) * (second_operand - -2.0f);"
    for width in range(20, len(line)):
        assert " ".join(part.strip() for part in wrap(line, width)) == line


def test_integers_at_the_ends_of_their_types():
    assert c_expr.literal(-(2**31), I32) == "INT32_MIN"
    assert c_expr.literal(5_000_000_000, fl.bind(fl.parse("m"), indices=("m",)).index_dtype) == (
        "INT64_C(5000000000)"
    )
    assert c_expr.literal(1e-60, F32) == "0.0f" and c_expr.literal(1e39, F32) == "INFINITY"
    assert c_expr.literal(1e39, F64) == "1.0e+39"


def test_closure_of_nothing_is_nothing():
    assert closure([], "c") == () and helper_texts([], "cuda") == ()
