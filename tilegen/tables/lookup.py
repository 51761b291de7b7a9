"""From sizes to a schedule: the nearest row of a table whose kernel is still the measured one, else a model."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilegen import fields, registry
from tilegen.errors import UsageError
from tilegen.model import choose
from tilegen.problems.base import Problem
from tilegen.tables import files, words
from tilegen.tables.files import Table
from tilegen.tables.rows import Row
from tilegen.targets import Target, target

# A row serves sizes that differ from its own by no more than this factor in any extent.
REACH = 4.0

# So many stale rows are told one by one.
MOST_TOLD = 3


@dataclass(frozen=True)
class Found:
    """What a table says of a problem.

    Attributes:
        row: the row to use, or None where the stated rule holds.
        notes: what a user should know: no row near, stale rows, broken parts of the file.
    """

    row: Row | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resolved:
    """A kernel's options with a schedule in place of `tuned` and `at`.

    Attributes:
        options: explicit ones before the chosen.
        notes: what a user should know: no row near, stale rows, broken parts of the file.
        source: the row that the schedule is from, in words; empty where no table was asked or had one.
    """

    options: dict[str, Any]
    notes: tuple[str, ...] = ()
    source: str = ""


@dataclass
class Sorted:
    """Rows of one problem on one target.

    Attributes:
        fresh: rows whose digest fits the kernel's text today.
        stale: why each of the others is not used.
    """

    fresh: list[Row] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    def told(self, where: Target) -> list[str]:
        """Which rows are not used, and why, for people: many in one line, with the command that mends them."""
        if len(self.stale) <= MOST_TOLD:
            return list(self.stale)
        return [
            f"{self.stale[0]}; so are {len(self.stale) - 1} rows more: "
            f"tilegen tune --refresh --target {where}"
        ]


def sort_rows(table: Table, problem: Problem, where: Target) -> Sorted:
    """The rows of a problem on a target, told apart by whether they still hold."""
    found = Sorted()
    text = words.problem_text(problem)
    digests: dict[str, str] = {}
    own = [r for r in table.rows if r.problem == text and r.target == where.name]
    for row in renamed(own, problem, where):
        why = ""
        try:
            if row.schedule not in digests:
                digests[row.schedule] = _digest_now(problem, where, row.schedule)
            if not row.digest:
                why = "it has no digest"
            elif digests[row.schedule] != row.digest:
                why = f"the kernel's text is {digests[row.schedule]} now, it was {row.digest}"
        except UsageError as error:
            why = error.message
        if why:
            sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
            found.stale.append(f"{table.path}: the row of {sizes} is stale: {why}")
        else:
            found.fresh.append(row)
    return found


def _digest_now(problem: Problem, where: Target, schedule: str) -> str:
    """Digest of a kernel's text today. Raises UsageError where the schedule is not legal any more."""
    text = words.problem_text(problem)
    return words.kernel_digest(words.kernel_spec(problem.operator, where, text, schedule))


def renamed(rows: Iterable[Row], problem: Problem, where: Target) -> list[Row]:
    """Rows with the words that schedules have today: one that has got a field since is still the same schedule.

    What is not legal any more keeps its words.
    """
    problem_words = words.problem_text(problem)

    @functools.cache
    def today(schedule: str) -> str:
        try:
            spec = words.kernel_spec(problem.operator, where, problem_words, schedule)
        except UsageError:
            return schedule
        return words.schedule_text(spec.schedule)

    found = []
    for row in rows:
        speedups = {today(s): v for s, v in row.speedups.items()}
        digests = {today(s): v for s, v in row.digests.items()}
        named = {"schedule": today(row.schedule), "default": today(row.default)}
        found.append(dataclasses.replace(row, **named, speedups=speedups, digests=digests))
    return found


def of_today(table: Table) -> list[Row]:
    """A table's rows with the words that their schedules have today, in the order of the table."""
    found: dict[int, Row] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(table.rows):
        groups.setdefault((row.problem, row.target), []).append(place)
    for (problem, where), places in groups.items():
        rows = [table.rows[place] for place in places]
        try:
            rows = renamed(rows, words.problem_of(table.operator, problem), target(where))
        except UsageError:
            pass
        found |= dict(zip(places, rows))
    return [found[place] for place in range(len(table.rows))]


def current(rows: Sequence[Row], problem: Problem, where: Target) -> list[Row]:
    """Rows without the speedups of kernels whose text has changed since they were measured."""
    digest = functools.cache(lambda schedule: _digest_or_none(problem, where, schedule))
    found = []
    for row in rows:
        held = {row.schedule: row.digest, **row.digests}
        kept = {s: v for s, v in row.speedups.items() if held.get(s, "") == digest(s)}
        found.append(dataclasses.replace(row, speedups=kept))
    return found


def _digest_or_none(problem: Problem, where: Target, schedule: str) -> str | None:
    try:
        return _digest_now(problem, where, schedule)
    except UsageError:
        return None


def distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """Sum of the factors, as powers of two, by which two sets of extents differ; inf beyond reach."""
    if set(a) != set(b):
        return math.inf
    steps = [abs(math.log2(max(a[k], 1) / max(b[k], 1))) for k in a]
    return sum(steps) if max(steps, default=0.0) <= math.log2(REACH) else math.inf


