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
from tilegen.tables import cover, files, words
from tilegen.tables.rows import Row
from tilegen.targets import Target
from tilegen.tune import cross
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
            + f" with {threads} threads" * (threads > 0),
            f"Tune first: tilegen tune SUITE --target {where}",
        )
    return found


def spaces(cases: Sequence[BenchCase], settings: Settings) -> dict[int, Space]:
    """What is timed again for each case, by its place.

    Raises:
        UsageError: a case has no row.
    """
    threads = settings.rules.threads
    known: dict[Problem, tuple[list[Row], tuple[str, ...]]] = {}
    found = {}
    for number, case in enumerate(cases):
        problem = case.spec(settings.where).problem
        path = files.table_path(settings.tables, settings.rules.device, problem.operator)
        if problem not in known:
            rows = _rows(path, words.problem_text(problem), settings.where.name, threads)
            few = cover.smallest(rows, cover.FEW, cover.WITHIN).schedules if rows else ()
            known[problem] = rows, few
        (rows, few), sizes = known[problem], sizes_of(problem, case)
        mine = next((row for row in rows if dict(row.sizes) == sizes), None)
        if mine is None:
            raise UsageError(
                f"{path} has no row for {case.label()}", "Leave --refresh out to search for one."
            )
        found[number] = recorded(mine, few, problem, settings.where, settings.budget.trials)
    return found


def _rows(path: Path, problem: str, where: str, threads: int) -> list[Row]:
    rows = files.read(path).rows
    return [r for r in rows if (r.problem, r.target, r.threads) == (problem, where, threads)]


def recorded(row: Row, few: Sequence[str], problem: Problem, where: Target, most: int) -> Space:
    """What is timed again for a row: today's default, the winner, the others from the fastest on, the few.

    Args:
        row: what was recorded.
        few: schedules that serve all rows of the problem.
        problem, where: what is computed, and the target.
        most: of the recorded schedules, the default and the few not counted; 0 for all.
    """
    given: dict[Schedule, None] = {choose.choice(problem, where, row.sizes): None}
    others = sorted(row.speedups, key=lambda s: -row.speedups[s])
    chosen = list(dict.fromkeys([row.schedule, *others]))[: most or None]
    near = cross.nearness(row, problem, where)
    for text in [*chosen, *few]:
        schedule = _schedule(text, row, problem, where)
        if schedule is None or not choose.takes(schedule, problem, where, row.sizes):
            continue
        if text in chosen or near(schedule) <= cross.FAR:
            given[schedule] = None
    return Space(list(given))


def _schedule(text: str, row: Row, problem: Problem, where: Target) -> Schedule | None:
    """A recorded schedule; None where it is not legal any more."""
    try:
        return words.kernel_spec(problem.operator, where, row.problem, text).schedule
    except UsageError:
        return None
