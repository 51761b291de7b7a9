"""Files that are costly to make and depend on their inputs alone: kept by a digest of those, shared by processes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


def cache_dir() -> Path:
    """`$TILEGEN_CACHE`, else `$XDG_CACHE_HOME/tilegen`, else `~/.cache/tilegen`; made if it is not there."""
    place = os.environ.get("TILEGEN_CACHE")
    if place is None:
        place = os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tilegen"
        )
    path = Path(place)
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(parts: Iterable[str | bytes]) -> str:
    """Hex digest of the parts, each with its length, so that no two lists of parts share one."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()[:32]


def cached(kind: str, key: str, names: tuple[str, ...], build: Callable[[Path], None]) -> Path:
    """The folder `kind-key` in the cache, holding `names`; built once, and whole or not at all.

    `build` fills an empty folder. It is renamed into place when it holds every name, so a process that is killed leaves
    nothing behind under the final name, and of two processes that build at once one wins and both use its result.
    """
    final = cache_dir() / f"{kind}-{key}"
    if all((final / name).exists() for name in names):
        return final
    with tempfile.TemporaryDirectory(prefix=f".{kind}-", dir=cache_dir()) as scratch:
        made = Path(scratch) / "out"
        made.mkdir()
        build(made)
        missing = [name for name in names if not (made / name).exists()]
        if missing:
            raise FileNotFoundError(f"building {kind} did not make {', '.join(missing)}")
        try:
            made.rename(final)
        except OSError:
            if not all((final / name).exists() for name in names):
                raise
    return final
