"""Rows timed again: what a table recorded is measured anew where a kernel's text or the compiler has changed since.

A search of hundreds of candidates is not repeated because a template changed. The schedules that a row recorded are
built, verified and timed together, beside today's default and the few kernels that serve the other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilegen.bench.suites import BenchCase
from tilegen.errors import UsageError
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.tables import cover, files, lookup, words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune import cross, portfolio
from tilegen.tune.candidates import Space
from tilegen.tune.cases import Settings, sizes_of


def cases(tables: Path, device: str, where: Target, threads: int) -> list[BenchCase]:
    """A case for each row of a device on a target.

    Args:
        tables: folder of the tables.
        device: whose rows.
        where: their target.
        threads: rows of this many CPU threads; 0 on a GPU.

    Raises:
        UsageError: there are no such rows.
    """
    files.require_device(tables, device)
    found = []
    for path in sorted((tables / device).glob("*.toml")):
        table = files.read(path)
        for row in table.rows:
            if row.target == where.name and row.threads == threads:
                options = words.problem_options(row.problem)
                found.append(BenchCase(table.operator, options, dict(row.sizes), "recorded"))
    if not found:
        raise UsageError(
            f"{tables / device} has no row for {where}"
            + f" with {threads} thread{'s' * (threads > 1)}" * (threads > 0),
            f"Tune first: tilegen tune SUITE --target {where}",
        )
    return found


def spaces(cases: Sequence[BenchCase], settings: Settings) -> dict[int, Space]:
    """What is timed again for each case that has a row, by its place; with a portfolio, that of the others."""
    groups: dict[Problem, list[int]] = {}
    for number, case in enumerate(cases):
        groups.setdefault(case.spec(settings.where).problem, []).append(number)
    found = {}
    for problem, numbers in groups.items():
        path = files.table_path(settings.tables, settings.rules.device, problem.operator)
        rows = _rows(path, problem, settings)
        if not rows:
            continue
        new = settings.portfolio > 0
        more = cross.wanted(list(rows.values()), problem, settings.where, new)
        wanted = dict(zip(rows, more, strict=True))
        for number in numbers:
            key = tuple(sizes_of(problem, cases[number]).items())
            if key in rows:
                found[number] = recorded(rows[key], wanted[key], problem, settings)
    rest = [number for number in range(len(cases)) if number not in found]
    more = portfolio.spaces([cases[number] for number in rest], settings)
    return found | {rest[place]: made for place, made in more.items()}


Sizes = tuple[tuple[str, int], ...]


def _rows(path: Path, problem: Problem, settings: Settings) -> dict[Sizes, Row]:
    wanted = words.problem_text(problem), settings.where.name, settings.rules.threads
    rows = [r for r in files.read(path).rows if (r.problem, r.target, r.threads) == wanted]
    rows = lookup.renamed(rows, problem, settings.where)
    return {tuple(row.sizes.items()): row for row in rows}


def recorded(row: Row, wanted: Sequence[Schedule], problem: Problem, settings: Settings) -> Space:
    """What is timed again for a row: today's default, the winner, the others from the fastest on, and more.

    Args:
        row: what was recorded.
        wanted: what else is worth measuring at its size, as winners of other sizes are.
        problem: what is computed.
        settings: of the run; its budget of trials is of recorded schedules that are slower by more than 3 %.
    """
    where = settings.where
    given: dict[Schedule, None] = {choose.choice(problem, where, row.sizes): None}
    others = sorted(row.speedups, key=lambda s: -row.speedups[s])
    ordered = list(dict.fromkeys([row.schedule, *others]))
    # Those that lose no more than a dispatcher may are what few kernels are chosen from.
    close = [s for s in others if row.speedups[s] * (1 + cover.WITHIN) >= row.speedup]
    chosen = dict.fromkeys([*ordered[: settings.budget.trials or None], *close])
    for schedule in [*(_schedule(text, row, problem, where) for text in chosen), *wanted]:
        if schedule is not None and choose.takes(schedule, problem, where, row.sizes):
            given[schedule] = None
    return Space(list(given), recorded=True)


def _schedule(text: str, row: Row, problem: Problem, where: Target) -> Schedule | None:
    """A recorded schedule; None where it is not legal any more."""
    try:
        return words.kernel_spec(problem.operator, where, row.problem, text).schedule
    except UsageError:
        return None
