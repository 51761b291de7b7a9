"""Trials on a Dask cluster: the same search, devices that are timed one call at a time, workers that die."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time

import pytest

from tilegen.bench.process import holding
from tilegen.errors import UsageError
from tilegen.tune.candidates import Space
from tilegen.tune.executors import RESOURCE, farm
from tilegen.tune.search import Budget
from tilegen.tune.trial import Rules
from tilegen.tune.cases import Settings
from tilegen.tune.tuner import Tuner

distributed = pytest.importorskip("distributed")

from test_tune import CASE, SMALL, WHERE  # noqa: E402


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two worker processes, each owning a device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            resources={RESOURCE: 1},
        ) as made:
            yield made


def _interval(folder: str, number: int) -> tuple[int, float, float]:
    start = time.time()
    time.sleep(0.3)
    return os.getpid(), start, time.time()


def test_a_device_is_timed_by_one_call_at_a_time(cluster, tmp_path):
    places = farm(cluster.scheduler_address)
    try:
        futures = [places.timers.submit(_interval, str(tmp_path), n) for n in range(6)]
        found = [f.result(timeout=60) for f in futures]
    finally:
        places.close()
    by_worker: dict[int, list[tuple[float, float]]] = {}
    for worker, start, stop in found:
        by_worker.setdefault(worker, []).append((start, stop))
    assert sum(map(len, by_worker.values())) == 6
    for spans in by_worker.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))


def _held(device: str) -> tuple[int, float, float]:
    with holding(device, on_gpu=False):
        start = time.time()
        time.sleep(0.05)
        return os.getpid(), start, time.time()


def test_two_workers_of_one_machine_never_time_on_one_device_at_once(cluster, tmp_path):
    """Each worker says that it owns a device, as where both were started beside one GPU."""
    places = farm(cluster.scheduler_address)
    device = f"test-{os.getpid()}"
    try:
        futures = [places.timers.submit(_held, device) for _ in range(12)]
        found = sorted((f.result(timeout=60) for f in futures), key=lambda one: one[1])
    finally:
        places.close()
    assert len({worker for worker, _, _ in found}) == 2
    assert all(a[2] <= b[1] for a, b in zip(found, found[1:]))


def test_a_search_goes_on_when_a_worker_is_killed(cluster, tmp_path):
    rules = Rules("test-cpu", rounds=3, seconds=0.002, timeout=60.0)
    settings = Settings(WHERE, tmp_path / "tuning", Budget(), rules, peers=())
    places = farm(cluster.scheduler_address)
    pids = distributed.Client(cluster).run(os.getpid)
    victim = sorted(pids.values())[0]
    done = threading.Event()

    def tell(state) -> None:
        if state.done == 2 and not done.is_set():
            done.set()
            os.kill(victim, signal.SIGKILL)

    try:
        space = lambda *_: Space(SMALL[:5])  # noqa: E731
        one = dataclasses.replace(Tuner(settings, places), space=space).tune(CASE, tell)
    finally:
        places.close()
    assert done.is_set()
    assert len(one.search.outcomes) == 5
    assert all(outcome.ok for outcome in one.search.outcomes.values())
    assert one.row.verified


def test_a_cluster_that_is_not_there_or_owns_no_device_is_refused(monkeypatch):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as made:
        with pytest.raises(UsageError, match=f"offers {RESOURCE}"):
            farm(made.scheduler_address)
    monkeypatch.setattr("tilegen.tune.executors.CONNECT_SECONDS", 1)
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        farm("tcp://127.0.0.1:9")
