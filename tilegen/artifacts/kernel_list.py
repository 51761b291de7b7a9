"""`tilegen.toml`: the one list of a project's kernels."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tilegen.emit.render import Style
from tilegen.errors import TilegenError, UsageError
from tilegen.spec import KernelSpec
from tilegen.tables import lookup
from tilegen.tables.files import FOLDER
from tilegen.values import nearest

FILE = "tilegen.toml"
_PROJECT_KEYS = ("prefix", "license", "out")


@dataclass(frozen=True)
class KernelList:
    """A project's kernels.

    Attributes:
        path: the file it was read from.
        out: folder of the emitted files.
        style: prefix and licence.
        specs: the kernels in the order of the file.
        notes: what the tuning tables said besides: stale rows, sizes without a row.
    """

    path: Path
    out: Path
    style: Style
    specs: tuple[KernelSpec, ...]
    notes: tuple[str, ...] = ()

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
    project = table.get("project", {})
    for key in project:
        if key not in _PROJECT_KEYS:
            raise UsageError(f"{path}: [project] has no key '{key}'{nearest(key, _PROJECT_KEYS)}")
    style = Style(project.get("prefix", "tilegen"), project.get("license", "MIT-0"))
    specs: dict[str, KernelSpec] = {}
    notes: list[str] = []
    for number, entry in enumerate(table.get("kernel", []), start=1):
        spec = _entry(path, number, dict(entry), notes)
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
    )


def _entry(path: Path, number: int, entry: dict[str, object], notes: list[str]) -> KernelSpec:
    where = f"{path}: kernel {number}"
    operator = entry.pop("operator", None)
    if operator is None:
        raise UsageError(f"{where} names no operator", 'Add: operator = "gemm"')
    target = str(entry.pop("target", "sm_80"))
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in entry.items()}
    try:
        # `tuned = "DEVICE"` and `at = "m=512,..."` take the schedule from the device's table.
        options, told = lookup.resolve(str(operator), target, texts, path.parent / FOLDER)
        notes += [f"{where}: {line}" for line in told]
        return KernelSpec.make(str(operator), target, options)
    except TilegenError as error:
        error.message = f"{where} ({operator}, {target}): {error.message}"
        error.args = (error.message,)
        raise
