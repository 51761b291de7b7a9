"""The row that a tuned case adds to its table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from tilegen.bench.samples import spread
from tilegen.model.peak import share
from tilegen.tables import words
from tilegen.tables.rows import Row
from tilegen.tune.cases import Confirmed, Settings
from tilegen.tune.search import Search

# Trials that reach this part of the winner's speed are kept in its row.
WORTH_KEEPING = 0.9


def row_of(
    found: Confirmed, verified: str, settings: Settings, toolchain: str, machine: Mapping[str, str]
) -> Row:
    """The row of a case whose winner is verified.

    Args:
        found: the case.
        verified: what verification found.
        settings: of the run.
        toolchain: the compiler.
        machine: facts of the device.
    """
    search, final, winner = found.search, found.final, found.winner
    mine, ratios = final.seconds[winner], final.ratios[winner]
    peers = {
        name: statistics.median(t / m for t, m in zip(times, mine))
        for name, times in final.seconds.items()
        if name not in found.names
    }
    failed = sum(not o.ok for o in search.outcomes.values())
    tried = len(search.known())
    of = "recorded timed again" if search.recorded else "tried"
    speedup = statistics.median(ratios)
    confirmed = {n: statistics.median(final.ratios[n]) for n in found.names if n in final.ratios}
    speedups = worth_keeping(search, speedup) | confirmed
    measured = [search.candidate(p) for p in {*search.known(), *found.names.values()}]
    digests = {one.schedule: one.digest for one in measured}
    return Row(
        problem=words.problem_text(search.problem),
        target=settings.where.name,
        threads=settings.rules.threads,
        sizes=dict(search.sizes),
        schedule=winner,
        speedup=speedup,
        default=search.candidate(0).schedule,
        peak=share(settings.rules.device, search.problem, search.sizes, statistics.median(mine)),
        peers=peers,
        speedups=speedups,
        digests={name: digests[name] for name in speedups},
        seconds=mine,
        ratios=ratios,
        noise=spread(list(ratios)),
        verified=verified,
        trials=f"{tried} of {len(search.schedules)} {of}, {failed} failed",
        digest=search.candidate(found.names[winner]).digest,
        toolchain=toolchain,
        machine=machine,
    )


def worth_keeping(search: Search, speedup: float) -> dict[str, float]:
    """Speedups of the trials that reach most of the winner's."""
    return {
        search.candidate(p).schedule: o.speedup
        for p, o in sorted(search.outcomes.items())
        if o.ok and o.speedup >= WORTH_KEEPING * speedup
    }
