"""Fused formulas beside their splits: the same results, and an answer to which wins."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.bench.samples import Report, Row, load
from tilegen.bench.split import splits
from tilegen.bench.table import wins
from tilegen.bench.worker import host_arrays, split_calls
from tilegen.errors import UsageError
from tilegen.problems.base import Problem
from tilegen.spec import KernelSpec
from tilegen.targets import target

WHERE = target("portable")
SMALL = {"dtype": "f32", "tile": "32x32x32"}


def constants(problem: Problem) -> dict[str, float]:
    return {s.name: 1.5 for s in problem.scalars()}


def parts_of(operator: str, given: dict[str, str]) -> list[list[str]]:
    problem = KernelSpec.make(operator, WHERE, given).problem
    return [[part.text() for part in parts] for parts in splits(problem, WHERE)]


def test_a_gemm_is_cut_before_its_epilogue():
    found = parts_of("gemm", SMALL | {"epilogue": "gelu(alpha * acc + bias[n]) + residual[m,n]"})
    assert found == [["gemm", "y[m,n] = gelu(alpha * c[m,n] + bias[n]) + residual[m,n]"]]


def test_a_formula_is_cut_after_its_statements():
    assert parts_of("add_rmsnorm", {}) == [
        [
            "h[m,n] = x[m,n] + r[m,n]",
            "y[m,n] = h[m,n] * rsqrt(mean(h[m,n] * h[m,n], n) + eps) * w[n]",
        ]
    ]
    found = parts_of("layernorm", {})
    assert len(found) == 3 and [len(parts) for parts in found] == [2, 2, 3]
    assert found[0][0] == "mu[m] = mean(x[m,n], n)"


@pytest.mark.parametrize(
    "operator, given, reason",
    [
        ("gemm", SMALL, "nothing to split"),
        ("gemm", SMALL | {"epilogue": "blas"}, "reads what it writes"),
        ("relu", {}, "nothing to split"),
    ],
)
def test_what_cannot_be_cut_is_said(operator, given, reason):
    with pytest.raises(UsageError, match=reason):
        parts_of(operator, given)


@pytest.mark.parametrize(
    "operator, given, output",
    [
        ("gemm", SMALL | {"epilogue": "relu(2 * acc + bias[n])"}, "c"),
        ("gemm", SMALL | {"epilogue": "bias_gelu", "operands": "bias:f64"}, "c"),
        ("layernorm", {}, "y"),
        ("softmax", {}, "y"),
        ("add_rmsnorm", {}, "y"),
    ],
)
def test_every_split_computes_what_the_fused_kernel_computes(operator, given, output, monkeypatch):
    # Scalars are drawn for each part of its own; here all must be the same.
    monkeypatch.setattr(Problem, "draw_scalars", lambda self, rng: constants(self))
    spec = KernelSpec.make(operator, WHERE, dict(given))
    sizes = {s.name: extent for s, extent in zip(spec.problem.sizes(), (5, 33, 17))}
    for parts in splits(spec.problem, WHERE):
        calls, shared = split_calls([part.spec(WHERE) for part in parts], sizes, 1)
        arrays, _ = host_arrays(spec.problem, sizes, np.random.default_rng(0))
        for tensor in spec.problem.tensors():
            if tensor.is_read:
                shared[tensor.name][...] = arrays[tensor.name]
        for call in calls:
            call()
        want = spec.problem.reference(sizes, arrays, constants(spec.problem))
        last = shared["y"]
        value = np.asarray(want[output].value)
        assert np.abs(last - value).max() <= 1e-4 * (1 + np.abs(value).max())


def test_bench_split_prints_ratios_and_what_the_splits_are(tilegen, tmp_path):
    suite = tmp_path / "s.toml"
    suite.write_text('[[case]]\noperator = "softmax"\nsizes = { m = 8, n = 64 }\n')
    words = ("bench", suite, "--split", "--target", "portable", "--rounds", "3")
    ran = tilegen(*words, "--save", tmp_path / "a.json")
    assert ran.status == 0, ran.err
    assert "split 1: e[m,n] = exp(x[m,n] - max(x[m,n], n)) | y[m,n] =" in ran.out
    (row,) = load(tmp_path / "a.json").rows
    assert list(row.ratios) == ["split 1"] and not row.errors
    assert "softmax: " in ran.out and " at 8x64 (" in ran.out


def test_who_wins_is_said_by_size_and_not_within_noise():
    def row(m: int, fused: list[float], name: str = "split 1") -> Row:
        made = Row(f"softmax bf16 {m}x64", "", "softmax", {"m": m, "n": 64})
        made.ratios = {name: fused, "split 2": [9.0] * 8}
        return made

    rows = [row(1, [1.5] * 8), row(2, [0.9] * 8), row(3, [1.01] * 8), row(4, [1.3] * 8)]
    rows.append(row(5, [0.7, 1.5, 0.8, 1.6, 0.7, 1.5, 0.8, 1.6]))
    (line,) = wins(Report("s", {}, rows))
    assert line == (
        "softmax bf16: fused wins at 1x64 (1.50), 4x64 (1.30); split 1 wins at 2x64 (0.90); "
        "neither wins beyond noise at 3x64 (1.01), 5x64 (1.15)"
    )
