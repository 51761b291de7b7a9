"""Files that are costly to make and depend on their inputs alone: kept by a digest, shared by processes.

The folder is `$TILEGEN_CACHE_DIR`, else `$XDG_CACHE_HOME/tilegen`, else `~/.cache/tilegen`; where none of
them can be written, a folder of the user's under the system's temporary folder, with a warning.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

# Entries not used for the longest time go first once the cache is larger than this.
LIMIT_BYTES = 2 << 30

# The cache is measured no more often than this: ten thousand entries take seconds.
SWEEP_SECONDS = 60.0
_SWEPT = ".swept"


def _writable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def cache_dir() -> Path:
    """The cache folder, made if it is not there."""
    explicit = os.environ.get("TILEGEN_CACHE_DIR")
    xdg = os.environ.get("XDG_CACHE_HOME")
    return _cache_dir(explicit, xdg, os.path.expanduser("~"))


@functools.cache
def _cache_dir(explicit: str | None, xdg: str | None, home: str) -> Path:
    wanted = Path(explicit) if explicit else Path(xdg or os.path.join(home, ".cache")) / "tilegen"
    if _writable(wanted):
        return wanted
    user = os.getuid() if hasattr(os, "getuid") else 0
    spare = Path(tempfile.gettempdir()) / f"tilegen-cache-{user}"
    warnings.warn(
        f"cannot write {wanted}; caching in {spare}. Set TILEGEN_CACHE_DIR to choose a folder.",
        stacklevel=3,
    )
    spare.mkdir(mode=0o700, parents=True, exist_ok=True)
    return spare


def digest(parts: Iterable[str | bytes]) -> str:
    """Hex digest of the parts, each with its length, so that no two lists of parts share one."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()[:32]


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock against other processes and threads; where files cannot be locked, hold nothing."""
    while True:
        with lock.open("wb") as file:
            if fcntl:
                with contextlib.suppress(OSError):  # some network file systems have no locks
                    fcntl.flock(file, fcntl.LOCK_EX)
            try:
                current = lock.stat().st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                current = False
            if current:
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return
        # Whoever held it before removed the file that was opened here.


def cached(kind: str, key: str, names: tuple[str, ...], build: Callable[[Path], None]) -> Path:
    """The folder `kind-key` in the cache, holding `names`; built once, and whole or not at all.

    Args:
        kind: what is kept, a word.
        key: digest of everything that the result depends on.
        names: files that the finished folder holds.
        build: fills an empty folder. It is renamed into place when it holds every name, so a process
            that is killed leaves nothing under the final name. Of two processes that want the same
            entry one builds and the other waits for it.
    """
    root = cache_dir()
    final = root / f"{kind}-{key}"
    if _whole(final, names):
        return final
    with _alone(root / f".{kind}-{key}.lock"):
        if not _whole(final, names):
            _make(kind, final, names, build)
    _shrink(root, keep=final)
    return final


def _whole(final: Path, names: tuple[str, ...]) -> bool:
    """Whether an entry is there; if so, it counts as used now."""
    if not all((final / name).exists() for name in names):
        return False
    os.utime(final)
    return True


def _make(kind: str, final: Path, names: tuple[str, ...], build: Callable[[Path], None]) -> None:
    root = final.parent
    with tempfile.TemporaryDirectory(prefix=f".{kind}-", dir=root) as scratch:
        made = Path(scratch) / "out"
        made.mkdir()
        build(made)
        missing = [name for name in names if not (made / name).exists()]
        if missing:
            raise FileNotFoundError(f"building {kind} did not make {', '.join(missing)}")
        try:
            made.rename(final)
        except OSError:
            # Another process was first, and its folder may be in use; only a damaged one is replaced.
            if not all((final / name).exists() for name in names):
                final.rename(Path(scratch) / "damaged")
                made.rename(final)


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def _shrink(root: Path, keep: Path) -> None:
    """Drop the entries used least recently until the cache fits, and scratch and locks older than a day."""
    swept = root / _SWEPT
    with contextlib.suppress(FileNotFoundError):
        if time.time() - swept.stat().st_mtime < SWEEP_SECONDS:
            return
    swept.touch()
    entries = []
    for folder in root.iterdir():
        try:
            if folder.name.startswith("."):
                if time.time() - folder.stat().st_mtime <= 86400:
                    continue
                if folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    folder.unlink()
            elif folder.is_dir() and folder != keep:
                entries.append((folder.stat().st_mtime, folder, _size(folder)))
        except FileNotFoundError:
            continue
    total = sum(size for _, _, size in entries)
    for _, folder, size in sorted(entries, key=lambda e: e[0]):
        if total <= LIMIT_BYTES:
            return
        shutil.rmtree(folder, ignore_errors=True)
        total -= size
