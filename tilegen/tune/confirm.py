"""The confirming run: the best candidates and the peers beside the default, interleaved; then one winner."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.bench import cpu
from tilegen.bench.process import Worker, WorkerFailed
from tilegen.errors import CheckFailed
from tilegen.tune.device import timing
from tilegen.tune.trial import Job, Rules, worker

# A lead of no more than this is a tie, whatever the noise.
TIE = 0.01


@dataclass(frozen=True)
class Final:
    """What the confirming run found.

    Attributes:
        winner: name of the chosen finalist.
        verified: what its full verification found.
        seconds: samples by competitor, peers included.
        ratios: ratios default / competitor by competitor.
        failures: why a competitor dropped out.
    """

    winner: str
    verified: str
    seconds: Mapping[str, tuple[float, ...]]
    ratios: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str]


def confirm(
    finalists: Mapping[str, Job], sizes: Mapping[str, int], peers: Sequence[str], rules: Rules
) -> Final:
    """Time all finalists and peers together, choose the winner, and verify it over the whole grid.

    Args:
        finalists: kernels by name in their fixed order; the first one is the default.
        sizes: extents.
        peers: names of peers.
        rules: of every finalist; peers may take longer to load.

    Raises:
        CheckFailed: no finalist was timed and verified.
    """
    base, *_ = finalists
    failures: dict[str, str] = {}
    started: list[Worker] = []
    ready: list[Worker] = []
    try:
        for name in [*finalists, *peers]:
            ours = name in finalists
            request = finalists[name if ours else base].request(sizes, rules.seconds)
            if not ours:
                del request["library"], request["symbol"]
            process = worker(name, rules, "tilegen" if ours else name)
            started.append(process)
            try:
                limit = rules.timeout if ours else max(rules.timeout, cpu.PREPARE_TIMEOUT)
                process.ask("prepare " + json.dumps(request), limit)
                ready.append(process)
            except WorkerFailed as error:
                failures[name] = error.message.removeprefix(f"{name}: ")
        with timing(rules.device):
            samples, failed = cpu.rounds(ready, rules.rounds, rules.timeout)
    finally:
        for process in started:
            process.kill()
    failures |= {name: error.message.removeprefix(f"{name}: ") for name, error in failed.items()}
    against = samples.get(base, [])
    ratios = {n: tuple(b / t for b, t in zip(against, times)) for n, times in samples.items()}
    seconds = {name: tuple(times) for name, times in samples.items()}
    right = [name for name in finalists if ratios.get(name)]
    while right:
        winner = pick({name: ratios[name] for name in right})
        try:
            return Final(winner, verify(finalists[winner], sizes, rules), seconds, ratios, failures)
        except WorkerFailed as error:
            failures[winner] = error.message
            right.remove(winner)
    raise CheckFailed(f"no finalist was timed and verified: {failures}")


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


def verify(job: Job, sizes: Mapping[str, int], rules: Rules) -> str:
    """Run a kernel over its whole grid of cases in a process of its own. Raises WorkerFailed."""
    process = worker("winner", rules)
    try:
        request = job.request(sizes, rules.seconds) | {"only_verify": True}
        process.ask("prepare " + json.dumps(request), rules.timeout)
        return process.ask('verify {"cases": "full"}', max(rules.timeout, cpu.PREPARE_TIMEOUT))
    finally:
        process.kill()
