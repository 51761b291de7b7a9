"""One row of a tuning table: a problem at one size, the best schedule, and everything measured for it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilegen.errors import UsageError

Key = tuple[str, str, int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class Row:
    """What tuning found for a problem on a target, at one size and with one number of threads.

    Attributes:
        problem: the problem's options in words.
        target: the target's name.
        threads: CPU threads; 0 on a GPU.
        sizes: extents by name.
        schedule: the winner in words.
        speedup: median of `ratios`.
        default: the schedule of the stated rule in words.
        peak: part of the device's peak, of arithmetic or of memory, that the winner reaches; None where its
            data sheet is not known.
        peers: median ratio peer / winner by peer; above 1 the winner is faster.
        speedups: ratio default / schedule of other schedules measured at this size, by their words.
        digests: of the texts of the kernels in `speedups`; one that has none, or another text now, is not used.
        seconds: raw samples of the winner, seconds a call.
        ratios: raw ratios default / winner from neighbouring rounds.
        noise: half the interquartile range of the ratios over their median.
        verified: how the winner was verified.
        trials: how many candidates were tried, and how many failed.
        digest: of the winner's text; another text makes the row stale.
        toolchain: the compiler.
        machine: device, driver, clocks and the like.
    """

    problem: str
    target: str
    sizes: Mapping[str, int]
    schedule: str
    speedup: float
    threads: int = 0
    default: str = ""
    peak: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    speedups: Mapping[str, float] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    seconds: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    noise: float = 0.0
    verified: str = ""
    trials: str = ""
    digest: str = ""
    toolchain: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """What at most one row of a table has; rows are sorted by it."""
        return self.problem, self.target, self.threads, tuple(self.sizes.items())

    def text(self) -> str:
        """The row as text of a table."""
        lines = ["[[row]]"]
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            told = value not in ((), {}, "", None) or item.name in _NEEDED
            if told and item.name not in ("speedups", "digests"):
                lines.append(f"{item.name} = {_toml(value)}")
        if self.speedups:
            lines.append("[row.speedups]")
            for schedule, speedup in sorted(self.speedups.items()):
                known = self.digests.get(schedule)
                value = [speedup, known] if known else speedup
                lines.append(f"{_bare(schedule)} = {_toml(value)}")
        return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_bare(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, float):
        return f"{value:.4g}" if "." in f"{value:.4g}" or "e" in f"{value:.4g}" else f"{value:.1f}"
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=True)


def _bare(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isalnum() and plain.isascii() else json.dumps(name, ensure_ascii=True)


_KINDS: dict[str, Any] = {
    "problem": str,
    "target": str,
    "schedule": str,
    "default": str,
    "verified": str,
    "trials": str,
    "digest": str,
    "toolchain": str,
    "threads": int,
    "speedup": float,
    "noise": float,
    "peak": float,
}
_NUMBERS = {"seconds", "ratios"}
_TABLES = {"sizes": int, "peers": float, "machine": str}
_NEEDED = ("problem", "target", "sizes", "schedule", "speedup")


def from_table(table: Mapping[str, Any]) -> Row:
    """Check a parsed row. Raises UsageError naming the key and what it should hold."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name in _KINDS:
            values[name] = _kind(name, value, _KINDS[name])
        elif name in _NUMBERS:
            if not isinstance(value, list):
                raise UsageError(f"{name} is no list of numbers")
            values[name] = tuple(_kind(name, v, float) for v in value)
        elif name == "speedups":
            values |= _speedups(value)
        elif name in _TABLES:
            if not isinstance(value, dict):
                raise UsageError(f"{name} is no table")
            values[name] = {k: _kind(f"{name}.{k}", v, _TABLES[name]) for k, v in value.items()}
        else:
            raise UsageError(f"unknown key '{name}'")
    for name in _NEEDED:
        if name not in values:
            raise UsageError(f"the row has no {name}")
    return Row(**values)


def _speedups(table: Any) -> dict[str, dict]:
    """Speedups and digests of `SCHEDULE = [SPEEDUP, DIGEST]`, or of a bare speedup without a digest."""
    if not isinstance(table, dict):
        raise UsageError("speedups is no table")
    speedups, digests = {}, {}
    for schedule, value in table.items():
        name = f"speedups.{schedule}"
        if isinstance(value, list):
            if len(value) != 2:
                raise UsageError(f"{name} is no [SPEEDUP, DIGEST]")
            value, digests[schedule] = value[0], _kind(name, value[1], str)
        speedups[schedule] = _kind(name, value, float)
    return {"speedups": speedups, "digests": digests}


def _kind(name: str, value: Any, kind: type) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{name} = {value!r} is no {kind.__name__}")
    if kind is float and not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{name} = {value!r} is no finite number from 0 up")
    return value