def find(
    table: Table, problem: Problem, where: Target, sizes: Mapping[str, int] | None = None
) -> Found:
    """The row to take the schedule from: the nearest in size, or without sizes the most useful one.

    The most useful row is the one whose schedule loses least at any size of the table.
    """
    known = sort_rows(table, problem, where)
    notes = [*table.faults, *known.told(where)]
    rows = known.fresh
    if sizes is not None:
        rows = [r for r in rows if distance(r.sizes, sizes) < math.inf]
        rows.sort(key=lambda r: (distance(r.sizes, sizes), r.key))
    else:
        measured = current(rows, problem, where)
        rows = sorted(rows, key=lambda r: (worst_loss(r.schedule, measured), r.key))
    if not rows:
        at = f" near {' '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""
        notes.append(
            f"{table.path} has no row for {table.operator} {words.problem_text(problem)} on {where}"
            f"{at}"
        )
    return Found(rows[0] if rows else None, tuple(notes))


def worst_loss(schedule: str, rows: Sequence[Row]) -> float:
    """Largest loss of a schedule against the best at any row; inf where it was not measured."""
    return max((loss(schedule, row) for row in rows), default=0.0)


def loss(schedule: str, row: Row) -> float:
    """Time of a schedule over the best one's at a row, less 1; inf where it was not measured."""
    if schedule == row.schedule:
        return 0.0
    speedup = row.speedups.get(schedule, 0.0)
    return max(0.0, row.speedup / speedup - 1) if speedup > 0 else math.inf


def parse_sizes(text: str, problem: Problem) -> dict[str, int]:
    """Read `m=512,n=4096,k=4096`. Raises UsageError for a missing or unknown size."""
    given = {}
    for item in filter(None, text.replace(" ", "").split(",")):
        name, _, value = item.partition("=")
        if not value.isdigit():
            raise UsageError(f"'{item}' is not SIZE=EXTENT", "Example: m=512,n=4096,k=4096")
        given[name] = int(value)
    wanted = [s.name for s in problem.sizes()]
    if sorted(given) != sorted(wanted):
        raise UsageError(f"the sizes are {', '.join(wanted)}, not {', '.join(given) or 'none'}")
    return {name: given[name] for name in wanted}


def resolve(
    operator: str,
    target_name: str | Target,
    given: Mapping[str, Any],
    folder: Path,
    devices: Mapping[str, str] | None = None,
) -> Resolved:
    """Replace the options `tuned` and `at` by a schedule: a table's row, else the model's choice.

    Args:
        operator: operator name or a formula.
        target_name: the target.
        given: option texts; `tuned` names a device, or is `none`, `at` the sizes that matter most. Without
            `tuned` the model chooses for the sizes.
        folder: where the tables lie.
        devices: by target, the device whose table has the defaults where no field of a schedule is given.

    Raises:
        UsageError: a device without tables, or sizes that are not the problem's.
    """
    given = dict(given)
    device, at = given.pop("tuned", None), given.pop("at", None)
    usual = None if device is not None else (devices or {}).get(str(target_name))
    if device is None and usual is None and at is None:
        return Resolved(given)
    where = target(target_name)
    operator, implied = registry.operator_of(operator)
    cls = registry.problem_class(operator)
    of_problem = fields.options(cls)
    options = {k: v for k, v in {**implied, **given}.items() if k in of_problem}
    problem = cls(**fields.from_text(cls, options))
    sizes = parse_sizes(at, problem) if at is not None else None
    own = {k: v for k, v in given.items() if k not in of_problem}
    notes: tuple[str, ...] = ()
    if usual is not None and not own:
        device = usual
    if device == "none":
        device = None
    if device is not None:
        files.require_device(folder, device)
        table = files.read(files.table_path(folder, device, operator))
        found = find(table, problem, where, sizes)
        notes = found.notes
        if found.row is None and device == usual:
            # Nobody asked for the table by name.
            notes = notes[:-1]
        if found.row is not None:
            chosen = words.schedule_options(found.row.schedule)
            if own.get("schedule", chosen["schedule"]) == chosen["schedule"]:
                measured = " ".join(f"{k}={v}" for k, v in found.row.sizes.items())
                source = f"the schedule is that of {table.path} at {measured}"
                return Resolved(_merged(problem, where, chosen, given), notes, source)
            notes = (*notes, f"{table.path} chose the schedule {chosen['schedule']}")
    if sizes is not None:
        try:
            ranked = choose.rank(problem, where, sizes, choose.given_values(problem, where, own))
        except UsageError as error:
            ranked, notes = [], (*notes, error.message)
        if ranked:
            chosen = words.schedule_options(words.schedule_text(ranked[0].schedule))
            told = (*notes, "the model chose the schedule") if notes else ()
            return Resolved(_merged(problem, where, chosen, given), told)
    if usual is not None and not notes:
        return Resolved(given)
    return Resolved(given, (*notes, "the stated rule holds"))


def _merged(
    problem: Problem, where: Target, chosen: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The chosen schedule's options with the explicit ones, without what is the default anyway."""
    merged = {**chosen, **given}
    if merged["schedule"] == registry.schedule_class(problem, where).name:
        del merged["schedule"]
    return merged
