"""`tilegen.toml`: the one list of a project's kernels."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilegen.emit.render import Style
from tilegen.errors import TilegenError, UsageError
from tilegen.spec import KernelSpec
from tilegen.tables import files, lookup
from tilegen.targets import target
from tilegen.values import nearest

FILE = "tilegen.toml"
_PROJECT_KEYS = ("prefix", "license", "out", "tuned")


@dataclass(frozen=True)
class KernelList:
    """A project's kernels.

    Attributes:
        path: the file it was read from.
        out: folder of the emitted files.
        style: prefix and licence.
        specs: the kernels in the order of the file.
        notes: what the tuning tables said besides: stale rows, sizes without a row.
        tuned: by target, the device whose tuning table has the defaults.
    """

    path: Path
    out: Path
    style: Style
    specs: tuple[KernelSpec, ...]
    notes: tuple[str, ...] = ()
    tuned: Mapping[str, str] = field(default_factory=dict)

    def select(self, pattern: str) -> list[KernelSpec]:
        """Kernels whose stem matches a glob.

        Raises:
            UsageError: none does; the message names the nearest stem.
        """
        from tilegen.emit.naming import stem
        from tilegen.plans import make_plan

        stems = {stem(make_plan(s)): s for s in self.specs}
        chosen = [s for name, s in stems.items() if fnmatch.fnmatch(name, pattern)]
        if not chosen:
            raise UsageError(
                f"no kernel of {self.path} matches '{pattern}'{nearest(pattern, stems)}",
                "`tilegen list` prints their names.",
            )
        return chosen


def find(start: Path | None = None) -> Path:
    """The nearest `tilegen.toml`, looking upwards from `start` or the working directory.

    Raises:
        UsageError: there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return folder / FILE
    raise UsageError(
        f"no {FILE} here or in a folder above ({here})",
        "Name a kernel (`tilegen emit gemm --tile 128x128x32`), or write a list: see docs/usage.md.",
    )


def read(path: Path) -> KernelList:
    """Read a kernel list.

    Raises:
        UsageError: the file cannot be read or parsed, has an unknown key, or lists a kernel twice;
            the message names the entry.
    """
    table = _parsed(path)
    project = table.get("project", {})
    style = Style(project.get("prefix", "tilegen"), project.get("license", "MIT-0"))
    tuned = _tuned(path, project.get("tuned", {}))
    specs: dict[str, KernelSpec] = {}
    notes: list[str] = []
    for number, entry in enumerate(table.get("kernel", []), start=1):
        spec = _entry(path, number, dict(entry), notes, tuned)
        command = spec.command()
        if command in specs:
            raise UsageError(f"{path}: kernel {number} is listed twice: {command}")
        specs[command] = spec
    return KernelList(
        path,
        path.parent / project.get("out", "generated"),
        style,
        tuple(specs.values()),
        tuple(notes),
        tuned,
    )


def devices() -> Mapping[str, str]:
    """By target, the device whose tuning table has this project's defaults; none outside of a project.

    Raises:
        UsageError: the project's list cannot be parsed, or names a device without tables.
    """
    try:
        path = find()
    except UsageError:
        return {}
    return _tuned(path, _parsed(path).get("project", {}).get("tuned", {}))


def _parsed(path: Path) -> dict[str, Any]:
    """The file as tables, its keys checked. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    for key in table:
        if key not in ("project", "kernel"):
            raise UsageError(f"{path}: unknown table '{key}'{nearest(key, ('project', 'kernel'))}")
    for key in table.get("project", {}):
        if key not in _PROJECT_KEYS:
            raise UsageError(f"{path}: [project] has no key '{key}'{nearest(key, _PROJECT_KEYS)}")
    return table


def _tuned(path: Path, value: object) -> dict[str, str]:
    """Devices by target of `tuned = { sm_90a = "nvidia-h200" }`."""
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise UsageError(
            f"{path}: [project] tuned is no table of devices by target",
            'Example: tuned = { sm_90a = "nvidia-h200" }',
        )
    for name, device in value.items():
        target(name)
        files.require_device(path.parent / files.FOLDER, device)
    return dict(value)


def _entry(
    path: Path,
    number: int,
    entry: dict[str, object],
    notes: list[str],
    tuned: Mapping[str, str],
) -> KernelSpec:
    where = f"{path}: kernel {number}"
    operator = entry.pop("operator", None)
    if operator is None:
        raise UsageError(f"{where} names no operator", 'Add: operator = "gemm"')
    target_name = str(entry.pop("target", "sm_80"))
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in entry.items()}
    try:
        # `tuned = "DEVICE"` and `at = "m=512,..."` take the schedule from the device's table.
        tables = path.parent / files.FOLDER
        found = lookup.resolve(str(operator), target_name, texts, tables, tuned)
        notes += [f"{where}: {line}" for line in found.notes]
        return KernelSpec.make(str(operator), target_name, found.options)
    except TilegenError as error:
        error.message = f"{where} ({operator}, {target_name}): {error.message}"
        error.args = (error.message,)
        raise
