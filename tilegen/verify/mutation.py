"""The mutation score of emitted kernels, over cases that reach their synchronisation."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.errors import CallRefused
from tilegen.runtime.simulated import Call, SimulatedKernel
from tilegen.simulate.host import perform
from tilegen.simulate.launch import Launch, Memory, Options, SimulationError
from tilegen.simulate.mutants import Mutant
from tilegen.simulate.mutate import Case, Score, Verdict, score
from tilegen.simulate.run import run_ptx
from tilegen.targets import CudaTarget
from tilegen.toolchain.cache import cached, digest
from tilegen.toolchain.find import find_nvcc
from tilegen.verify.oracle import Case as Oracle
from tilegen.verify.oracle import case_grid, prepare
from tilegen.verify.workers import each

# Cases dearer than this are not tried, nor more than so many kept.
MOST_FLOPS = 30_000_000
MOST_CASES = 4
# The one case that is made larger than those may cost this much.
MOST_FLOPS_LARGER = 210_000_000
# Each kernel's mutants are scored in so many parts, at once and kept one by one.
PARTS = 4
# A machine so small that persistent kernels take several tiles a block.
MULTIPROCESSORS = 2


def representatives(kernels: Sequence[Rendered]) -> list[Rendered]:
    """One CUDA kernel for each schedule, template and choice of its parts: the first of each."""
    chosen: dict[tuple[object, ...], Rendered] = {}
    for kernel in kernels:
        if isinstance(kernel.spec.target, CudaTarget):
            plan = kernel.plan
            chosen.setdefault((type(plan.schedule), plan.template, *plan.parts()), kernel)
    return list(chosen.values())


def _fresh(call: Call) -> Callable[[], Memory]:
    def copy() -> Memory:
        buffers = [dataclasses.replace(b, data=b.data.copy()) for b in call.memory.buffers]
        return Memory(call.memory.alignment, buffers)

    return copy


def _grid(kernel: Rendered) -> tuple[list[Oracle], list[Oracle]]:
    """The kernel's verification cases that are cheap, with larger ones; and one of many tiles, if it is cheap enough.

    Larger are long rows, several tiles, a longer pipeline. With many tiles a block meets every kind of edge, and goes on
    to another tile from it.
    """
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
        # Small tiles need more depth for their pipeline to go round.
        while problem.flops(deeper) <= MOST_FLOPS:
            deeper[names[-1]] *= 2
        if problem.flops(deeper) <= MOST_FLOPS_LARGER:
            larger = [deeper]
    wider = []
    if len(names) > 2:
        # Rows and columns end in the last piece of a tile, behind which nothing but the next tile follows.
        tile = kernel.plan.schedule.tile_extents()
        counts = ((8, -1), (2, -1), (2, 1))[-len(tile) :]
        wide = {
            name: t * count + more
            for name, t, (count, more) in zip(names[-len(tile) :], tile, counts)
        }
        wide = {**most, **wide}
        wider = [Oracle(wide, 0, 0, 1)] if problem.flops(wide) <= MOST_FLOPS_LARGER else []
    return cases + [Oracle(sizes, pad, 0, 1) for sizes in larger for pad in (0, 3)], wider


def recorded_case(kernel: Rendered, simulated: SimulatedKernel, case: Oracle) -> Case | None:
    """What the launcher does in a case; None where the kernel does not take its sizes or alignments."""
    arrays, scalars, _ = prepare(kernel.plan, case)
    try:
        call = simulated.record({name: g.array for name, g in arrays.items()}, scalars)
    except CallRefused:
        return None
    return Case(str(case), call.recording.steps, _fresh(call))


def choose_cases(kernel: Rendered, simulated: SimulatedKernel) -> list[Oracle]:
    """The longest case of the kernel's grid that is not too dear, one of many tiles, and the few that execute most else."""
    found: list[tuple[int, set[tuple[str, int]], Oracle]] = []
    options = Options(detectors=False)
    cases, chosen = _grid(kernel)
    for case in cases + chosen:
        made = recorded_case(kernel, simulated, case)
        if made is None:
            continue
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
        found.append((sum(o.steps for o in outcomes), reached, case))
    covered: set[tuple[str, int]] = set()
    while found and len(chosen) < MOST_CASES:
        if covered:
            # The case that adds most, the cheaper one of two that add as much.
            best = max(found, key=lambda entry: (len(entry[1] - covered), -entry[0]))
        else:
            best = max(found, key=lambda entry: entry[0])
        if covered and not best[1] - covered:
            break
        chosen += [best[2]] if best[2] not in chosen else []
        covered |= best[1]
        found.remove(best)
    return chosen


