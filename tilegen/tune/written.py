"""Rows on their way into tables: written within seconds, and not one by one."""

from __future__ import annotations

import time
from pathlib import Path

from tilegen.tables import files
from tilegen.tune.cases import Settings, Tuned

# Tables are written no more often than this while a search goes on.
SECONDS = 10.0


class Written:
    """Finished cases whose rows are not in their tables yet."""

    def __init__(self, settings: Settings) -> None:
        """Write nothing yet.

        Args:
            settings: the folder of the tables, and the device.
        """
        self._settings = settings
        self._waiting: list[Tuned] = []
        self._last = time.monotonic()

    def path(self, operator: str) -> Path:
        """The table of an operator."""
        return files.table_path(self._settings.tables, self._settings.rules.device, operator)

    def add(self, one: Tuned, now: bool = False) -> None:
        """Keep a case, and write what is kept if that is wanted now or the last time is long ago."""
        self._waiting.append(one)
        if now or time.monotonic() > self._last + SECONDS:
            self.flush()

    def flush(self) -> None:
        """Put the rows into their tables."""
        paths: dict[Path, list[Tuned]] = {}
        for one in self._waiting:
            paths.setdefault(self.path(one.search.problem.operator), []).append(one)
        for path, tuned in paths.items():
            table = files.update(path, [one.row for one in tuned])
            tuned[-1].notes += table.faults
        self._waiting, self._last = [], time.monotonic()
