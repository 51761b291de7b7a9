"""Verifies one emitted kernel with whatever this machine has, and says plainly how."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tilegen.emit.render import Rendered
from tilegen.errors import ToolMissing
from tilegen.names import counted
from tilegen.targets import CpuTarget, CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cc, find_nvcc, openmp_flags
from tilegen.toolchain.host import missing_features
from tilegen.verify.oracle import Verdict, verify


@dataclass
class Outcome:
    """What verification found of one kernel.

    Attributes:
        kernel: its stem.
        status: `ok`, `FAILED`, `compiled` (not run here) or `skipped` (not even compiled).
        how: what ran it, such as `ran on NVIDIA H200`, `ran on c_openmp` or `simulated`.
        summary: one line for people.
        details: the sizes tried and where the largest error is, or the first few failures; one a line.
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
            table |= {"sizes": [dict(sizes) for sizes in self.verdict.sizes]}
            table |= {"worst_at": self.verdict.worst_at, "failures": self.verdict.failures}
        return table


def verify_kernel(kernel: Rendered, *, seeds: int = 1) -> Outcome:
    """Build a kernel and run it over its case grid: on this machine, else in the simulator.

    Raises:
        BuildError: the compiler refused the emitted text.
    """
    if isinstance(kernel.spec.target, CudaTarget):
        return _cuda(kernel, seeds)
    return _cpu(kernel, seeds)


def _judge(kernel: Rendered, how: str, verdict: Verdict) -> Outcome:
    refused = f" ({verdict.refused} refused by _supports)" if verdict.refused else ""
    summary = f"{how}, {counted(verdict.cases, 'case')}{refused}, largest error {verdict.worst:.3f} of its bound"
    if verdict.ok:
        details = [_sizes(verdict)] + ([f"at {verdict.worst_at}"] if verdict.worst_at else [])
        return Outcome(kernel.stem, "ok", how, summary, details, verdict)
    summary = (
        f"{how}, {counted(len(verdict.failures), 'failure')} in {counted(verdict.cases, 'case')}"
    )
    return Outcome(kernel.stem, "FAILED", how, summary, verdict.faults()[:5], verdict, exit_code=1)


def _sizes(verdict: Verdict) -> str:
    """The sizes that ran, as `sizes m n k: 0 5 7, 1 1 1`."""
    tried = ", ".join(" ".join(str(n) for n in sizes.values()) for sizes in verdict.sizes)
    return f"sizes {' '.join(verdict.sizes[0])}: {tried}"


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


def has_gpu() -> bool:
    """Whether a GPU is here that PyCUDA can use."""
    from tilegen.runtime import gpu

    try:
        gpu.device_name()
    except ToolMissing:
        return False
    return True


def _cuda(kernel: Rendered, seeds: int) -> Outcome:
    target: CudaTarget = kernel.spec.target
    try:
        find_nvcc()
    except ToolMissing as error:
        why = f"not compiled: {error.message}"
        return Outcome(kernel.stem, "skipped", why, why, error.hint.splitlines())
    why_not = _why_no_gpu(target)
    if why_not:
        return _simulated(kernel, why_not)
    build.require_no_spill(kernel, target)
    from tilegen.runtime import gpu

    here = gpu.compute_capability()
    arch = None if here == target.cc else CudaTarget(f"sm_{here}", here, target.shared_block)
    loaded = gpu.GpuKernel(kernel.plan, build.library(kernel, arch=arch), kernel.symbol)
    how = f"ran on {gpu.device_name()}"
    return _judge(kernel, how, verify(kernel.plan, loaded.run, seeds=seeds))


def _why_no_gpu(target: CudaTarget) -> str:
    """Why this machine's GPU cannot run the kernel, or an empty string."""
    from tilegen.runtime import gpu

    try:
        name, here = gpu.device_name(), gpu.compute_capability()
    except ToolMissing:
        return "no GPU here that PyCUDA can use"
    if here < target.cc or (target.name.endswith("a") and here != target.cc):
        return f"needs {target}, {name} is sm_{here}"
    return ""


def _simulated(kernel: Rendered, why_not: str) -> Outcome:
    """Run the kernel in the simulator, over the cases that are small enough for it."""
    from tilegen.runtime.simulated import SimulatedKernel
    from tilegen.simulate.build import core_path
    from tilegen.verify.simulated import MOST_FLOPS

    with ThreadPoolExecutor(2) as pool:  # three compilations that do not need each other
        core = pool.submit(core_path)
        made = pool.submit(SimulatedKernel, kernel)
        build.require_no_spill(kernel, kernel.spec.target)
    try:
        core.result()
        runner = made.result()
    except ToolMissing as error:
        why = f"compiled, not run: {why_not}; not simulated: {error.message}"
        return Outcome(kernel.stem, "compiled", why, why)
    verdict = verify(kernel.plan, runner.run, limit=MOST_FLOPS)
    verdict.failures += [f"{f.kind}: {f.message}" for f in runner.findings[:5]]
    return _judge(kernel, f"simulated, not run: {why_not}", verdict)
