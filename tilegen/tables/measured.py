"""The kernels of a tuning table as measurements to judge a model by."""

from __future__ import annotations

from tilegen.errors import IllegalSchedule, UsageError
from tilegen.model.choose import Measured
from tilegen.tables import words
from tilegen.tables.files import Table
from tilegen.targets import target


def of_table(table: Table) -> list[Measured]:
    """Every schedule of every row with its speed over the row's default; what is not legal now is left out."""
    found = []
    for row in table.rows:
        for schedule, speed in row.speedups.items():
            try:
                spec = words.kernel_spec(table.operator, target(row.target), row.problem, schedule)
            except (UsageError, IllegalSchedule):
                continue
            found.append(Measured(spec, row.sizes, speed))
    return found
