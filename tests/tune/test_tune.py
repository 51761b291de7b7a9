"""Searches survive their candidates, an interruption, and noise."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from tests.conftest import ROOT
from tilegen.bench import cpu, gpu
from tilegen.bench.suites import BenchCase
from tilegen.cli.console import progress
from tilegen.cli.tune import _Bars
from tilegen.errors import CheckFailed
from tilegen.schedules.gemm_packed import PackedGemm
from tilegen.tables import files
from tilegen.targets import target
from tilegen.tune import candidates
from tilegen.tune.confirm import pick
from tilegen.tune.executors import local
from tilegen.tune.journal import Journal
from tilegen.tune.report import report
from tilegen.tune.search import Budget, Progress
from tilegen.tune.trial import Outcome, Rules
from tilegen.tune.cases import Settings, Tuned
from tilegen.tune.tuner import Tuner
from tilegen.values import Tile

WHERE = target("portable")
CASE = BenchCase("gemm", {"dtype": "f32", "layout": "tt"}, {"m": 24, "n": 24, "k": 24})
SMALL = [PackedGemm(Tile((16, 16, depth))) for depth in (8, 16, 24, 32, 40, 48, 56, 64)]

# What each planted candidate does instead of, or before, computing; by its place in the space.
BEGINS = "  if (refusal != 0) {\n    return EINVAL;\n  }\n"
PLANTED = {
    1: "  volatile int stuck = 1;\n  while (stuck != 0) {\n  }\n",
    2: "  __builtin_trap();\n",
    3: "  k = k > 1 ? k - 1 : k;\n",
    4: "  this is no C;\n",
    5: "  n = n > 4 ? n / 2 : n;\n",
    6: "  if (m > 0) {\n    return 0;\n  }\n",
}


def planted(schedule, problem, where, rank):
    """Emit a candidate, with a fault written into the launcher of some."""
    made = candidates.candidate(schedule, problem, where, rank)
    kernel = made.kernel
    text = kernel.files[kernel.source]
    assert BEGINS in text
    changed = text.replace(BEGINS, BEGINS + PLANTED.get(rank, ""))
    kernel = dataclasses.replace(kernel, files={**kernel.files, kernel.source: changed})
    return dataclasses.replace(made, kernel=kernel)


@pytest.fixture
def settings(tmp_path):
    rules = Rules("test-cpu", rounds=3, seconds=0.002, timeout=20.0)
    return Settings(WHERE, tmp_path / "tuning", Budget(), rules, peers=())


def tuner(settings, emit=candidates.candidate, schedules=tuple(SMALL)):
    return Tuner(settings, local(2), emit, lambda *_: candidates.Space(schedules))


def test_K15_candidates_that_hang_crash_err_or_do_not_compile_cost_only_themselves(settings):
    settings = dataclasses.replace(settings, rules=dataclasses.replace(settings.rules, timeout=8.0))
    told = []
    one = tuner(settings, planted).tune(CASE, lambda state: told.append(state.done))
    outcomes = one.search.outcomes
    assert {p: outcomes[p].stage for p in outcomes} == {
        0: "",
        1: "verify",
        2: "verify",
        3: "verify",
        4: "compile",
        5: "verify",
        6: "verify",
        7: "",
    }
    assert "no answer within 8 s, killed" in outcomes[1].reason
    assert "signal" in outcomes[2].reason
    assert "expected" in outcomes[3].reason
    assert "does not compile" in outcomes[4].reason and "error" in outcomes[4].reason
    # Half an output, and none at all: neither passes on what another kernel wrote before.
    for place in (5, 6):
        assert "c[" in outcomes[place].reason and "nan" in outcomes[place].reason
        assert outcomes[place].speedup == 0.0
    assert one.row.schedule in {one.search.candidate(p).schedule for p in (0, 7)}
    assert one.row.trials == "8 of 8 tried, 6 failed"
    assert told[-1] == 8
    assert len(one.failures()) == 6
    told = one.why_failed()
    assert len(told) == 6 and told[0].startswith("failed at compile: packed tile=16x16x40")
    assert not _children()


def _children() -> list[str]:
    found = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True)
    return [line for line in found.stdout.decode().splitlines() if "tilegen.bench.worker" in line]


def test_a_default_that_is_wrong_stops_the_search(settings):
    wrong = lambda s, p, w, rank: planted(s, p, w, 3 if rank == 0 else 0)  # noqa: E731
    with pytest.raises(CheckFailed, match="the default schedule cannot be timed: verify"):
        tuner(settings, wrong).tune(CASE, lambda state: None)


def test_a_case_that_cannot_be_tuned_costs_itself_alone(settings):
    cases = [dataclasses.replace(CASE, sizes={"m": m, "n": 24, "k": 24}) for m in (8, 48)]

    def space(problem, where, name, sizes):
        return candidates.Space(SMALL[:1] if sizes["m"] == 48 else SMALL[1:2])

    wrong = lambda s, p, w, rank: planted(s, p, w, 3 if s is SMALL[1] else 0)  # noqa: E731
    one = Tuner(settings, local(2), wrong, space)
    elsewhere = BenchCase("gated_gemm", {}, {"m": 8, "n": 8, "k": 8})
    found = one.run([elsewhere, *cases], lambda case: lambda state: None)
    assert [t.row.sizes["m"] for t in found] == [48]
    (first, no_schedule), (case, why) = one.failed
    assert first is elsewhere and "no schedule computes this gated_gemm" in no_schedule
    assert case.sizes["m"] == 8 and "the default schedule cannot be timed: verify" in why
    # What was confirmed is a report as bench saves it.
    (saved,) = report("some", one.done).rows
    assert saved.sizes["m"] == 48 and saved.kernel and saved.command.startswith("tilegen emit gemm")
    assert len(saved.seconds["tilegen"]) == len(found[0].row.seconds) and not saved.ratios


def test_a_second_run_measures_nothing_again(settings, monkeypatch):
    from tilegen.tune import search

    two = SMALL[:2]
    first = tuner(settings, schedules=two).tune(CASE, lambda state: None)
    assert not first.kept
    again = tuner(settings, schedules=two).tune(CASE, lambda state: None)
    assert again.kept and again.row.text() == first.row.text()
    # With --again the journal still knows every trial; only the confirming run is made.
    monkeypatch.setattr(search, "measure", None)
    settings = dataclasses.replace(settings, again=True)
    third = tuner(settings, schedules=two).tune(CASE, lambda state: None)
    assert third.search.outcomes == first.search.outcomes


def test_a_changed_kernel_is_measured_again(settings):
    two = SMALL[:2]
    settings = dataclasses.replace(settings, again=True)
    tuner(settings, schedules=two).tune(CASE, lambda state: None)
    path = next(settings.tables.rglob("*.jsonl"))
    before = len(path.read_text().splitlines())

    def changed(schedule, problem, where, rank):
        made = candidates.candidate(schedule, problem, where, rank)
        text = made.kernel.files[made.kernel.source] + "int tilegen_another(void);\n"
        kernel = dataclasses.replace(
            made.kernel, files={**made.kernel.files, made.kernel.source: text}
        )
        return dataclasses.replace(made, kernel=kernel)

    tuner(settings, changed, two).tune(CASE, lambda state: None)
    assert len(path.read_text().splitlines()) == 2 * before


def test_ctrl_c_keeps_what_was_measured_and_a_rerun_goes_on(tmp_path):
    command = [sys.executable, "-m", "tilegen", "tune", "softmax", "--target", "portable"]
    command += ["--at", "m=8,n=16", "--budget", "6", "--peers", "none", "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A shell's background job ignores Ctrl-C, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 150

    def journal() -> list[str]:
        return [x for p in tmp_path.rglob("*.jsonl") for x in p.read_text().splitlines()]

    while len(journal()) < 2 and running.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    printed = running.communicate(timeout=60)[0].decode()
    assert running.returncode == 130, printed
    assert "what was measured is kept" in printed
    kept = journal()
    assert 2 <= len(kept) < 6
    assert not list(tmp_path.rglob("*.toml"))
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    entries = [json.loads(line) for line in journal()]
    assert [json.loads(line) for line in kept] == entries[: len(kept)]
    keys = [entry["key"] for entry in entries]
    assert len(keys) == len(set(keys)) == 6
    assert list(tmp_path.rglob("formula.toml"))


def test_a_line_that_a_kill_cut_off_costs_one_trial(tmp_path):
    context = {"toolchain": "gcc"}
    book = Journal(tmp_path / "j" / "x.jsonl", context)
    done = Outcome(verified="3 cases", seconds=(1.0,), ratios=(1.0,))
    book.add("one m=1 threads=1", done)
    with open(book.path, "a") as stream:
        stream.write('{"key": "two m=1 threads=1", "outco')
    again = Journal(book.path, context)
    assert again.get("one m=1 threads=1") == done and again.verified("one") == "3 cases"
    assert again.get("two m=1 threads=1") is None
    again.add("three m=1 threads=1", done)
    assert Journal(book.path, context).get("three m=1 threads=1") == done
    assert Journal(book.path, {"toolchain": "clang"}).get("one m=1 threads=1") is None


def test_winners_are_crossed_over_the_sizes_of_a_problem(settings):
    cases = [dataclasses.replace(CASE, sizes={"m": m, "n": 24, "k": 24}) for m in (8, 48)]
    found = tuner(settings, schedules=SMALL[:3]).run(cases, lambda case: lambda state: None)
    rows = files.read(files.table_path(settings.tables, "test-cpu", "gemm")).rows
    assert len(rows) == 2 and [t.row.sizes["m"] for t in found] == [8, 48]
    for row in rows:
        assert {r.schedule for r in rows} <= set(row.speedups)


@pytest.mark.parametrize(
    "ratios, winner",
    [
        ({"default": [1.0] * 8, "a": [1.005] * 8}, "default"),
        ({"default": [1.0] * 8, "a": [1.05] * 8, "b": [1.055] * 8}, "a"),
        ({"default": [1.0] * 8, "a": [1.05] * 8, "b": [1.2] * 8}, "b"),
        ({"default": [1.0] * 8, "a": [1.004] * 8, "b": [1.0103] * 8}, "b"),
        ({"default": [1.0] * 8, "a": [1.3, 3.1, 1.4, 3.0, 2.2, 1.2, 2.9, 2.3]}, "a"),
        ({"default": [1.0] * 8, "a": [0.9, 1.3, 0.8, 1.4, 1.1, 1.2, 1.0, 1.3]}, "default"),
    ],
)
def test_ties_go_to_the_first_and_noise_never_replaces_the_default(ratios, winner):
    assert pick(ratios) == winner


@pytest.mark.parametrize("seed", range(5))
def test_K21_noise_never_costs_more_than_three_per_cent(seed):
    """Five searches of one problem: winners may differ, but none is far from the best, and ties do not flip."""
    draw = random.Random(seed)
    true = {"default": 1.0, "a": 1.19, "b": 1.2, "c": 1.195, "d": 0.7}
    rounds = range(15)
    times = {n: [draw.lognormvariate(0, 0.02) / speed for _ in rounds] for n, speed in true.items()}
    ratios = {n: [b / t for b, t in zip(times["default"], times[n])] for n in true}
    assert true[pick(ratios)] >= 0.97 * 1.2
    alike = {n: [b * speed for b in ratios["default"]] for n, speed in true.items()}
    assert pick(alike) == "a"


def test_K23_a_timing_does_not_depend_on_what_was_timed_before(monkeypatch):
    now = 0.0

    def call(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(cpu.time, "perf_counter", lambda: now)
    first = cpu.time_calls(lambda: call(0.003))
    for number in range(1, 50):
        assert cpu.time_calls(lambda: call(0.001 * number)) == pytest.approx(0.001 * number)
    assert cpu.time_calls(lambda: call(0.003)) == pytest.approx(first) == pytest.approx(0.003)


def test_K19_inputs_are_rotated_past_any_cache():
    for size in (1 << 20, 3 << 20, 100 << 20, 256 << 20, 5 << 30):
        assert gpu.input_sets(size) * size >= 256 << 20
        assert gpu.input_sets(size) >= 2


def test_candidates_that_failed_for_one_reason_are_told_in_one_line():
    class Searched:
        schedules = SMALL
        outcomes = {place: Outcome("compile", "no such flag") for place in range(3)}
        outcomes |= {3: Outcome("verify", "c[0,0] is nan"), 4: Outcome(ratios=(1.0,))}

    several, one = Tuned(row=None, search=Searched).why_failed()
    assert several.endswith("and 2 more: no such flag") and "failed at verify" in one


def test_K17_a_failed_trial_is_never_the_best():
    failed = Outcome("time", "returned 22", "3 cases", (), ())
    assert failed.speedup == 0.0 and not failed.ok
    assert Outcome(verified="3 cases").speedup == 0.0


def test_classes_take_turns_from_their_defaults_on_the_same_for_the_same_seed():
    where = target("sm_90a")
    problem = BenchCase("gemm", {}, {}).spec(where).problem
    schedules = candidates.space(problem, where).schedules
    first = candidates.order(schedules, seed=3)
    assert first == candidates.order(schedules, seed=3) != candidates.order(schedules, seed=4)
    assert first[0] == 0 and sorted(first) == list(range(len(schedules)))
    classes = list(dict.fromkeys(type(s) for s in schedules))
    assert len(classes) > 1
    defaults = [cls.default(problem, where) for cls in classes]
    assert [schedules[place] for place in first[: len(classes)]] == defaults


def test_bars_keep_count_and_best_on_a_narrow_terminal_and_show_one_case_of_a_suite():
    shapes = [{"m": m, "n": 4096, "k": 4096} for m in range(1, 100)]
    cases = [BenchCase("gemm", {"dtype": "f32"}, sizes) for sizes in shapes]
    drawn = Console(width=80, file=io.StringIO())
    bar = progress("tuning")
    bars = _Bars(bar, len(cases))
    for case in cases[:3]:
        bars.tell(case)(Progress(1.25, "packed " + "long " * 30, 7, 40))
    drawn.print(bar.make_tasks_table(bar.tasks))
    of_all, of_case = drawn.file.getvalue().splitlines()
    assert " 2/99" in of_all and " 7/40 " in of_case and "best 1.250, gemm f32 3x4096" in of_case


@pytest.mark.parametrize(
    "words, message",
    [
        (("gemm",), "gemm needs sizes"),
        (("gemm", "--at", "m=1,n=1,k=1", "--tables", "/proc/nowhere"), "cannot write below"),
        (
            ("gemm", "--at", "m=1,n=1,k=1", "--save", "/proc/nowhere/x.json"),
            "may write with --save",
        ),
        (("gemm", "--at", "m=1,n=1,k=1", "--strategy", "luck"), "Known: neighbours, optuna"),
        (("attention",), "batch=1,heads=8,kv_heads=8,seq_q=512,seq_k=512"),
        (("gemm", "--m", "1", "--at", "m=1,n=1,k=1"), "both give sizes"),
        (("gemm", "--m", "1", "--n", "1"), "the sizes are m, n, k"),
        ((), "nothing to tune"),
        (("gemm", "--at", "m=1"), "the sizes are m, n, k"),
        (("gemm", "--at", "m=1,n=1,k=1", "--budget", "lots"), "neither trials nor minutes"),
        (("gemm", "--at", "m=1,n=1,k=1", "--budget", "0"), "neither trials nor minutes"),
        (("gemm", "--at", "m=1,n=1,k=1", "--budget", "nan"), "neither trials nor minutes"),
        (("gemm", "--at", "m=1,n=1,k=1", "--budget", "infm"), "neither trials nor minutes"),
        (("gemm", "--at", "m=1,n=0,k=1"), "nothing to time at n=0"),
        (("gemm", "--at", "m=1,n=1,k=1", "--tile", "64x64x64"), "--tile is a schedule's"),
        (("gemm", "--at", "m=1,n=1,k=1", "--threads", "9999"), "this machine has"),
        (("--page", "."), "--page . is a folder"),
        (("--page", "/proc/nowhere/x.md"), "may write with --page"),
        (("gemm", "--at", "m=1,n=1,k=1", "--peers", "nunpy"), "did you mean 'numpy'"),
        (("gem", "--at", "m=1"), "did you mean 'gemm'"),
    ],
)
def test_bad_words_are_answered_before_anything_runs(tilegen, words, message):
    ran = tilegen("tune", *words)
    assert ran.status == 2 and message in ran.err


def test_a_target_that_this_processor_cannot_run_is_not_timed(tilegen, monkeypatch):
    monkeypatch.setattr("tilegen.cli.cases.missing_features", lambda _: ["amx-tile"])
    for command in ("tune", "bench"):
        ran = tilegen(command, "gemm", "--dtype", "bf16", "-t", "amx", "--at", "m=1,n=1,k=1")
        assert ran.status == 4 and "lacks amx-tile: it cannot time amx" in ran.err


def test_show_prints_geometric_means_and_what_is_stale(tilegen, tmp_path):
    from test_tables import OTHER, row

    poor = "packed tile=32x32x32 micro=8x8 unroll=4"
    path = files.table_path(tmp_path / "tuning", "some-cpu", "gemm")
    other = row(8, poor, speedup=2.0, speedups={poor: 2.0, OTHER: 1.9})
    stale = row(64, speedup=0.5, digest="0123456789ab")
    files.update(path, [other, stale, row(8, speedup=1.0, problem="dtype=f32 layout=nn")])
    ran = tilegen("tune", "--show")
    assert ran.status == 0
    assert "geometric mean of 3 rows: 1.000 of the default, 0.500 of the best peer" in ran.out
    assert "each C signature: 3 of 3 sizes of 2 signatures within 3%" in ran.out
    assert "kernels have changed: 2 rows on portable; tilegen tune --refresh" in ran.out
    served = "dtype=f32 on portable, 2 sizes: 2 kernels serve all within 3% of the best kernel"
    assert served in ran.out.replace("\n", " ")
    ran = tilegen("tune", "--stale")
    assert ran.status == 1 and "2 rows on portable; tilegen tune --refresh" in ran.out
    assert ran.out.splitlines()[-1] == "2 of 3 rows stale"
    # A table of a newer tilegen hides no other.
    newer = files.table_path(tmp_path / "tuning", "some-gpu", "gemm")
    newer.parent.mkdir()
    newer.write_text("schema = 99\n")
    shown = tilegen("tune", "--show").out
    assert "some-gpu/gemm.toml has schema 99" in shown and "mean of 3 rows: 1.000" in shown
    newer.unlink()
    path.unlink()
    files.update(path, [row(8)])
    ran = tilegen("tune", "--stale")
    assert (ran.status, ran.out) == (0, "0 of 1 row stale\n")


def test_a_compiler_that_hangs_is_ended_with_its_children(settings, monkeypatch, tmp_path):
    from tilegen.toolchain import build
    from tilegen.tune.trial import compile_candidate

    script = tmp_path / "slow-cc"
    script.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && { echo slow-cc 1.0; exit 0; }\n'
        'for word; do case "$word" in *probe.c) exit 0;; esac; done\n'
        f"sleep 300 & echo $! > {tmp_path}/child; wait\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr(build, "COMPILE_SECONDS", 1)
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    spec = CASE.spec(WHERE)
    made = candidates.candidate(SMALL[0], spec.problem, WHERE, 0)
    compiled = compile_candidate(made.kernel)
    assert not compiled.image and "was not compiled within 1 s" in compiled.reason
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{child}") and time.monotonic() < until:
        state = open(f"/proc/{child}/stat").read().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        assert not os.path.exists(f"/proc/{child}")
