"""One trial: a candidate is compiled, verified, and timed beside the default, each in a process of its own.

Whatever a candidate does, it ends as an Outcome with the stage it reached and the reason it stopped there.
The functions here run wherever an executor puts them, and take and return plain data.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilegen.bench import cpu
from tilegen.bench.process import Worker, WorkerFailed
from tilegen.emit.render import Rendered
from tilegen.errors import TilegenError
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.cache import cached
from tilegen.tune.device import timing

# Where a trial may stop; `baseline` says nothing of the candidate: the default failed.
STAGES = ("compile", "verify", "baseline", "time")


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a candidate.

    Attributes:
        image: bytes of the shared library; empty if it failed.
        reason: why it failed.
    """

    image: bytes = b""
    reason: str = ""


@dataclass(frozen=True)
class Job:
    """What is measured: a kernel's words, its library, and where.

    Attributes:
        operator, target, options: the kernel in words.
        symbol: its launcher.
        image: its library.
    """

    operator: str
    target: str
    options: Mapping[str, str]
    symbol: str
    image: bytes

    def library(self) -> Path:
        """The library as a file on this machine."""
        key = hashlib.sha256(self.image).hexdigest()[:32]
        make = lambda folder: (folder / build.LIBRARY).write_bytes(self.image)  # noqa: E731
        return cached("trial", key, (build.LIBRARY,), make) / build.LIBRARY

    def request(self, sizes: Mapping[str, int], seconds: float) -> dict[str, Any]:
        """The request that prepares a worker for it."""
        found = {"operator": self.operator, "target": self.target, "options": dict(self.options)}
        found |= {"sizes": dict(sizes), "seconds": seconds}
        return found | {"library": str(self.library()), "symbol": self.symbol}


@dataclass(frozen=True)
class Rules:
    """How trials are run.

    Attributes:
        device: whose lock is held while something is timed.
        threads: CPU threads.
        rounds: interleaved rounds with the default.
        seconds: length of a round.
        timeout: seconds that one answer of a candidate may take.
    """

    device: str
    threads: int = 1
    rounds: int = 4
    seconds: float = 0.04
    timeout: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Attributes:
        stage: the stage that failed, empty if none did.
        reason: why.
        verified: what verification found, once it passed.
        seconds: samples, seconds a call.
        ratios: default / candidate from neighbouring rounds.
    """

    stage: str = ""
    reason: str = ""
    verified: str = ""
    seconds: tuple[float, ...] = ()
    ratios: tuple[float, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether it was verified and timed."""
        return not self.stage and bool(self.ratios)

    @property
    def speedup(self) -> float:
        """Median ratio over the default; 0 for a trial that failed, so that it never is the best."""
        return statistics.median(self.ratios) if self.ok else 0.0


def compile_candidate(kernel: Rendered) -> Compiled:
    """Build a candidate; refuses what spills registers on a GPU."""
    try:
        if isinstance(kernel.spec.target, CudaTarget):
            build.require_no_spill(kernel, kernel.spec.target)
        return Compiled(build.library(kernel).read_bytes())
    except TilegenError as error:
        detail = next((x for x in error.hint.splitlines() if "error" in x), "").strip()
        return Compiled(reason=f"{error.message}{': ' if detail else ''}{detail}")


def worker(name: str, rules: Rules, peer: str = "tilegen") -> Worker:
    """A process for one of our kernels, or for a peer."""
    return Worker(name, [peer, str(rules.threads)], cpu.environment(rules.threads))


def measure(
    job: Job, baseline: Job, sizes: Mapping[str, int], rules: Rules, verified: str = ""
) -> Outcome:
    """Verify a candidate and time it beside the default in interleaved rounds.

    Args:
        job: the candidate.
        baseline: the default, known to be right.
        sizes: extents at which they are timed.
        rules: rounds, timeouts, device.
        verified: the earlier result of verification; empty to verify now.
    """
    candidate = worker("candidate", rules)
    stage = "verify"
    try:
        request = job.request(sizes, rules.seconds)
        if not verified:
            candidate.ask("prepare " + json.dumps(request | {"only_verify": True}), rules.timeout)
            verified = candidate.ask('verify {"cases": "quick"}', rules.timeout)
        stage = "baseline"
        other = _default(baseline, sizes, rules)
        stage = "time"
        candidate.ask("prepare " + json.dumps(request), rules.timeout)
        with timing(rules.device):
            samples, failed = cpu.rounds([candidate, other], rules.rounds, rules.timeout)
        if "candidate" not in samples:
            raise failed["candidate"]
        if "default" not in samples:
            stage = "baseline"
            raise failed["default"]
        mine, theirs = samples["candidate"], samples["default"]
        ratios = tuple(t / m for m, t in zip(mine, theirs))
        return Outcome(verified=verified, seconds=tuple(mine), ratios=ratios)
    except WorkerFailed as error:
        what = error.message.removeprefix("candidate: ")
        reason = what if error.reason == "refused" else f"{error.reason}: {what}"
        return Outcome(stage, reason, verified if stage != "verify" else "")
    finally:
        candidate.kill()


# The default's process, kept from trial to trial: it is the same for all of a search.
_kept: dict[tuple[Any, ...], Worker] = {}


def _default(baseline: Job, sizes: Mapping[str, int], rules: Rules) -> Worker:
    """A worker that is ready to time the default."""
    key = (hash(baseline.image), tuple(sizes.items()), rules.threads, rules.seconds)
    kept = _kept.get(key)
    if kept is None or not kept.alive:
        forget_default()
        kept = worker("default", rules)
        _kept[key] = kept
        kept.ask("prepare " + json.dumps(baseline.request(sizes, rules.seconds)), rules.timeout)
    return kept


@atexit.register
def forget_default() -> None:
    """End the process that is kept."""
    for process in _kept.values():
        process.kill()
    _kept.clear()
