"""Drift: what `tilegen check` says of each generated file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from tilegen.artifacts import index, manifest, writer
from tilegen.artifacts.kernel_list import KernelList
from tilegen.emit.banner import MARK
from tilegen.emit.render import Rendered, render
from tilegen.errors import UsageError

MENDS = {
    "stale": "tilegen emit",
    "edited": "move the change into the template or formula, then: tilegen emit --force",
    "missing": "tilegen emit",
    "orphan": "tilegen emit --prune, or add the kernel to tilegen.toml",
    "duplicate": "remove one of the two entries from tilegen.toml",
}


@dataclass(frozen=True)
class Status:
    """What was found of one file.

    Attributes:
        path: relative to the output folder.
        status: fresh, stale, edited, missing, orphan or duplicate.
        detail: why, in a few words.
        wanted: the text that emission would write, empty for an orphan.
        present: the text that is there, empty if none.
    """

    path: str
    status: str
    detail: str = ""
    wanted: str = ""
    present: str = ""

    @property
    def mend(self) -> str:
        """The command or step that makes the file fresh."""
        return MENDS.get(self.status, "")

    def diff(self) -> str:
        """Unified diff from what is there to what emission would write."""
        lines = difflib.unified_diff(
            self.present.splitlines(keepends=True),
            self.wanted.splitlines(keepends=True),
            f"{self.path} (present)",
            f"{self.path} (emitted)",
        )
        return "".join(lines)


def emitted(kernels: list[Rendered]) -> dict[str, str]:
    """Every text that the list makes, by path: kernels, index files and the manifest."""
    files: dict[str, str] = {}
    for kernel in kernels:
        files.update(kernel.files)
    files.update(index.index_files(kernels))
    files[manifest.FILE] = index.manifest_of(kernels).text()
    return files


def render_list(listed: KernelList) -> tuple[list[Rendered], list[Status]]:
    """Emit every listed kernel; two entries that make one file are reported, the first is kept."""
    kernels: dict[str, Rendered] = {}
    duplicates = []
    for spec in listed.specs:
        kernel = render(spec, listed.style)
        if kernel.stem in kernels:
            first = kernels[kernel.stem].command
            detail = f"made by `{first}` and by `{kernel.command}`"
            duplicates.append(Status(kernel.source, "duplicate", detail))
        else:
            kernels[kernel.stem] = kernel
    return list(kernels.values()), duplicates


def check(listed: KernelList) -> list[Status]:
    """Compare the output folder with what the list makes.

    Returns:
        One status a file, sorted by path; all `fresh` when nothing drifted.
    """
    kernels, found = render_list(listed)
    wanted = emitted(kernels)
    for path, text in wanted.items():
        found.append(_compare(listed.out, path, text))
    found += _orphans(listed.out, set(wanted))
    return sorted(found, key=lambda s: s.path)


def _compare(out: Path, path: str, text: str) -> Status:
    place = out / path
    if not place.is_file():
        return Status(path, "missing", "not there", text)
    data = place.read_bytes()
    if data == text.encode("utf-8"):
        return Status(path, "fresh", "", text, text)
    present = data.decode("utf-8", "replace")
    try:
        edited = writer.is_edited(present)
    except UsageError:
        edited = MARK not in present and MARK in text
    if edited:
        return Status(path, "edited", "differs from its own body digest", text, present)
    return Status(path, "stale", "tilegen would write another text", text, present)


def _orphans(out: Path, wanted: set[str]) -> list[Status]:
    if not out.is_dir():
        return []
    owned = manifest.read(out).owned()
    found = []
    for place in sorted(out.rglob("*")):
        path = place.relative_to(out).as_posix()
        if path in wanted or not place.is_file():
            continue
        text = place.read_text(encoding="utf-8", errors="replace")
        if MARK in text or path in owned:
            found.append(Status(path, "orphan", "nothing in tilegen.toml makes it", "", text))
    return found
