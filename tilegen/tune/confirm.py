"""The confirming run: the best candidates and the peers beside the default, interleaved; then one winner."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.bench import cpu
from tilegen.bench.process import Slot, Worker, WorkerFailed, holding
from tilegen.tune.processes import timing_lane, worker
from tilegen.tune.trial import Job, Rules, place

# A lead of no more than this is a tie, whatever the noise.
TIE = 0.01


@dataclass(frozen=True)
class Final:
    """What the confirming run found.

    Attributes:
        seconds: samples by competitor, peers included.
        ratios: ratios default / competitor by competitor.
        failures: why a competitor dropped out.
    """

    seconds: Mapping[str, tuple[float, ...]]
    ratios: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str]


def confirm(
    finalists: Mapping[str, Job], sizes: Mapping[str, int], peers: Sequence[str], rules: Rules
) -> Final:
    """Time all finalists and peers together.

    Args:
        finalists: kernels by name in their fixed order; the first one is the default.
        sizes: extents.
        peers: names of peers.
        rules: of every finalist; peers may take longer to load.
    """
    base, *_ = finalists
    requests: dict[str, dict[str, Any]] = {}
    for name in [*finalists, *peers]:
        requests[name] = finalists.get(name, finalists[base]).request(sizes, rules.seconds)
        if name not in finalists:
            del requests[name]["library"], requests[name]["symbol"]
            requests[name]["peer"] = name
    timed = _timed_on_gpu if rules.on_gpu else _timed
    samples, failures = timed(requests, rules)
    against = samples.get(base, [])
    ratios = {n: tuple(b / t for b, t in zip(against, times)) for n, times in samples.items()}
    seconds = {name: tuple(times) for name, times in samples.items()}
    said = {name: error.message.removeprefix(f"{name}: ") for name, error in failures.items()}
    return Final(seconds, ratios, said)


def _timed(
    requests: Mapping[str, dict[str, Any]], rules: Rules
) -> tuple[dict[str, list[float]], dict[str, WorkerFailed]]:
    """Time competitors on the CPU, each in a process of its own."""
    failures: dict[str, WorkerFailed] = {}
    started: list[Worker] = []
    ready: list[Worker] = []
    try:
        # They load their libraries at the same time.
        for name, request in requests.items():
            started.append(worker(name, rules.threads, request.get("peer", "tilegen")))
        for process in started:
            request = requests[process.name]
            try:
                place(process, request, _patience(request, rules))
                ready.append(process)
            except WorkerFailed as error:
                failures[process.name] = error
        with holding(rules.device, rules.on_gpu):
            samples, failed = cpu.rounds(ready, rules.rounds, rules.timeout)
    finally:
        for process in started:
            process.kill()
    return samples, failures | failed


def _timed_on_gpu(
    requests: Mapping[str, dict[str, Any]], rules: Rules
) -> tuple[dict[str, list[float]], dict[str, WorkerFailed]]:
    """Time competitors on a GPU in one process; without those that failed, again in another one."""
    failures: dict[str, WorkerFailed] = {}
    lane = timing_lane(rules.device)
    while True:
        left = {name: r for name, r in requests.items() if name not in failures}
        process = lane.process()
        lane.holds = None
        slots = {name: Slot(name, process) for name in left}
        failed: dict[str, WorkerFailed] = {}
        samples: dict[str, list[float]] = {}
        try:
            process.ask("drop", rules.timeout)
            for name, request in left.items():
                try:
                    place(slots[name], request, _patience(request, rules))
                except WorkerFailed as error:
                    failed[name] = error
                    if "peer" not in request or not process.alive:
                        break
            else:
                ready = [slot for name, slot in slots.items() if name not in failed]
                with holding(rules.device, rules.on_gpu):
                    samples, more = cpu.rounds(ready, rules.rounds, rules.timeout)
                # The first one to fail may have taken the others with it.
                failed |= dict(list(more.items())[:1])
        except WorkerFailed as error:
            failed |= dict.fromkeys(left, error)
        failures |= failed
        if not failed or samples and set(samples) == set(left) - set(failed):
            return samples, failures
        lane.spoil()


def _patience(request: Mapping[str, Any], rules: Rules) -> float:
    return max(rules.timeout, cpu.PREPARE_TIMEOUT) if "peer" in request else rules.timeout


def pick(ratios: Mapping[str, Sequence[float]]) -> str:
    """The fastest by its median; in a tie the first in the order given, which is the default.

    Args:
        ratios: default / competitor by round, of every competitor.
    """
    base, *_ = ratios
    best = max(ratios, key=lambda name: statistics.median(ratios[name]))
    if not beats(ratios[best], ratios[base]):
        return base
    tied = [
        n for n in ratios if not beats(ratios[best], ratios[n]) and beats(ratios[n], ratios[base])
    ]
    return next(iter(tied), best)


def beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one is faster by more than a tie, and in three quarters of the rounds."""
    leads = [a / b for a, b in zip(one, other, strict=True)]
    lower = statistics.quantiles(leads, n=4)[0] if len(leads) > 1 else leads[0]
    return statistics.median(leads) > 1 + TIE and lower > 1
