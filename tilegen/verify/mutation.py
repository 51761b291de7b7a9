"""The mutation score of emitted kernels: cases that reach their synchronisation, survivors against a reviewed list."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.errors import CallRefused, UsageError
from tilegen.runtime.simulated import Call, SimulatedKernel
from tilegen.simulate.host import perform
from tilegen.simulate.launch import Launch, Memory, Options, SimulationError
from tilegen.simulate.mutate import Case, Score, Verdict, score
from tilegen.simulate.run import run_ptx
from tilegen.targets import CudaTarget
from tilegen.verify.oracle import Case as Oracle
from tilegen.verify.oracle import case_grid, prepare

# Cases dearer than this are not tried, nor more than so many kept.
MOST_FLOPS = 30_000_000
MOST_CASES = 3
# The one case that is made larger than those may cost this much.
MOST_FLOPS_LARGER = 210_000_000
# A machine so small that persistent kernels take several tiles a block.
MULTIPROCESSORS = 2


@dataclass(frozen=True)
class Reviewed:
    """Survivors that someone has looked at: why a change to that line makes no difference.

    Attributes:
        template: file name of the template, such as `gemm_mma.cu.j2`.
        change: what was done to the instruction; `*` for anything.
        source: parts of what names the instruction (see `source_line`), in any order, with ` ... ` between them.
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
            and all(part in verdict.source for part in self.source.split(" ... "))
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


def representatives(kernels: Sequence[Rendered]) -> list[Rendered]:
    """One CUDA kernel for each template and choice of its parts: the first of each."""
    chosen: dict[tuple[object, ...], Rendered] = {}
    for kernel in kernels:
        if isinstance(kernel.spec.target, CudaTarget):
            chosen.setdefault((kernel.plan.template, *kernel.plan.parts()), kernel)
    return list(chosen.values())


def _fresh(call: Call) -> Callable[[], Memory]:
    def copy() -> Memory:
        buffers = [dataclasses.replace(b, data=b.data.copy()) for b in call.memory.buffers]
        return Memory(call.memory.alignment, buffers)

    return copy


def _grid(kernel: Rendered) -> list[Oracle]:
    """The kernel's verification cases that are cheap, and larger ones: long rows, several tiles, a longer pipeline."""
    problem = kernel.plan.problem
    cases = [
        case
        for case in case_grid(problem, kernel.plan.schedule.tile_extents(), 1)
        if problem.flops(case.sizes) <= MOST_FLOPS
    ]
    names = [size.name for size in problem.sizes()]
    if len(names) == 2:
        larger = [dict.fromkeys(names, 701), dict.fromkeys(names, 704)]
        larger += [{names[0]: 3, names[1]: n} for n in (1031, 4099, 17001)]
    else:
        most = max(cases, key=lambda case: problem.flops(case.sizes)).sizes
        larger = [{k: 2 * n + 1 if n > 16 else n for k, n in most.items()}]
        deeper = larger[0] | {names[-1]: 4 * most[names[-1]] + 1}
        if problem.flops(deeper) <= MOST_FLOPS_LARGER:
            larger = [deeper]
    return cases + [Oracle(sizes, pad, 0, 1) for sizes in larger for pad in (0, 3)]


def choose_cases(kernel: Rendered, simulated: SimulatedKernel) -> list[Case]:
    """The longest case of the kernel's grid that is not too dear, and the few that execute most of the rest."""
    found: list[tuple[int, set[tuple[str, int]], Case]] = []
    options = Options(detectors=False)
    for case in _grid(kernel):
        arrays, scalars, _ = prepare(kernel.plan, case)
        try:
            call = simulated.record({name: g.array for name, g in arrays.items()}, scalars)
        except CallRefused:
            continue  # alignments and sizes that the kernel does not take
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


@dataclass(frozen=True)
class Scored:
    """A kernel and its score."""

    kernel: Rendered
    score: Score

    @property
    def template(self) -> str:
        return template_of(self.kernel)


def _table(scored: Sequence[Scored]) -> list[str]:
    """Markdown: mutants by template and by what found them."""
    kinds = sorted({v.how for s in scored for v in s.score.verdicts if v.killed})
    head = ["template", "kernels", "executed", "found", "survived", *kinds, "not executed"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for template in sorted({s.template for s in scored}):
        mine = [s.score for s in scored if s.template == template]
        counts = Counter(v.how for score in mine for v in score.verdicts)
        found = sum(counts[kind] for kind in kinds)
        row = [f"`{template}`", len(mine), found + counts["survived"], found, counts["survived"]]
        row += [counts[kind] or "" for kind in (*kinds, "not executed")]
        lines.append("| " + " | ".join(str(cell) for cell in row) + " |")
    return lines


def _survivors(scored: Sequence[Scored], reviewed: Sequence[Reviewed]) -> list[str]:
    """Survivors by template, those of one source line together, each with its reason."""
    lines = []
    for template in sorted({s.template for s in scored if s.score.survivors}):
        groups: dict[tuple[str, str], list[Verdict]] = {}
        for one in scored:
            for verdict in one.score.survivors if one.template == template else ():
                source = verdict.source or verdict.mutant.text
                groups.setdefault((source, verdict.mutant.change), []).append(verdict)
        lines += [f"### `{template}`", ""]
        for (source, change), verdicts in sorted(groups.items()):
            entries = (r.reason for r in reviewed if r.covers(template, verdicts[0]))
            reason = next(entries, "**not reviewed**")
            times = f", {len(verdicts)} times" if len(verdicts) > 1 else ""
            lines.append(f"- `{source}` {change}{times}. {reason}")
        lines.append("")
    return lines


def document(scored: Sequence[Scored], reviewed: Sequence[Reviewed]) -> str:
    """The page of mutants by template, as Markdown."""
    total = sum(len(s.score.executed) for s in scored)
    left = sum(len(s.score.survivors) for s in scored)
    lines = [
        "# Mutants",
        "",
        "Written by `tilegen simulate --mutate`; do not edit. Each synchronisation instruction of a kernel's PTX is",
        "deleted or weakened, one at a time, and the kernel is simulated again over cases that execute it: in the",
        "deterministic order, lazily, and in random orders. The columns say what found a mutant first: the kind of",
        "the finding, or wrong values. Instructions that no case executes are counted last.",
        "",
        f"{total} mutants executed, {total - left} found, {left} survived.",
        "",
        *_table(scored),
        "",
        "## Survivors",
        "",
        "Each computes the same in every order, for the reason given, or shows a limit of the simulator that is named.",
        "",
        *_survivors(scored, reviewed),
    ]
    return "\n".join(lines).rstrip() + "\n"
