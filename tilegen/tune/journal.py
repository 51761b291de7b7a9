"""What was measured, kept line by line as it is measured, so that a search that was stopped goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from tilegen.tune.trial import Outcome


class Journal:
    """Outcomes by kernel text, toolchain, sizes and threads, in a file of JSON lines beside the table.

    A line that was cut off by a kill, or that is broken, is skipped; every other line counts.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, context: Mapping[str, str]) -> None:
        """Open a journal.

        Args:
            path: the file; its folder is made, and ignored by git.
            context: what an outcome depends on besides kernel, sizes and threads: toolchain, default.
        """
        self.path = path
        self._context = dict(sorted(context.items()))
        self._known: dict[str, Outcome] = {}
        self._verified: dict[str, str] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        ignore = path.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        if path.exists():
            self._load()

    def _load(self) -> None:
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                outcome = Outcome(**entry["outcome"])
                key, context = entry["key"], entry["context"]
            except (json.JSONDecodeError, KeyError, TypeError):
                continue
            if context == self._context:
                self._keep(key, outcome)

    def _keep(self, key: str, outcome: Outcome) -> None:
        ratios, seconds = tuple(outcome.ratios), tuple(outcome.seconds)
        outcome = Outcome(outcome.stage, outcome.reason, outcome.verified, seconds, ratios)
        self._known[key] = outcome
        if outcome.verified:
            self._verified[key.partition(" ")[0]] = outcome.verified

    @staticmethod
    def key(digest: str, sizes: Mapping[str, int], threads: int) -> str:
        """Name of a trial."""
        return " ".join([digest, *[f"{k}={v}" for k, v in sizes.items()], f"threads={threads}"])

    def get(self, key: str) -> Outcome | None:
        """The outcome of a trial that was made already."""
        return self._known.get(key)

    def verified(self, digest: str) -> str:
        """What quick verification found of a kernel at any size; empty if it was not verified."""
        return self._verified.get(digest, "")

    def add(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome, on disk before this returns."""
        self._keep(key, outcome)
        line = json.dumps({"key": key, "context": self._context, "outcome": asdict(outcome)})
        with open(self.path, "a", encoding="utf-8") as stream:
            # A line that a kill cut off must not swallow this one.
            start = "\n" if stream.tell() and not self._ends_whole() else ""
            stream.write(start + line + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _ends_whole(self) -> bool:
        with open(self.path, "rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read() == b"\n"
