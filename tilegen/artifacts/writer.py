"""Writes emitted files: only when they differ, all or nothing, never over a hand-made change."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilegen.emit.banner import digest, split_banner
from tilegen.errors import CheckFailed, UsageError


@dataclass(frozen=True)
class Written:
    """One file of a writing.

    Attributes:
        path: where it is.
        changed: whether its bytes were written; False when they were there already.
    """

    path: Path
    changed: bool


def is_edited(text: str) -> bool:
    """Whether a file with our banner was changed below it. Raises UsageError for other files."""
    digests, body = split_banner(text)
    return digest(body) != digests.body


def _guard(path: Path, text: str) -> None:
    try:
        present = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        present = ""
    if present == text:
        return
    try:
        edited = is_edited(present)
    except UsageError:
        raise CheckFailed(
            f"{path} is in the way: tilegen did not write it",
            "Move it away, choose another folder with -o, or overwrite it with --force.",
        ) from None
    if edited:
        raise CheckFailed(
            f"{path} was edited by hand; writing would lose the change",
            "See the change with `tilegen check --diff`. Move it into the template or the formula, "
            "or drop it with --force.",
        )


def write_files(
    out: Path,
    files: Mapping[str, str],
    *,
    force: bool = False,
    guarded: frozenset[str] | None = None,
) -> list[Written]:
    """Write texts below a folder, each in one rename, after all of them were checked and staged.

    Args:
        out: the output folder; made if absent.
        files: text by relative path.
        force: also replace files that were edited by hand or that are not ours.
        guarded: paths that carry a banner and are protected by it; None for all of them.

    Raises:
        CheckFailed: a file in the way was edited by hand or is not ours, and `force` is not given.
        UsageError: the folder cannot be written. Nothing was written then.
    """
    differing = {}
    for relative, text in files.items():
        path = out / relative
        if path.exists() and path.read_bytes() == text.encode("utf-8"):
            continue
        if path.exists() and not force and (guarded is None or relative in guarded):
            _guard(path, text)
        differing[relative] = text
    staged: list[tuple[str, Path]] = []
    try:
        for relative, text in differing.items():
            path = out / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tilegen-")
            staged.append((name, path))
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
            os.chmod(name, 0o644)
        for name, path in staged:
            os.replace(name, path)
    except OSError as error:
        raise UsageError(
            f"cannot write below {out}: {error.strerror or error}",
            "Choose a folder that you may write with -o.",
        ) from None
    finally:
        for name, _ in staged:
            if os.path.exists(name):
                os.unlink(name)
    return [Written(out / relative, relative in differing) for relative in files]


def prune(out: Path, paths: set[str]) -> list[Path]:
    """Remove files that the manifest owns and the list no longer makes; edited ones stay.

    Returns:
        What was removed.
    """
    removed = []
    for relative in sorted(paths):
        path = out / relative
        if not path.is_file():
            continue
        try:
            if is_edited(path.read_text(encoding="utf-8")):
                continue
        except (UsageError, UnicodeDecodeError):
            continue
        path.unlink()
        removed.append(path)
    return removed
