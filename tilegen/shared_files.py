"""Files that several processes write: whole or not at all, one writer at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilegen.errors import UsageError


def require_writable(folder: Path, flag: str) -> None:
    """Raise UsageError, naming the flag, if files cannot be written into a folder; it is made if it is not there.

    For what takes minutes before it writes.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write below {folder}: {error.strerror or error}",
            f"Choose a folder that you may write with {flag}.",
        ) from None


def require_writable_file(path: Path, flag: str) -> None:
    """Raise UsageError, naming the flag, if a file cannot be written; its folder is made if it is not there."""
    if path.is_dir():
        raise UsageError(f"{flag} {path} is a folder", f"Name a file: {flag} {path / 'FILE'}")
    require_writable(path.parent, flag)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is to be replaced; another process waits meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = f"tilegen-{os.getuid()}-{zlib.crc32(str(path.resolve()).encode()):08x}.lock"
    with open(Path(tempfile.gettempdir()) / name, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def replace(path: Path, data: bytes) -> None:
    """Write a file through a temporary one in its folder, so that readers see the old or the new."""
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise
