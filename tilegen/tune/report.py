"""The confirming runs of a search as a report, with raw samples of winners, defaults and peers."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.bench import samples
from tilegen.bench.suites import BenchCase
from tilegen.emit.naming import stem
from tilegen.plans import make_plan
from tilegen.spec import KernelSpec
from tilegen.tables import words
from tilegen.targets import target
from tilegen.tune.cases import Tuned


def report(name: str, found: Sequence[Tuned]) -> samples.Report:
    """What was measured beside the winners, as `tilegen bench` would save it.

    Args:
        name: the suite's name.
        found: tuned cases.
    """
    rows, machine = [], {}
    for tuned in found:
        rows.append(_row(tuned.search.case, tuned))
        machine = {**tuned.row.machine, "target": tuned.row.target}
    return samples.Report(name, dict(machine), rows)


def _row(case: BenchCase, tuned: Tuned) -> samples.Row:
    final, where = tuned.final, target(tuned.row.target)
    spec: KernelSpec = words.kernel_spec(
        tuned.search.problem.operator, where, tuned.row.problem, tuned.row.schedule
    )
    row = samples.Row(case.label(), case.group, case.operator, dict(case.sizes))
    row.kernel, row.command = stem(make_plan(spec)), spec.command()
    row.flops, row.bytes = spec.problem.flops(case.sizes), spec.problem.bytes(case.sizes)
    winner = final.seconds[tuned.row.schedule]
    row.seconds["tilegen"] = list(winner)
    for peer in tuned.row.peers:
        row.seconds[peer] = list(final.seconds[peer])
        row.ratios[peer] = [t / w for t, w in zip(final.seconds[peer], winner)]
    return row
