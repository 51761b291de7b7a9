"""The mutation score of emitted kernels: cases that reach their synchronisation, survivors against a reviewed list."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.errors import UsageError
from tilegen.runtime.simulated import Call, SimulatedKernel
from tilegen.simulate.host import perform
from tilegen.simulate.launch import Launch, Memory, Options, SimulationError
from tilegen.simulate.mutate import Case, Score, Verdict, score, table
from tilegen.simulate.run import run_ptx
from tilegen.verify.oracle import case_grid, prepare

# Cases dearer than this are not tried, nor more than so many kept.
MOST_FLOPS = 30_000_000
MOST_CASES = 4
# A machine so small that persistent kernels take several tiles a block.
MULTIPROCESSORS = 2


@dataclass(frozen=True)
class Reviewed:
    """Survivors that someone has looked at: why a change to that line makes no difference.

    Attributes:
        template: file name of the template, such as `gemm_mma.cu.j2`.
        change: what was done to the instruction; `*` for anything.
        source: a part of the line of the `.cu` or of the comment above it.
        reason: why the mutant computes the same, in every order.
    """

    template: str
    change: str
    source: str
    reason: str

    def covers(self, template: str, verdict: Verdict) -> bool:
        return (
            template == self.template
            and self.change in ("*", verdict.mutant.change)
            and self.source in verdict.source
        )


def read_reviewed(path: Path) -> list[Reviewed]:
    """Blocks of `template: change: part of the source line` and the indented reason below it.

    Raises:
        UsageError: a line is neither.
    """
    entries: list[Reviewed] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not entries:
                raise UsageError(f"{path}:{number}: a reason without a mutant above it")
            last = entries[-1]
            entries[-1] = dataclasses.replace(last, reason=f"{last.reason} {line.strip()}".strip())
            continue
        match = re.match(r"(\S+\.j2): ([^:]+): (.+)$", line)
        if not match:
            raise UsageError(f"{path}:{number}: not `template: change: part of the source line`")
        entries.append(Reviewed(*match.groups(), reason=""))
    return entries


def template_of(kernel: Rendered) -> str:
    """File name of the template that the kernel fills."""
    return Path(kernel.plan.template).name


def _fresh(call: Call) -> Callable[[], Memory]:
    def copy() -> Memory:
        buffers = [dataclasses.replace(b, data=b.data.copy()) for b in call.memory.buffers]
        return Memory(call.memory.alignment, buffers)

    return copy


def choose_cases(kernel: Rendered, simulated: SimulatedKernel) -> list[Case]:
    """The longest case of the kernel's grid that is not too dear, and the few that execute most of the rest."""
    problem, tile = kernel.plan.problem, kernel.plan.schedule.tile_extents()
    found: list[tuple[int, set[tuple[str, int]], Case]] = []
    options = Options(detectors=False)
    for case in case_grid(problem, tile, 1):
        if problem.flops(case.sizes) > MOST_FLOPS:
            continue
        arrays, scalars, _ = prepare(kernel.plan, case)
        call = simulated.record({name: g.array for name, g in arrays.items()}, scalars)
        made = Case(str(case), call.recording.steps, _fresh(call))
        memory = made.memory()
        outcomes = perform(
            made.steps, memory, lambda launch: run_ptx(simulated.ptx, launch, memory, options)
        )
        launches = [step for step in made.steps if isinstance(step, Launch)]
        reached = {
            (launch.kernel, index)
            for launch, outcome in zip(launches, outcomes)
            for index, counter in enumerate(outcome.counters)
            if counter.executions
        }
        found.append((sum(o.steps for o in outcomes), reached, made))
    chosen: list[Case] = []
    covered: set[tuple[str, int]] = set()
    while found and len(chosen) < MOST_CASES:
        if chosen:
            # The case that adds most, the cheaper one of two that add as much.
            best = max(found, key=lambda entry: (len(entry[1] - covered), -entry[0]))
        else:
            best = max(found, key=lambda entry: entry[0])
        if chosen and not best[1] - covered:
            break
        chosen.append(best[2])
        covered |= best[1]
        found.remove(best)
    return chosen


def score_kernel(
    kernel: Rendered, seeds: int = 3, progress: Callable[[Verdict], None] | None = None
) -> Score:
    """Run every mutant of one CUDA kernel.

    Raises:
        SimulationError: the kernel itself has findings.
        ToolMissing: no nvcc or no C++ compiler.
    """
    simulated = SimulatedKernel(kernel, multiprocessors=MULTIPROCESSORS)
    cases = choose_cases(kernel, simulated)
    if not cases:
        raise SimulationError(f"{kernel.stem} has no case below {MOST_FLOPS} flops")
    source = kernel.files[kernel.source]
    return score(kernel.stem, simulated.ptx, cases, run_ptx, source, seeds, progress)


def unreviewed(kernel: Rendered, result: Score, reviewed: Sequence[Reviewed]) -> list[Verdict]:
    """Survivors that no entry of the list covers."""
    name = template_of(kernel)
    return [v for v in result.survivors if not any(r.covers(name, v) for r in reviewed)]


def describe(verdict: Verdict) -> str:
    """`line 63, deleted: __syncthreads();  // comment` for people."""
    return f"line {verdict.line}, {verdict.mutant.change}: {verdict.source or verdict.mutant.text}"


def document(
    kernels: Sequence[Rendered], scores: Sequence[Score], reviewed: Sequence[Reviewed]
) -> str:
    """The page of mutants by template, as Markdown."""
    total = sum(len(s.executed) for s in scores)
    left = sum(len(s.survivors) for s in scores)
    lines = [
        "# Mutants",
        "",
        "Written by `tilegen simulate --mutate`; do not edit. Each synchronisation instruction of a kernel's PTX is",
        "deleted or weakened, one at a time, and the kernel is simulated again over cases that execute it: first in",
        "the deterministic order, then in random ones. The columns say what found the mutants first: the kind of the",
        "finding, or wrong values. What survives is reviewed below.",
        "",
        f"{total} mutants executed, {total - left} found, {left} survived.",
        "",
        table(scores),
        "",
        "## Survivors",
        "",
    ]
    for kernel, result in zip(kernels, scores):
        groups: dict[tuple[str, str], int] = {}
        for verdict in result.survivors:
            key = (verdict.source or verdict.mutant.text, verdict.mutant.change)
            groups[key] = groups.get(key, 0) + 1
        if not groups:
            continue
        lines += [f"### `{kernel.stem}`", ""]
        name = template_of(kernel)
        for (source, change), count in groups.items():
            sample = next(
                v
                for v in result.survivors
                if v.mutant.change == change
                and v.source == source
                or not v.source
                and v.mutant.text == source
            )
            why = next((r.reason for r in reviewed if r.covers(name, sample)), "**not reviewed**")
            times = f" ({count} instructions)" if count > 1 else ""
            lines.append(f"- {change}{times}: `{source}`: {why}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
