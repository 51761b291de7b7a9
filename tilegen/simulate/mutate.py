"""The mutation score of a kernel: which of its mutants the simulator finds, how, and which survive.

A mutant is run over the cases of its kernel, first in the deterministic order, then lazily, then in random orders. It is
found when a run is refused, reports a finding, or leaves other bytes in memory than the kernel itself does. Mutants of
instructions that no case executes are counted apart: they say what the cases lack.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilegen.simulate.host import Copy, Fill, perform
from tilegen.simulate.launch import Launch, Memory, Options, Outcome, SimulationError
from tilegen.simulate.mutants import Mutant, mutants
from tilegen.simulate.parse import parse

# Runs one launch of a PTX module.
Run = Callable[[str, Launch, Memory, Options], Outcome]


@dataclass(frozen=True)
class Case:
    """One call of a kernel's launcher.

    Attributes:
        name: for messages.
        steps: what the launcher did, in stream order.
        memory: makes the memory of the call anew, the same each time.
    """

    name: str
    steps: tuple[Launch | Fill | Copy, ...]
    memory: Callable[[], Memory]


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant.

    Attributes:
        how: kind of the finding, `refused`, `values`, `survived`, or `not executed`.
        line: of the .cu, 0 where the PTX has none; see `source_line`.
        source: that line's text, and the comment above it.
        detail: first line of the finding.
    """

    mutant: Mutant
    how: str
    line: int
    source: str
    detail: str = ""

    @property
    def killed(self) -> bool:
        return self.how not in ("survived", "not executed")


@dataclass
class Score:
    """All mutants of one kernel."""

    kernel: str
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def executed(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.how != "not executed"]

    @property
    def survivors(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.how == "survived"]

    def counts(self) -> Counter[str]:
        """Mutants by how they were found."""
        return Counter(v.how for v in self.verdicts)


def _run_case(run: Run, ptx: str, case: Case, options: Options) -> tuple[list[Outcome], Memory]:
    memory = case.memory()
    outcomes = perform(case.steps, memory, lambda launch: run(ptx, launch, memory, options))
    return outcomes, memory


def _judge(
    run: Run, ptx: str, case: Case, options: Options, want: Memory | None
) -> tuple[str, str]:
    """(how it was found, detail), or two empty strings."""
    try:
        outcomes, memory = _run_case(run, ptx, case, options)
    except SimulationError as error:
        return "refused", error.message.splitlines()[0]
    for outcome in outcomes:
        if outcome.findings:
            first = outcome.findings[0]
            return first.kind, first.message.splitlines()[0]
    if want is not None:
        for got, right in zip(memory.buffers, want.buffers):
            if not np.array_equal(got.data, right.data):
                count = int(np.count_nonzero(got.data != right.data))
                return "values", f"{count} bytes of {got.name} differ in case {case.name}"
    return "", ""


def _commented(text: Sequence[str], line: int) -> tuple[str, str]:
    """A line of the .cu, and the comment right above it."""
    if not 1 <= line <= len(text):
        return "", ""
    above, comment = line - 2, []
    while above >= 0 and text[above].strip().startswith("//"):
        comment.insert(0, text[above].strip().lstrip("/ "))
        above -= 1
    return text[line - 1].strip(), " ".join(comment)


def source_line(text: Sequence[str], lines: Sequence[int]) -> tuple[int, str]:
    """The line that names an instruction in a list of survivors, and what names it.

    `lines` are where the instruction stands and the calls that it was inlined through, innermost first. The first with
    a comment above it is taken, else the innermost call: a primitive's own line says less than what uses it. The text
    is that line, its comment, and after an arrow the outermost call.
    """
    chosen = next((line for line in lines if _commented(text, line)[1]), 0)
    chosen = chosen or (lines[min(1, len(lines) - 1)] if lines else 0)
    code, comment = _commented(text, chosen)
    whole = f"{code}  // {comment}" if comment else code
    outer = _commented(text, lines[-1])[0] if lines and lines[-1] != chosen else ""
    return chosen, f"{whole}  <- {outer}" if outer else whole


def score(
    name: str,
    ptx: str,
    cases: Sequence[Case],
    run: Run,
    source: str = "",
    seeds: int = 3,
    part: tuple[int, int] = (0, 1),
) -> Score:
    """Run every mutant of every kernel that the cases launch, or a part of them.

    Args:
        name: of the kernel, for the table.
        cases: their launches name the entries; each must run without a finding.
        run: the simulator.
        source: text of the .cu.
        seeds: random orders for mutants that the deterministic one does not find.
        part: (k, n) for each n-th mutant from the k-th on.

    Raises:
        SimulationError: the kernel itself has findings: there is nothing to compare with.
    """
    text = source.splitlines()
    result = Score(name)
    entries = sorted({s.kernel for case in cases for s in case.steps if isinstance(s, Launch)})
    wanted: dict[str, Memory] = {}
    module = parse(ptx)
    costs: dict[str, int] = {}
    ran: dict[str, set[tuple[str, int]]] = {}  # by case: instructions that it executes
    for case in cases:
        outcomes, wanted[case.name] = _run_case(run, ptx, case, Options())
        launches = [step for step in case.steps if isinstance(step, Launch)]
        costs[case.name] = max((outcome.steps for outcome in outcomes), default=0)
        ran[case.name] = set()
        for launch, outcome in zip(launches, outcomes):
            if outcome.findings:
                raise SimulationError(
                    f"{name} has findings before any change, in case {case.name}",
                    outcome.findings[0].message,
                )
            counters = enumerate(outcome.counters)
            ran[case.name] |= {(launch.kernel, k) for k, c in counters if c.executions}
    # Most mutants show in any case, so the cheapest is tried first.
    cases = sorted(cases, key=lambda case: costs[case.name])
    orders = [Options(), Options("lazy")]
    orders += [Options("random", seed, adversarial_elect=True) for seed in range(1, seeds + 1)]
    for entry in entries:
        for mutant in mutants(ptx, entry)[part[0] :: part[1]]:
            at = module.kernels[entry].instructions[mutant.instruction]
            line, code = source_line(text, at.lines)
            mine = [c for c in cases if (entry, mutant.instruction) in ran[c.name]]
            how, detail = "not executed", ""
            if mine:
                how, detail = _find(run, mutant, mine, orders, wanted, costs)
            result.verdicts.append(Verdict(mutant, how, line, code, detail))
    return result


def _find(
    run: Run,
    mutant: Mutant,
    cases: list[Case],
    orders: list[Options],
    wanted: dict[str, Memory],
    costs: dict[str, int],
) -> tuple[str, str]:
    for order in orders:
        for case in cases:
            most = 8 * costs[case.name] + 10000
            options = dataclasses.replace(order, max_steps=most, max_findings=1)
            # Orders may change what atomics add up to, so values count in the deterministic one alone.
            want = wanted[case.name] if options.order == "deterministic" else None
            how, detail = _judge(run, mutant.ptx, case, options, want)
            if how:
                return how, detail
    return "survived", ""