def score_kernel(kernel: Rendered, seeds: int = 3, part: tuple[int, int] = (0, 1)) -> Score:
    """Run every mutant of one CUDA kernel, or each n-th from the k-th on.

    Raises:
        SimulationError: the kernel itself has findings.
        ToolMissing: no nvcc or no C++ compiler.
    """
    simulated = SimulatedKernel(kernel, multiprocessors=MULTIPROCESSORS)
    chosen = _chosen_cases(kernel, simulated)
    cases = [made for case in chosen if (made := recorded_case(kernel, simulated, case))]
    if not cases:
        raise SimulationError(f"{kernel.stem} has no case below {MOST_FLOPS} flops")
    source = kernel.files[kernel.source]
    return score(kernel.stem, simulated.ptx, cases, run_ptx, source, seeds, part)


def _key(kernel: Rendered, *more: int) -> str:
    """Digest of all that a score depends on: the kernel, the compiler, the simulator."""
    # Templates and emitter may have changed, and this kernel's text not.
    texts = (re.sub(r"^(//| \*) Inputs .*\n", "", t, flags=re.M) for t in kernel.files.values())
    return digest([*map(str, more), *texts, find_nvcc().version, _sources()])


def _chosen_cases(kernel: Rendered, simulated: SimulatedKernel) -> list[Oracle]:
    """As `choose_cases`, once for all parts of a kernel's score."""

    def make(folder: Path) -> None:
        rows = [dataclasses.asdict(case) for case in choose_cases(kernel, simulated)]
        (folder / "cases.json").write_text(json.dumps(rows))

    folder = cached("cases", _key(kernel), ("cases.json",), make)
    return [Oracle(**row) for row in json.loads((folder / "cases.json").read_text())]


def _score_part(work: tuple[Rendered, int, int]) -> Score | SimulationError:
    """A part of a kernel's score, from the cache if neither the kernel nor the simulator has changed."""
    kernel, seeds, number = work

    def make(folder: Path) -> None:
        made = score_kernel(kernel, seeds, (number, PARTS))
        rows = [dataclasses.asdict(v) for v in made.verdicts]
        for row in rows:
            row["mutant"]["ptx"] = ""  # a megabyte each
        (folder / "score.json").write_text(json.dumps(rows))

    try:
        folder = cached("score", _key(kernel, seeds, number, PARTS), ("score.json",), make)
    except SimulationError as error:
        return error
    rows = json.loads((folder / "score.json").read_text())
    return Score(
        kernel.stem, [Verdict(**{**row, "mutant": Mutant(**row["mutant"])}) for row in rows]
    )


@functools.cache
def _sources() -> str:
    """Digest of what a score depends on besides the kernel: the simulator, and how cases are chosen."""
    package = Path(__file__).resolve().parents[1]
    files = [package / "verify" / "mutation.py", package / "verify" / "oracle.py"]
    files += [p for p in (package / "simulate").rglob("*") if p.suffix in (".py", ".cpp", ".h")]
    return digest(path.read_bytes() for path in sorted(files))


def score_all(
    kernels: Sequence[Rendered], seeds: int, jobs: int | None
) -> Iterator[tuple[Rendered, Score | SimulationError]]:
    """Scores of many kernels, in their order, on all processors; what was scored before is read.

    Raises:
        ToolMissing: no nvcc or no C++ compiler.
    """
    work = [(kernel, seeds, number) for kernel in kernels for number in range(PARTS)]
    results = each(_score_part, work, jobs)
    for kernel in kernels:
        parts = [next(results) for _ in range(PARTS)]
        faults = [part for part in parts if isinstance(part, SimulationError)]
        if faults:
            yield kernel, faults[0]
            continue
        # Mutants were dealt out in turn, entry by entry; the order of the text serves people better.
        verdicts = sorted((v for part in parts for v in part.verdicts), key=lambda v: v.line)
        yield kernel, Score(kernel.stem, verdicts)
