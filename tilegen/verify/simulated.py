"""One kernel in the simulator at given sizes: values against float64, and what the detectors found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.errors import CallRefused, UsageError
from tilegen.names import counted
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate import Finding, Options, Outcome, as_json, report
from tilegen.verify.oracle import FIRST_OWN_CODE, Case, case_grid, compare, prepare

# Largest of a kernel's own cases that is simulated, in floating-point operations.
MOST_FLOPS = 40_000_000


@dataclass
class Simulated:
    """What simulating a kernel gave.

    Attributes:
        kernel: its stem.
        cases: sizes that ran.
        worst: largest |error| / bound, and where.
        findings: hazards, hangs and broken rules.
        outcomes: of every launch.
        source: name of the `.cu`, for reports.
    """

    kernel: str
    cases: list[str] = field(default_factory=list)
    worst: tuple[float, str] = (0.0, "")
    findings: list[Finding] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    source: str = ""

    @property
    def ok(self) -> bool:
        """Whether something ran, the values are right and nothing was found."""
        return bool(self.cases) and self.worst[0] <= 1 and not self.findings

    def as_dict(self) -> dict[str, object]:
        """The result for JSON."""
        return {
            "kernel": self.kernel,
            "ok": self.ok,
            "cases": self.cases,
            "worst": {"of_bound": self.worst[0], "at": self.worst[1]},
            "launches": [as_json(o, counters=False) for o in self.outcomes],
        }

    def text(self, costs: bool = False) -> str:
        """A report for people."""
        steps = sum(o.steps for o in self.outcomes)
        seconds = sum(o.seconds for o in self.outcomes)
        state = "ok" if self.ok else "FOUND"
        lines = [
            f"{state:<6} {self.kernel}: simulated, {counted(len(self.cases), 'case')}, {counted(len(self.outcomes), 'launch', 'es')}, "
            f"{steps} warp instructions in {seconds:.2f} s"
        ]
        lines.append(f"       largest error {self.worst[0]:.3f} of its bound")
        if self.worst[0] > 1:
            lines.append(f"       {self.worst[1]}")
        shown = [o for o in self.outcomes if o.findings] or self.outcomes[-1:] if costs else []
        shown = shown or [o for o in self.outcomes if o.findings]
        lines += [report(o, self.source, costs) for o in shown[:3]]
        return "\n".join(lines)


def costs_by_line(outcomes: Sequence[Outcome]) -> list[dict[str, int]]:
    """Shared-memory wavefronts and 32-byte global sectors of each line that has any, beside the least for its bytes."""
    names = ("wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors")
    sums: dict[int, list[int]] = {}
    for counter in (c for outcome in outcomes for c in outcome.counters):
        values = [getattr(counter, name) for name in names]
        if any(values):
            old = sums.get(counter.line, [0] * len(names))
            sums[counter.line] = [a + b for a, b in zip(old, values)]
    return [{"line": line, **dict(zip(names, sums[line]))} for line in sorted(sums)]


def simulate_case(
    kernel: Rendered,
    sizes: Mapping[str, int],
    options: Options,
    multiprocessors: int | None = None,
) -> Simulated:
    """Simulate a kernel at the given sizes, or at its own verification sizes if none are given.

    Raises:
        UsageError: a size is missing or unknown.
        ToolMissing: no nvcc or no C++ compiler.
    """
    problem = kernel.plan.problem
    names = [s.name for s in problem.sizes()]
    if sizes and set(sizes) != set(names):
        raise UsageError(
            f"sizes given: {', '.join(sizes)}; the kernel has {', '.join(names)}",
            "Give each: " + " ".join(f"--{n} 100" for n in names),
        )
    tile = kernel.plan.schedule.tile_extents()
    cases = [Case(sizes, 0, 0, options.seed)] if sizes else list(case_grid(problem, tile, 1))
    found = Simulated(kernel.stem, source=Path(kernel.source).name)
    runner = SimulatedKernel(kernel, options, multiprocessors=multiprocessors)
    for case in cases:
        if not sizes and problem.flops(case.sizes) > MOST_FLOPS:
            continue
        arrays, scalars, expected = prepare(kernel.plan, case)
        try:
            runner.run({name: g.array for name, g in arrays.items()}, scalars)
        except CallRefused as refusal:
            if sizes or refusal.code < FIRST_OWN_CODE:
                raise
            continue
        found.cases.append(str(case))
        worst = compare(kernel.plan, arrays, expected)
        if worst[0] > found.worst[0]:
            found.worst = (worst[0], f"{case}: {worst[1]}")
    found.findings, found.outcomes = runner.findings, runner.outcomes
    return found
