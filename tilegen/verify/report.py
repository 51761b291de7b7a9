"""Verifies one emitted kernel with whatever this machine has, and says plainly how."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field

from tilegen.emit.render import Rendered
from tilegen.errors import ToolMissing
from tilegen.targets import CpuTarget, CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc, openmp_flags
from tilegen.toolchain.host import missing_features
from tilegen.verify.oracle import Verdict, verify


@dataclass
class Outcome:
    """What verification found of one kernel.

    Attributes:
        kernel: its stem.
        status: `ok`, `FAILED`, `compiled` (not run here) or `skipped` (not even compiled).
        how: what ran it, such as `ran on c_openmp` or `simulated`.
        summary: one line for people.
        details: failures, one a line, the first few.
        verdict: the cases, if any ran.
        exit_code: 0, 1 for a failure, 4 where a missing tool left nothing to say.
    """

    kernel: str
    status: str
    how: str
    summary: str
    details: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    exit_code: int = 0

    def as_dict(self) -> dict[str, object]:
        """The outcome for JSON."""
        table: dict[str, object] = {"kernel": self.kernel, "status": self.status, "how": self.how}
        table["summary"] = self.summary
        if self.verdict:
            table |= {"cases": self.verdict.cases, "worst": self.verdict.worst}
            table |= {"worst_at": self.verdict.worst_at, "failures": self.verdict.failures}
        return table


def verify_kernel(kernel: Rendered, *, seeds: int = 1) -> Outcome:
    """Build a kernel and run it over its case grid, or say why it was only compiled.

    Raises:
        BuildError: the compiler refused the emitted text.
    """
    if isinstance(kernel.spec.target, CudaTarget):
        return _cuda(kernel, seeds)
    return _cpu(kernel, seeds)


def _judge(kernel: Rendered, how: str, verdict: Verdict) -> Outcome:
    summary = f"{how}, {verdict.cases} cases, largest error {verdict.worst:.3f} of its bound"
    if verdict.ok:
        details = [f"at {verdict.worst_at}"] if verdict.worst_at else []
        return Outcome(kernel.stem, "ok", how, summary, details, verdict)
    summary = f"{how}, {len(verdict.failures)} failures in {verdict.cases} cases"
    return Outcome(kernel.stem, "FAILED", how, summary, verdict.failures[:5], verdict, exit_code=1)


def _cpu(kernel: Rendered, seeds: int) -> Outcome:
    from tilegen.runtime import cpu

    target: CpuTarget = kernel.spec.target
    if target.machine not in ("any", platform.machine()):
        why = f"not compiled: needs {target.machine}, this machine is {platform.machine()}"
        return Outcome(kernel.stem, "skipped", why, why)
    library = build.library(kernel)
    missing = missing_features(target)
    if missing:
        why = f"compiled, not run: this CPU lacks {', '.join(missing)}"
        return Outcome(kernel.stem, "compiled", why, why)
    loaded = cpu.load(kernel.plan, library, kernel.symbol)
    threads = "OpenMP" if openmp_flags(find_cc()) else "one thread, no OpenMP"
    return _judge(
        kernel, f"ran on c_openmp ({threads})", verify(kernel.plan, loaded.run, seeds=seeds)
    )


def _cuda(kernel: Rendered, seeds: int) -> Outcome:
    from tilegen.runtime import gpu

    target: CudaTarget = kernel.spec.target
    try:
        library = build.library(kernel)
    except ToolMissing as error:
        why = f"not compiled: {error.message}"
        return Outcome(kernel.stem, "skipped", why, why, error.hint.splitlines(), exit_code=0)
    build.require_no_spill(kernel, target)
    try:
        name, here = gpu.device_name(), gpu.compute_capability()
    except ToolMissing as error:
        why = f"compiled, not run: {error.message.splitlines()[0]}"
        return Outcome(kernel.stem, "compiled", why, why)
    if here < target.cc or (target.name.endswith("a") and here != target.cc):
        why = f"compiled, not run: needs {target}, {name} is sm_{here}"
        return Outcome(kernel.stem, "compiled", why, why)
    if here != target.cc:
        library = build.library(kernel, arch=CudaTarget(f"sm_{here}"))
    loaded = gpu.GpuKernel(kernel.plan, library, kernel.symbol)
    return _judge(kernel, f"ran on {name}", verify(kernel.plan, loaded.run, seeds=seeds))
