"""A search of 200 candidates, killed at half-time: `pytest -m slow -n 0 -s tests/tune/test_two_hundred.py`."""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
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
from tilegen.tune.tuner import FINALISTS, Tuner

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
    outcomes = {p: (one.search.candidate(p).schedule, o) for p, o in one.search.outcomes.items()}
    right = {s: statistics.median(o.ratios) for s, o in outcomes.values() if o.ok}
    failed = {p: [s, o.stage, o.reason] for p, (s, o) in outcomes.items() if not o.ok}
    best = sorted(right, key=right.__getitem__, reverse=True)[:FINALISTS]
    table = {"tried": len(outcomes), "winner": one.row.schedule, "speedup": one.row.speedup}
    table |= {"failed": failed, "best": {s: right[s] for s in best}}
    table["default"] = one.search.candidate(0).schedule
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
    rest = time.monotonic() - start
    entries = [json.loads(line) for line in journal()]
    whole = [json.loads(line) for line in kept if line.endswith("}")]
    keys = [entry["key"] for entry in entries]
    twice = len(keys) - len(set(keys))
    print(f"\nkilled after {half:.0f} s with {len(whole)} of {COUNT} measured")
    print(
        f"started again: {len(entries) - len(whole)} more in {rest:.0f} s, {twice} measured twice"
    )
    for place, (schedule, stage, reason) in found["failed"].items():
        print(f"  {place}: {schedule} failed at {stage}: {reason}")
    print(f"  default {found['default']}; fastest of the trials {found['best']}")
    print(f"  winner {found['winner']}: {found['speedup']:.3f} of the default")
    assert found["tried"] == COUNT and twice == 0
    expected = {HANGS: "verify", CRASHES: "verify", WRONG: "verify", BROKEN: "compile"}
    assert {int(place): stage for place, (_, stage, _) in found["failed"].items()} == expected
    assert entries[: len(whole)] == whole and len(whole) < len(entries)
    assert found["winner"] in [found["default"], *found["best"]] and found["speedup"] >= 1.0


if __name__ == "__main__":
    search(Path(sys.argv[1]))
