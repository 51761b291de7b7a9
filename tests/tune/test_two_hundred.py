"""A search of 200 candidates, killed at half-time: `pytest -m slow -n 0 -s tests/tune/test_two_hundred.py`."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tilegen.bench.suites import BenchCase
from tilegen.targets import target
from tilegen.tune import candidates
from tilegen.tune.executors import local
from tilegen.tune.search import Budget
from tilegen.tune.trial import Rules
from tilegen.tune.cases import Settings
from tilegen.tune.tuner import Tuner

COUNT = 200
WHERE = target("x86-64-v4")
CASE = BenchCase("gemm", {"dtype": "f32", "layout": "tt"}, {"m": 192, "n": 192, "k": 192})
HANGS, CRASHES, WRONG, BROKEN = 37, 81, 120, 163


def search(folder: Path) -> None:
    """Tune all candidates, four of them with a fault, and print what came of it."""
    from test_tune import PLANTED, planted

    faults = {HANGS: PLANTED[1], CRASHES: PLANTED[2], WRONG: PLANTED[3], BROKEN: PLANTED[4]}
    PLANTED.clear()
    PLANTED.update(faults)
    space = candidates.space(CASE.spec(WHERE).problem, WHERE)
    schedules = list(itertools.islice(space.schedules, COUNT))
    rules = Rules("test-cpu", rounds=3, seconds=0.005, timeout=15.0)
    settings = Settings(WHERE, folder, Budget(), rules, peers=())
    tuner = Tuner(settings, local(2), planted, lambda *_: candidates.Space(schedules))
    one = tuner.tune(CASE, lambda state: None)
    failures = {schedule: outcome.stage for schedule, outcome in one.failures()}
    place = {one.search.candidate(p).schedule: p for p in one.search.outcomes}
    table = {"tried": len(one.search.outcomes), "winner": one.row.schedule}
    table |= {"failed": {place[s]: stage for s, stage in failures.items()}}
    table |= {"speedup": one.row.speedup, "noise": one.row.noise}
    print(json.dumps(table))


@pytest.mark.slow
def test_two_hundred_candidates_four_of_them_bad_killed_at_half_time(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
    command = [sys.executable, __file__, str(tmp_path)]
    start = time.monotonic()
    first = subprocess.Popen(command, env=environment, start_new_session=True)

    def journal() -> list[str]:
        return [x for p in tmp_path.rglob("*.jsonl") for x in p.read_text().splitlines()]

    while len(journal()) < COUNT // 2 and first.poll() is None:
        time.sleep(0.2)
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.wait()
    half, kept = time.monotonic() - start, journal()
    start = time.monotonic()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    print(f"\nfirst half {half:.0f} s, the rest {time.monotonic() - start:.0f} s: {found}")
    assert found["tried"] == COUNT
    expected = {HANGS: "verify", CRASHES: "verify", WRONG: "verify", BROKEN: "compile"}
    assert {int(place): stage for place, stage in found["failed"].items()} == expected
    entries = [json.loads(line) for line in journal()]
    whole = [json.loads(line) for line in kept if line.endswith("}")]
    assert entries[: len(whole)] == whole
    keys = [entry["key"] for entry in entries]
    assert len(keys) == len(set(keys))
    best = max(entries, key=lambda e: sum(e["outcome"]["ratios"]))
    assert found["speedup"] >= 1.0 and best["outcome"]["ratios"]


if __name__ == "__main__":
    search(Path(sys.argv[1]))
