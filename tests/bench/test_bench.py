"""The benchmark harness end to end on tiny sizes: real kernels, real peers, real failures."""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np
import pytest

from tilegen.bench import cpu, run
from tilegen.bench.peers import cpu_peer, peer_names
from tilegen.bench.peers.torch_flex import _value as flex_value
from tilegen.bench.peers.torch_math import expressible
from tilegen.bench.process import Worker, WorkerFailed
from tilegen.bench.run import _chosen
from tilegen.bench.samples import Row, load, verdict
from tilegen.bench.suites import BenchCase, read_suite
from tilegen.bench.tensors import slopes
from tilegen.errors import UsageError
from tilegen.problems.attention import Attention
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.gated_gemm import GatedGemm
from tilegen.problems.gemm import Gemm
from tilegen.problems.grouped_gemm import GroupedGemm
from tilegen.problems.scaled_gemm import ScaledGemm
from tilegen.spec import KernelSpec
from tilegen.targets import target

SUITE = """\
description = "tiny"

[[case]]
group = "small"
operator = "gemm"
dtype = "f32"
layout = "tt"
sizes = { m = [16, 33], n = 24, k = 17 }
"""


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def broken_python(tmp_path, monkeypatch):
    """Replace modules by broken ones in the worker processes."""

    def replace(**modules: str) -> None:
        folder = tmp_path / "shadow"
        folder.mkdir()
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', '')}")

    return replace


