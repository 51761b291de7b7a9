"""One trial: a candidate is compiled, verified, and timed beside the default, where it can end only itself.

Whatever a candidate does, it ends as an Outcome with the stage it reached and the reason it stopped there.
The functions here run wherever an executor puts them, and take and return plain data.
"""

from __future__ import annotations

import atexit
import dataclasses
import hashlib
import json
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilegen.bench import cpu
from tilegen.bench.process import Slot, Worker, WorkerFailed, holding
from tilegen.emit.render import Rendered
from tilegen.errors import TilegenError
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.cache import cached
from tilegen.tune.processes import checking_lane, timing_lane, used, worker

# Where a trial may stop; `baseline` says nothing of the candidate: the default failed.
STAGES = ("emit", "compile", "verify", "baseline", "time")


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a candidate.

    Attributes:
        image: bytes of the shared library; empty if it failed.
        reason: why it failed.
        verified: what verification found, where it is part of the build.
        wrong: why verification failed, where it is part of the build.
    """

    image: bytes = b""
    reason: str = ""
    verified: str = ""
    wrong: str = ""


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

    def words(self) -> dict[str, Any]:
        """The kernel in words, with its library."""
        found = {"operator": self.operator, "target": self.target, "options": dict(self.options)}
        return found | {"library": str(self.library()), "symbol": self.symbol}

    def request(self, sizes: Mapping[str, int], seconds: float) -> dict[str, Any]:
        """The request that prepares a worker to time it."""
        return self.words() | {"sizes": dict(sizes), "seconds": seconds}


@dataclass(frozen=True)
class Rules:
    """How trials are run.

    Attributes:
        device: whose lock is held while something is timed.
        threads: CPU threads; 0 on a GPU.
        rounds: interleaved rounds with the default.
        seconds: length of a round, or of a graph of launches on a GPU.
        timeout: seconds that one answer of a candidate may take.
    """

    device: str
    threads: int = 1
    rounds: int = 4
    seconds: float = 0.04
    timeout: float = 60.0

    @property
    def on_gpu(self) -> bool:
        """Whether candidates run on a GPU."""
        return self.threads == 0


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
            return Compiled(build.library_without_spill(kernel).read_bytes())
        return Compiled(build.library(kernel).read_bytes())
    except TilegenError as error:
        detail = next((x for x in error.hint.splitlines() if "error" in x), "").strip()
        return Compiled(reason=f"{error.message}{': ' if detail else ''}{detail}")


def build_and_check(kernel: Rendered, options: Mapping[str, str], rules: Rules) -> Compiled:
    """Build a candidate for a GPU and verify it in the process of this thread.

    Args:
        kernel: what was emitted.
        options: every option of problem and schedule as text.
        rules: whose device is locked during each launch, and how long an answer may take.
    """
    compiled = compile_candidate(kernel)
    if not compiled.image:
        return compiled
    spec = kernel.spec
    job = Job(spec.problem.operator, spec.target.name, options, kernel.symbol, compiled.image)
    try:
        return dataclasses.replace(compiled, verified=verify(job, rules, "quick"))
    except WorkerFailed as error:
        return dataclasses.replace(compiled, wrong=_reason(error))


def verify(job: Job, rules: Rules, cases: str) -> str:
    """Run a kernel over cases, `quick` or `full`, against float64; what that found.

    Raises:
        WorkerFailed: it is wrong, or ended or hung its process.
    """
    with used(checking_lane()) if rules.on_gpu else _alone(rules) as process:
        return _verified(process, job, rules, cases)


def fault(job: Job, rules: Rules) -> str:
    """What quick verification finds wrong with a kernel; empty if it is right."""
    try:
        verify(job, rules, "quick")
    except WorkerFailed as error:
        return _reason(error)
    return ""


def _verified(process: Worker, job: Job, rules: Rules, cases: str) -> str:
    patience = rules.timeout if cases == "quick" else max(rules.timeout, cpu.PREPARE_TIMEOUT)
    process.ask("prepare " + json.dumps({**job.words(), "only_verify": True}), rules.timeout)
    request = {"cases": cases} | ({"device": rules.device} if rules.on_gpu else {})
    return process.ask("verify " + json.dumps(request), patience)


@contextmanager
def _alone(rules: Rules) -> Iterator[Worker]:
    """A process for one candidate."""
    process = worker("candidate", rules.threads)
    try:
        yield process
    finally:
        process.kill()


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
    stage = "verify"
    try:
        with used(timing_lane(rules.device)) if rules.on_gpu else _alone(rules) as process:
            verified = verified or _verified(process, job, rules, "quick")
            stage = "baseline"
            candidate, other = _sides(process, baseline, sizes, rules)
            stage = "time"
            place(candidate, job.request(sizes, rules.seconds), rules.timeout)
            with holding(rules.device, rules.on_gpu):
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
        return Outcome(stage, _reason(error), verified if stage != "verify" else "")


def _reason(error: WorkerFailed) -> str:
    what = error.message.removeprefix("candidate: ")
    return what if error.reason == "refused" else f"{error.reason}: {what}"


def place(side: Worker | Slot, request: Mapping[str, Any], timeout: float) -> None:
    """Prepare a competitor where it lives. Raises WorkerFailed."""
    if isinstance(side, Slot):
        side.process.ask("prepare " + json.dumps({**request, "slot": side.name}), timeout)
    else:
        side.ask("prepare " + json.dumps(request), timeout)


def _sides(
    process: Worker, baseline: Job, sizes: Mapping[str, int], rules: Rules
) -> tuple[Worker | Slot, Worker | Slot]:
    """Where the candidate lives, and the default, which is ready: on a GPU in the same process."""
    if not rules.on_gpu:
        return process, _default(baseline, sizes, rules)
    lane, other = timing_lane(rules.device), Slot("default", process)
    key = (hash(baseline.image), tuple(sizes.items()), rules.seconds)
    if lane.holds != key:
        process.ask("drop", rules.timeout)
        place(other, baseline.request(sizes, rules.seconds), rules.timeout)
        lane.holds = key
    return Slot("candidate", process), other


# The default's process, kept from trial to trial: it is the same for all of a search.
_kept: dict[tuple[Any, ...], Worker] = {}


def _default(baseline: Job, sizes: Mapping[str, int], rules: Rules) -> Worker:
    """A worker that is ready to time the default."""
    key = (hash(baseline.image), tuple(sizes.items()), rules.threads, rules.seconds)
    kept = _kept.get(key)
    if kept is None or not kept.alive:
        forget_default()
        kept = worker("default", rules.threads)
        _kept[key] = kept
        place(kept, baseline.request(sizes, rules.seconds), rules.timeout)
    return kept


@atexit.register
def forget_default() -> None:
    """End the process that is kept."""
    for process in _kept.values():
        process.kill()
    _kept.clear()
