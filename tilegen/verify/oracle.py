"""One kernel against float64 over a grid of sizes: the largest error in units of its bound, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilegen.errors import CallRefused
from tilegen.plans.base import Plan
from tilegen.problems.base import Expected, Problem
from tilegen.verify.guarded import Guarded, fill, guarded

# Runs a kernel on NumPy arrays, written ones in place.
Runner = Callable[[Mapping[str, np.ndarray], Mapping[str, float]], None]

# Every array is laid out three ways: dense and aligned, rows padded, and displaced, the first by a unit of the plan
# and each other by one more than the one before it.
LAYOUTS = ((0, 0), (3, 0), (0, 1))


# Codes of `_supports` below this one are common to all kernels; a legal call never meets them.
FIRST_OWN_CODE = 4


@dataclass(frozen=True)
class Case:
    """One call: sizes, layout of the arrays in the plan's units, seed of the inputs."""

    sizes: Mapping[str, int]
    row_pad: int
    offset: int
    seed: int

    def __str__(self) -> str:
        sizes = " ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{sizes} row_pad={self.row_pad} offset={self.offset} seed={self.seed}"


@dataclass
class Verdict:
    """What a kernel's cases gave.

    Attributes:
        cases: how many ran.
        worst: largest |error| / bound over all elements; at most 1 when right.
        worst_at: the case and element of that, or an empty string.
        sizes: the sizes of those cases, each once, in order.
        refused: cases that the kernel's `_supports` refuses for a documented reason of its own.
        failures: one line a failed case.
    """

    cases: int = 0
    worst: float = 0.0
    worst_at: str = ""
    sizes: list[Mapping[str, int]] = field(default_factory=list)
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether something ran and nothing failed."""
        return self.cases > 0 and not self.failures

    def faults(self) -> list[str]:
        """One line a failed case; where nothing ran, that nothing did."""
        if self.ok or self.failures:
            return self.failures
        return [f"no case ran: _supports refuses {self.refused} of {self.refused}"]


def case_grid(problem: Problem, tile: tuple[int, ...], seeds: int) -> Iterator[Case]:
    """Every size with every layout of the arrays; larger seeds counts repeat it with other inputs."""
    number = 0
    for sizes in problem.cases(tile):
        for row_pad, offset in LAYOUTS:
            for _ in range(seeds):
                number += 1
                yield Case(sizes, row_pad, offset, number)


def quick_cases(problem: Problem, tile: tuple[int, ...], most: int = 2 * 10**9) -> list[Case]:
    """Every size of the grid once, the layouts of the arrays in turn, for searches over many kernels.

    Args:
        problem, tile: as `case_grid`.
        most: sizes that take more operations, or bytes, than this are left out, unless all do.
    """
    sizes = problem.cases(tile)
    work = [max(problem.flops(s), problem.bytes(s)) for s in sizes]
    kept = [s for s, w in zip(sizes, work) if w <= max(most, min(work))]
    return [Case(s, *LAYOUTS[number % len(LAYOUTS)], number + 1) for number, s in enumerate(kept)]


def prepare(
    plan: Plan, case: Case
) -> tuple[dict[str, Guarded], dict[str, float], dict[str, Expected]]:
    """Guarded arrays with inputs drawn and outputs poisoned, the scalars, and what must come out."""
    problem = plan.problem
    rng = np.random.default_rng(case.seed)
    drawn = problem.draw(case.sizes, rng)
    scalars = problem.draw_scalars(rng)
    arrays = {}
    for number, tensor in enumerate(problem.tensors(), 1):
        shape, offset = tensor.shape(case.sizes), case.offset * number * plan.unit
        # Rows are as short as the plan's unit lets them be, and then padded.
        row_pad = case.row_pad * plan.unit + (-shape[-1] % plan.unit if shape else 0)
        place = guarded(tensor.dtype, shape, row_pad=row_pad, offset=offset)
        if tensor.is_read:
            fill(place, drawn[tensor.name])
        arrays[tensor.name] = place
    return arrays, scalars, problem.reference(case.sizes, drawn, scalars)


def compare(
    plan: Plan, arrays: Mapping[str, Guarded], expected: Mapping[str, Expected]
) -> tuple[float, str]:
    """Largest |error| / bound over the outputs, and a description of that element.

    NaN and infinities must stand where the float64 result has them. A bound of 0 asks for equality.
    """
    worst, where = 0.0, ""
    for name, want in expected.items():
        got = arrays[name].array
        exact = np.asarray(want.value)
        if got.dtype.kind in "iub":
            wide, value = got.astype(np.int64), exact.astype(np.int64)
            error = np.abs(wide - value).astype(np.float64)
        else:
            wide, value = got.astype(np.float64), exact.astype(np.float64)
            # What the output type rounds to infinity may be infinite; NaN where it has none.
            with np.errstate(over="ignore", invalid="ignore"):
                stored = value.astype(got.dtype).astype(np.float64)
                error = np.abs(wide - value)
            same = (np.isnan(wide) & np.isnan(stored)) | (wide == stored)
            error = np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))
        bound = np.broadcast_to(np.asarray(want.bound, np.float64), error.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error == 0, 0.0, np.where(np.isfinite(exact), error / bound, np.inf))
        if ratio.size and ratio.max() >= worst and ratio.max() > 0:
            at = np.unravel_index(int(ratio.argmax()), ratio.shape)
            worst = float(ratio[at])
            place = ",".join(str(int(i)) for i in at)
            where = f"{name}[{place}] = {wide[at]!s}, expected {value[at]!s} +- {bound[at]:.3g}"
    return worst, where


def verify(
    plan: Plan,
    run: Runner,
    *,
    seeds: int = 1,
    limit: int | None = None,
    cases: Iterable[Case] | None = None,
    progress: Callable[[], None] | None = None,
) -> Verdict:
    """Run a kernel over its case grid.

    Args:
        plan: the kernel's plan.
        run: calls the built kernel.
        seeds: inputs drawn for each size and layout.
        limit: floating-point operations of the largest case to run; None for all.
        cases: the cases to run instead of the whole grid.
        progress: called after each case.
    """
    verdict = Verdict()
    if cases is None:
        cases = case_grid(plan.problem, plan.schedule.tile_extents(), seeds)
    for case in cases:
        if limit is not None and plan.problem.flops(case.sizes) > limit:
            continue
        arrays, scalars, expected = prepare(plan, case)
        inputs = {t.name for t in plan.problem.tensors() if not t.is_written}
        before = {name: arrays[name].memory.copy() for name in inputs}
        try:
            run({name: g.array for name, g in arrays.items()}, scalars)
        except CallRefused as refusal:
            if refusal.code < FIRST_OWN_CODE:
                verdict.failures.append(f"{case}: {refusal.message}")
            verdict.refused += 1
            continue
        verdict.cases += 1
        if case.sizes not in verdict.sizes:
            verdict.sizes.append(case.sizes)
        worst, where = compare(plan, arrays, expected)
        if worst > verdict.worst:
            verdict.worst, verdict.worst_at = worst, f"{case}: {where}"
        if worst > 1:
            verdict.failures.append(f"{case}: {where}")
        for name, place in arrays.items():
            strays = place.strays()
            if strays:
                verdict.failures.append(f"{case}: {strays} bytes written outside {name}")
        for name, memory in before.items():
            if not np.array_equal(memory, arrays[name].memory):
                verdict.failures.append(f"{case}: the input {name} was written")
        if progress:
            progress()
    return verdict
