"""What a measurement gives: raw samples, medians, ratios with their spread, and a verdict on change."""

from __future__ import annotations

import json
import math
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tilegen.errors import UsageError
from tilegen.shared_files import replace

FORMAT = 1

# What is timed beside a kernel to show how far it could go, and competes for nothing: it computes nothing.
CEILINGS = frozenset({"copy", "read", "without_score"})

# A peer so named has packed its weights before the timing; ours so named has, too.
PACKED_AHEAD = "prepacked"


@dataclass
class Row:
    """One case beside its peers.

    Attributes:
        case: label of the case.
        group: its group.
        operator: operator name.
        sizes: extents.
        kernel: stem of ours.
        command: what emits it.
        flops, bytes: of one call.
        seconds: raw samples of ours and of each peer, seconds a call.
        ratios: raw ratios peer / ours from neighbouring blocks, by peer; above 1 we are faster.
        errors: why a competitor gave no numbers, by name.
        notes: what a competitor is, by name, where its name does not say it.
    """

    case: str
    group: str
    operator: str
    sizes: dict[str, int]
    kernel: str = ""
    command: str = ""
    flops: int = 0
    bytes: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str) -> float:
        """Median ratio peer / ours."""
        return statistics.median(self.ratios[peer])

    def best_peer(self) -> tuple[str, float]:
        """The fastest peer of our kind and its ratio, or an empty name; a ceiling is no peer."""
        names = set(self.ratios) - CEILINGS - {self.spared_packing()[0]}
        return self._least(sorted(names))

    def spared_packing(self) -> tuple[str, float]:
        """The fastest peer that packed weights ahead where ours did not, and its ratio, or an empty name."""
        ours = f"_{PACKED_AHEAD}" in self.kernel
        return self._least([n for n in self.ratios if n.endswith(f"_{PACKED_AHEAD}") and not ours])

    def ceiling(self) -> tuple[str, float]:
        """The fastest ceiling and the part of it that ours reaches, or an empty name."""
        return self._least([name for name in self.ratios if name in CEILINGS])

    def _least(self, names: list[str]) -> tuple[str, float]:
        if not names:
            return "", math.nan
        name = min(names, key=self.ratio)
        return name, self.ratio(name)

    def median(self, who: str = "tilegen") -> float:
        """Median seconds a call."""
        return statistics.median(self.seconds[who]) if self.seconds.get(who) else math.nan


@dataclass
class Report:
    """A run of a suite.

    Attributes:
        suite: its name.
        machine: device, driver, toolchain, clocks and power.
        rows: one a case.
    """

    suite: str
    machine: dict[str, str]
    rows: list[Row]

    def save(self, path: Path) -> None:
        """Write everything as JSON, raw samples included."""
        path.parent.mkdir(parents=True, exist_ok=True)
        table = {"format": FORMAT, "suite": self.suite, "machine": self.machine}
        table["rows"] = [asdict(r) for r in self.rows]
        replace(path, (json.dumps(table, indent=1) + "\n").encode())


def load(path: Path) -> Report:
    """Read a saved report. Raises UsageError if it cannot be read."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise UsageError(f"{path} has format {table['format']}, {FORMAT} expected")
        return Report(table["suite"], table["machine"], [Row(**r) for r in table["rows"]])
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read the results in {path}: {error}") from None


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of the finite positive values; NaN of none."""
    logs = [math.log(v) for v in values if v > 0 and math.isfinite(v)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def spread(samples: list[float]) -> float:
    """Half the interquartile range over the median: the noise of a measurement."""
    if len(samples) < 4:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2 / statistics.median(samples)


def verdict(old: list[float], new: list[float], least: float = 0.02) -> str:
    """Compare two sets of ratios peer / ours: `same`, `faster`, `slower` or `unclear`.

    A change counts when it exceeds both `least` and twice the noise of the two sets together; it is
    unclear when the noise itself exceeds `least` and hides a change of that size.
    """
    if not old or not new:
        return "unclear"
    noise = 2 * math.hypot(spread(old), spread(new))
    change = statistics.median(new) / statistics.median(old) - 1
    if abs(change) > max(least, noise):
        return "faster" if change > 0 else "slower"
    return "unclear" if noise > max(least, abs(change)) and noise > 3 * least else "same"


def host_facts() -> dict[str, str]:
    """Facts of this machine's CPU and Python."""
    facts = {"python": platform.python_version(), "machine": platform.machine()}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                facts["cpu"] = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return facts