def test_bench_saves_draws_and_compares(tilegen, suite, tmp_path):
    pytest.importorskip("matplotlib")
    words = ("bench", suite, "--target", "portable", "--rounds", "4", "--peers", "numpy")
    ran = tilegen(*words, "--save", tmp_path / "a.json", "--chart", tmp_path / "a.png")
    assert ran.status == 0, ran.err
    assert "gemm f32 tt 16x24x17" in ran.out and "geometric mean" in ran.out
    report = load(tmp_path / "a.json")
    assert [r.sizes["m"] for r in report.rows] == [16, 33]
    for row in report.rows:
        assert not row.errors
        assert set(row.seconds) == {"tilegen", "numpy"}
        assert len(row.seconds["tilegen"]) == len(row.ratios["numpy"]) == 4
        assert row.flops == 2 * row.sizes["m"] * 24 * 17
    assert report.machine["threads"] == "1" and report.machine["compiler"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    shown = tilegen("bench", "--show", tmp_path / "a.json")
    assert shown.out == ran.out[: len(shown.out)]


def test_a_run_that_is_stopped_keeps_what_it_timed(tilegen, suite, tmp_path, monkeypatch):
    """The cases that were timed lie beside the file, and an earlier file stays whole."""
    timed = run._cpu_row

    def stop_at_the_second(case, *others):
        if case.sizes["m"] == 33:
            raise KeyboardInterrupt
        return timed(case, *others)

    monkeypatch.setattr(run, "_cpu_row", stop_at_the_second)
    saved = tmp_path / "a.json"
    saved.write_text("earlier")
    words = ("bench", suite, "--target", "portable", "--rounds", "3", "--peers", "numpy")
    assert tilegen(*words, "--save", saved).status == 130
    assert saved.read_text() == "earlier"
    kept = load(tmp_path / "a.json.partial")
    assert [r.sizes["m"] for r in kept.rows] == [16] and len(kept.rows[0].ratios["numpy"]) == 3
    monkeypatch.undo()
    assert tilegen(*words, "--save", saved).status == 0
    assert len(load(saved).rows) == 2 and not (tmp_path / "a.json.partial").exists()


def test_against_an_earlier_run_tells_slower_by_its_exit_code(tilegen, suite, tmp_path):
    words = ("bench", suite, "--target", "portable", "--rounds", "4", "--peers", "numpy")
    assert tilegen(*words, "--save", tmp_path / "a.json").status == 0
    table = json.loads((tmp_path / "a.json").read_text())
    for row in table["rows"]:  # what is compared; a busy machine's outlier would widen the noise
        row["ratios"]["numpy"] = [2.0, 2.02, 1.98, 2.01]
    (tmp_path / "a.json").write_text(json.dumps(table))
    for scale, status, word in ((100.0, 1, "slower"), (0.01, 0, "faster")):
        changed = json.loads(json.dumps(table))
        for row in changed["rows"]:
            row["ratios"]["numpy"] = [scale * r for r in row["ratios"]["numpy"]]
        (tmp_path / "b.json").write_text(json.dumps(changed))
        ran = tilegen("bench", "--show", tmp_path / "a.json", "--against", tmp_path / "b.json")
        assert ran.status == status
        assert ran.out.count(f"numpy: {word}") == 2


def test_an_earlier_run_is_read_before_anything_is_timed(tilegen, suite, monkeypatch):
    monkeypatch.setattr("tilegen.cli.bench.run_cpu", lambda *_: pytest.fail("it timed"))
    ran = tilegen("bench", suite, "--target", "portable", "--against", "nowhere.json")
    assert ran.status == 2 and "nowhere.json" in ran.err
    ran = tilegen("bench", suite, "--target", "portable", "--save", "/proc/nowhere/a.json")
    assert ran.status == 2 and "cannot write below /proc/nowhere" in ran.err


def test_a_peer_that_is_not_installed_is_named_and_the_others_are_timed(
    tilegen, suite, broken_python, tmp_path
):
    broken_python(scipy_openblas32="raise ImportError('no such wheel')")
    words = ("bench", suite, "--target", "portable", "--rounds", "3", "--peers", "numpy,openblas")
    ran = tilegen(*words, "--save", tmp_path / "a.json")
    assert ran.status == 0
    assert "openblas: ImportError: no such wheel" in ran.out
    for row in load(tmp_path / "a.json").rows:
        assert list(row.ratios) == ["numpy"]


def test_a_peer_that_crashes_costs_itself_alone(tilegen, suite, broken_python, tmp_path):
    broken_python(scipy_openblas32="import os\nos.kill(os.getpid(), 11)")
    words = ("bench", suite, "--target", "portable", "--rounds", "3", "--peers", "numpy,openblas")
    ran = tilegen(*words, "--save", tmp_path / "a.json")
    assert ran.status == 0
    for row in load(tmp_path / "a.json").rows:
        assert row.errors["openblas"] == "the process stopped with signal 11 (SIGSEGV)"
        assert list(row.ratios) == ["numpy"]


def test_an_unknown_peer_and_suite_are_refused_before_anything_runs(tilegen, suite):
    ran = tilegen("bench", suite, "--peers", "nunpy")
    assert ran.status == 2 and "did you mean 'numpy'" in ran.err
    ran = tilegen("bench", suite.with_name("tony.toml"))
    assert ran.status == 2 and "Suites there: tiny" in ran.err


def test_groups_are_picked_by_pattern(tilegen, tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(SUITE + SUITE.partition("\n\n")[2].replace("small", "large"))
    whole = read_suite(path)
    assert [c.group for c in whole.cases] == ["small", "small", "large", "large"]
    assert whole.select([]) == whole
    assert {c.group for c in whole.select(["la*"]).cases} == {"large"}
    ran = tilegen("bench", path, "--groups", "lareg")
    assert ran.status == 2 and "did you mean 'large'" in ran.err


def test_a_case_takes_the_models_schedule_unless_it_names_one():
    sizes = {"m": 4, "n": 4096, "k": 4096}
    plain = BenchCase("gemm", {"dtype": "f32"}, sizes)
    assert plain.chosen(target("x86-64-v4")).schedule.name == "skinny"
    named = BenchCase("gemm", {"dtype": "f32", "schedule": "packed"}, sizes)
    assert named.chosen(target("x86-64-v4")) == named.spec(target("x86-64-v4"))


def test_blas_peers_compute_the_product():
    """A peer that computes something else would make every ratio worthless."""
    import numpy as np

    rng = np.random.default_rng(1)
    for layout in ("tt", "tn", "nt", "nn"):
        spec = KernelSpec.make("gemm", "portable", {"dtype": "f32", "layout": layout})
        sizes = {"m": 5, "n": 7, "k": 11}
        ran = 0
        for name in ("numpy", "openblas", "mkl"):
            arrays = spec.problem.draw(sizes, rng)
            arrays["c"] = np.zeros((5, 7), np.float32)
            try:
                call = cpu_peer(name).prepare(spec, sizes, arrays, {}, 1)
            except ImportError:
                continue
            call()
            a = arrays["a"] if layout[0] == "t" else arrays["a"].T
            b = arrays["b"] if layout[1] == "t" else arrays["b"].T
            np.testing.assert_allclose(arrays["c"], a @ b, rtol=1e-4, atol=1e-4)
            ran += 1
        assert ran


@pytest.mark.parametrize("layout", ["tt", "tn"])
def test_mkl_computes_the_product_of_bf16(layout):
    spec = KernelSpec.make("gemm", "amx", {"dtype": "bf16", "out_dtype": "f32", "layout": layout})
    assert "mkl_bf16" in peer_names("c_openmp", spec.problem)
    assert "mkl_bf16" not in peer_names("c_openmp", Gemm("bf16"))
    sizes = {"m": 5, "n": 7, "k": 11}
    arrays = spec.problem.draw(sizes, np.random.default_rng(1))
    arrays["c"] = np.zeros((5, 7), np.float32)
    try:
        call = cpu_peer("mkl_bf16").prepare(spec, sizes, arrays, {}, 1)
    except ImportError:
        pytest.skip("neither mkl nor torch is installed")
    call()
    a, b = arrays["a"].astype(np.float32), arrays["b"].astype(np.float32)
    expected = a @ (b if layout == "tt" else b.T)
    np.testing.assert_allclose(arrays["c"], expected, rtol=1e-4, atol=1e-4)


def test_peers_are_found_without_importing_their_libraries(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "torch" in peer_names("c_openmp", Gemm(dtype="f32"))
    assert "torch" in peer_names("c_openmp", FormulaProblem(formula="softmax"))
    assert not expressible(FormulaProblem(formula="rotary"))
    assert not expressible(Gemm(epilogue="gelu(acc) * 2"))


def test_fused_products_have_fused_peers():
    def known(problem) -> set[str]:
        return set(peer_names("cuda", problem))

    assert known(Gemm("bf16", epilogue="bias_gelu")) == {
        *("torch", "cublaslt", "triton", "tilelang", "torch.compile")
    }
    assert known(Gemm("bf16", epilogue="bias_silu")) == {"torch", "torch.compile"}
    assert known(GatedGemm("bf16")) == {"torch", "torch_gated", "torch.compile"}
    assert known(GroupedGemm("bf16")) == {"torch"}
    assert known(ScaledGemm()) == {"torch_blocks"}
    assert known(ScaledGemm(epilogue="bias")) == set()


def test_scores_that_are_formulas_have_flex_attention_and_the_slopes_of_models():
    score = {"causal": True, "score": "s - slope[h] * (j - i)"}
    assert peer_names("cuda", Attention("bf16", **score)) == ["flex", "read", "without_score"]
    assert "flex" not in peer_names("cuda", Attention("bf16", score="erf(s)"))
    drawn = slopes(Attention("bf16", **score), {"heads": 16})["slope"]
    assert drawn[0] == -(2**-0.5) and drawn[-1] == -(2**-8) and drawn.dtype == np.float32
    assert slopes(Attention("bf16", causal=True), {"heads": 16}) == {}


def test_reading_is_the_ceiling_of_decoding_and_not_of_prompts():
    spec = KernelSpec.make("attention", target("sm_90a"), {"dtype": "bf16"})
    heads = {"batch": 4, "heads": 32, "kv_heads": 8, "seq_k": 4096}
    for queries, given in ((1, ["cudnn", "flash", "read"]), (4096, ["cudnn", "flash"])):
        sizes = heads | {"seq_q": queries}
        row = Row("", "", "attention", sizes)
        row.flops, row.bytes = spec.problem.flops(sizes), spec.problem.bytes(sizes)
        assert _chosen("cuda", spec, (), row) == given


def test_the_formula_of_flex_attention_is_ours():
    torch = pytest.importorskip("torch")
    problem = Attention("f32", score="softcap(s, 30) + slope[h] * (j - i)")
    (score,) = problem.formulas
    slope = torch.tensor([0.25, 0.5])
    given = [torch.tensor(x) for x in (0, 1, 2, 5)]
    found = flex_value(score, {"slope": slope}, {}, 3, *given, torch.tensor(4.0))
    assert abs(float(found) - (30 * np.tanh(4 / 30) + 0.5 * (5 - (2 + 3)))) < 1e-5


def test_what_says_where_others_end_is_not_drawn_at_random():
    sizes = {"groups": 9, "m": 100_000, "n": 8, "k": 16}
    problem = GroupedGemm("bf16")
    for made in (
        problem.places(sizes, np.random.default_rng(3)),
        problem.draw(sizes, np.random.default_rng(4)),
    ):
        ends = made["ends"]
        assert (np.diff(ends) >= 0).all() and ends[0] >= 0 and ends[-1] == sizes["m"]


def test_a_worker_that_hangs_is_killed_with_all_it_started(tmp_path):
    worker = Worker("numpy", ["numpy", "1"], cpu.environment(1))
    os.kill(worker._process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerFailed) as failed:
        worker.ask("time", timeout=0.5)
    assert failed.value.reason == "hung" and "no answer within" in failed.value.message
    assert not worker.alive


def test_a_worker_that_is_asked_nonsense_refuses_and_serves_on():
    worker = Worker("numpy", ["numpy", "1"], cpu.environment(1))
    try:
        for request in ("time", "prepare {}", "prepare {"):
            with pytest.raises(WorkerFailed) as failed:
                worker.ask(request, timeout=60)
            assert failed.value.reason == "refused"
    finally:
        worker.close()
    assert not worker.alive


@pytest.mark.parametrize(
    "change, noise, expected",
    [(1.0, 0.001, "same"), (1.2, 0.01, "faster"), (0.8, 0.01, "slower"), (1.05, 0.3, "unclear")],
)
def test_verdicts_know_their_noise(change, noise, expected):
    old = [1 + noise * step for step in (-2, -1, 0, 1, 2, 1, -1, 0)]
    assert verdict(old, [change * value for value in old]) == expected


def test_a_peer_that_packed_weights_ahead_competes_with_kernels_that_did():
    from tilegen.bench.samples import Row

    row = Row("", "", "gemm", {}, kernel="gemm_f32_tn_2400x256x512_r6x64_x86_64_v4")
    row.ratios = {"onednn": [1.1], "onednn_prepacked": [0.9], "torch": [1.2], "read": [0.5]}
    assert row.best_peer() == ("onednn", 1.1)
    assert row.spared_packing() == ("onednn_prepacked", 0.9)
    row.kernel = "gemm_f32_tn_prepacked_2400x256x512_r6x64_x86_64_v4"
    assert row.best_peer() == ("onednn_prepacked", 0.9)
    assert row.spared_packing()[0] == ""


def test_a_comparison_counts_its_verdicts_and_what_is_not_timed_any_more():
    from tilegen.bench.samples import Report, Row
    from tilegen.bench.table import compare

    def report(device: str, **ratios: float | None) -> Report:
        rows = [Row(case, "", "gemm", {}) for case in ratios]
        for row, ratio in zip(rows, ratios.values()):
            row.errors = {"tilegen": "refused"} if ratio is None else {}
            row.seconds = {"tilegen": [1.0] * 4} if ratio else {}
            row.ratios = {"torch": [ratio] * 4} if ratio else {}
        return Report("s", {"name": device}, rows)

    old = report("H200", a=1.0, b=1.0, c=1.0, gone=1.0)
    lines, worse = compare(old, report("H200", a=1.0, b=0.9, c=None, d=1.0))
    assert worse == 2 and lines[0] == "a torch: same (1.000 -> 1.000)"
    assert lines[2:4] == ["c: not timed now: refused", "d: new"]
    assert lines[-1] == "1 same, 1 slower, 1 not timed, 1 only in the earlier run"
    lines, worse = compare(old, report("H100", a=1.1))
    assert worse == 0 and lines[0] == "of two devices: H200 and H100"


def test_a_suite_combines_lists_and_names_the_broken_case(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('[[case]]\noperator = "gemm"\nsizes = { m = [1, 2], n = [3, 4], k = 5 }\n')
    assert [tuple(c.sizes.values()) for c in read_suite(path).cases] == [
        (1, 3, 5),
        (1, 4, 5),
        (2, 3, 5),
        (2, 4, 5),
    ]
    path.write_text('[[case]]\noperator = "gemm"\n')
    with pytest.raises(UsageError, match="case 1 has no 'sizes'"):
        read_suite(path)


def test_large_inputs_repeat_a_block_and_integers_are_drawn_whole():
    from tilegen.bench.worker import DRAWN_ELEMENTS, timing_inputs

    rng = np.random.default_rng(0)
    gemm = Gemm(dtype="f32")
    arrays = timing_inputs(gemm, {"m": 3000, "n": 8, "k": 3000}, rng)
    assert arrays["a"].shape == (3000, 3000) and arrays["b"].shape == (8, 3000)
    assert 0.99 < arrays["a"].std() < 1.01
    assert not np.array_equal(arrays["a"][0], arrays["a"][1])
    entropy = FormulaProblem(formula="cross_entropy")
    sizes = {"m": 3, "n": DRAWN_ELEMENTS}
    assert set(timing_inputs(entropy, sizes, rng)) == {"x", "t"}


def test_inputs_of_a_mebibyte_and_more_are_rotated_past_any_l2():
    from tilegen.bench.gpu import ROTATION_BYTES, input_sets

    for bytes_ in (1 << 20, 3 << 20, 1 << 28, 1 << 32):
        assert input_sets(bytes_) * bytes_ >= ROTATION_BYTES
    assert input_sets(0) == input_sets(1) <= 256


def test_a_timing_does_not_grow_with_those_before_it(monkeypatch):
    """One competitor timed first and last among fifty takes the same time both times."""
    clock = [0.0]
    monkeypatch.setattr(cpu.time, "perf_counter", lambda: clock[0])

    def takes(seconds: float):
        def call() -> None:
            clock[0] += seconds

        return call

    found = [cpu.time_calls(takes(s), 0.5) for s in (0.25, *([1.0] * 48), 0.25)]
    assert found[0] == found[-1] == 0.25 and set(found[1:-1]) == {1.0}


def test_the_table_against_the_ceiling_takes_the_fastest_copy_of_a_large_size():
    from tilegen.bench.against import against_ceiling
    from tilegen.bench.samples import Report, Row

    def row(m, seconds, copy):
        found = Row(f"softmax f32 {m}x1024", "", "softmax", {"m": m, "n": 1024}, bytes=m << 13)
        found.seconds = {"tilegen": [seconds], "copy": [copy]}
        found.ratios = {"copy": [copy / seconds]}
        return found

    report = Report("s", {}, [row(32768, 1.0, 0.5), row(65536, 2.0, 9.0), row(16, 1.0, 0.7)])
    assert against_ceiling(report)[-2] == "| softmax f32 | 0.50 | 0.50 | 0.70 |"
    assert against_ceiling(Report("s", {}, [])) == []


def test_a_gpu_has_one_lock_however_it_is_named(monkeypatch, tmp_path):
    from tilegen.bench.process import gpu_of

    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0, GPU-1f2e\\n1, GPU-9a8b\\n'\n")
    tool.chmod(0o755)
    gpu_of.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert {gpu_of(name) for name in ("", "0", "0,1", "GPU-1f")} == {"GPU-1f2e"}
    assert {gpu_of(name) for name in ("1", "GPU-9a8b,0")} == {"GPU-9a8b"}
    gpu_of.cache_clear()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert gpu_of("MIG-7/1") == "MIG-7-1"
    gpu_of.cache_clear()


def test_an_operator_is_timed_without_a_suite(tilegen):
    words = ["--target", "c_openmp", "--rounds", "3", "--peers", "numpy"]
    ran = tilegen("bench", "gemm", *words, "--m", "64", "--n", "48", "--k", "32")
    assert ran.status == 0, ran.err
    assert "gemm f32 64x48x32" in ran.out and "numpy" in ran.out
    assert tilegen("bench", "gemm", "--groups", "large", *words).status == 2
    missing = tilegen("tune", "gemm", *words[:2])
    assert missing.status == 2 and "--at m=512,n=512,k=512" in missing.err


@pytest.mark.parametrize(
    "has, level",
    [((), "portable"), (("x86-64-v3",), "x86-64-v3"), (("x86-64-v3", "x86-64-v4"), "x86-64-v4")],
)
def test_c_openmp_is_the_widest_level_of_this_processor(monkeypatch, has, level):
    from tilegen.cli import cases

    runs = {"portable", *has, "x86-64-vnni", "amx"}
    monkeypatch.setattr(cases, "missing_features", lambda t: [] if t.name in runs else ["more"])
    assert cases.target_here("c_openmp").name == level
    assert cases.target_here("amx").name == "amx"
