"""`manifest.json` in the output folder: which files tilegen owns there, and what they were made from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from tilegen.errors import UsageError

FILE = "manifest.json"
FORMAT = 1


@dataclass
class Manifest:
    """Files by kernel.

    Attributes:
        kernels: for each stem, `command`, `symbol`, `target`, `inputs` and `files` (sorted paths).
        extra: files made from the whole list, such as the index and the CMake file.
    """

    kernels: dict[str, dict[str, object]] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)

    def owned(self) -> set[str]:
        """Every path that tilegen wrote, relative to the output folder."""
        files = {path for entry in self.kernels.values() for path in entry["files"]}
        return files | set(self.extra)

    def text(self) -> str:
        """The file's text, sorted, one stable form."""
        table = {"format": FORMAT, "extra": sorted(self.extra), "kernels": self.kernels}
        return json.dumps(table, indent=2, sort_keys=True) + "\n"


def read(out: Path) -> Manifest:
    """Read the manifest of an output folder; an absent one is empty.

    Raises:
        UsageError: it is truncated or of another format; the message says how to mend it.
    """
    path = out / FILE
    if not path.exists():
        return Manifest()
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise UsageError(
                f"{path} has format {table['format']}, this tilegen writes {FORMAT}",
                "Delete it and run: tilegen emit",
            )
        kernels = {
            stem: {
                "command": entry["command"],
                "symbol": entry["symbol"],
                "target": entry["target"],
                "inputs": entry["inputs"],
                "files": list(entry["files"]),
            }
            for stem, entry in table["kernels"].items()
        }
        return Manifest(kernels, list(table["extra"]))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is damaged: {type(error).__name__}: {error}",
            "Restore it from version control, or delete it and run: tilegen emit",
        ) from None
