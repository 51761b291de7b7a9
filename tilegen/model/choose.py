"""Which schedule a model would take at given sizes, and how far that is from what was measured."""

from __future__ import annotations

import functools
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tilegen import fields, registry
from tilegen.errors import IllegalSchedule, UsageError
from tilegen.model import gemm_cpu, gemm_cuda, gemm_cuda_space
from tilegen.model.estimate import Estimate
from tilegen.plans import make_plan
from tilegen.problems.base import Problem, extent
from tilegen.schedules.base import Schedule
from tilegen.spec import KernelSpec
from tilegen.targets import CudaTarget, Target

# By operator and backend: what estimates, and what lists schedules worth an estimate.
_MODELS: dict[tuple[str, str], tuple[ModuleType, ModuleType]] = {
    ("gemm", "cuda"): (gemm_cuda, gemm_cuda_space),
    ("scaled_gemm", "cuda"): (gemm_cuda, gemm_cuda_space),
    ("gemm", "c_openmp"): (gemm_cpu, gemm_cpu),
}


def model_of(problem: Problem, where: Target) -> tuple[ModuleType, ModuleType] | None:
    """The model that knows the problem's default schedule on the target, or None."""
    found = _MODELS.get((problem.operator, where.backend))
    return found if found is not None and found[0].knows(problem, where) else None


@functools.lru_cache(maxsize=65536)
def _legal(schedule: Schedule, problem: Problem, where: Target) -> bool:
    return not schedule.violations(problem, where)


@functools.lru_cache(maxsize=4096)
def _unit(schedule: Schedule, problem: Problem, where: Target) -> int:
    """Elements by which rows may be displaced."""
    return make_plan(KernelSpec(problem, schedule, where)).unit


def takes(schedule: Schedule, problem: Problem, where: Target, sizes: Mapping[str, int]) -> bool:
    """Whether a schedule's kernel takes dense arrays of these sizes."""
    unit = _unit(schedule, problem, where)
    # Arrays with an element for each block, as scales, are read element by element.
    inner = [t.dims[-1] for t in problem.tensors() if len(t.dims) > 1]
    inner = [dim for dim in inner if dim in sizes or dim.isdigit()]
    return unit == 1 or all(extent(dim, sizes) % unit == 0 for dim in inner)


def rank(
    problem: Problem,
    where: Target,
    sizes: Mapping[str, int],
    given: Mapping[str, Any] | None = None,
) -> list[Estimate]:
    """Legal schedules by estimated time, the fastest first; empty where no model knows the problem.

    Args:
        problem: what is computed.
        where: the target.
        sizes: extent of every size.
        given: values that fields of the schedule must have, and `schedule`, the name of its class.

    Raises:
        UsageError: no schedule of the model has the given values.
    """
    if model_of(problem, where) is None:
        return []
    return list(_ranked(problem, where, tuple(sizes.items()), tuple((given or {}).items())))


Items = tuple[tuple[str, Any], ...]


@functools.lru_cache(maxsize=1024)
def _ranked(problem: Problem, where: Target, sizes: Items, given: Items) -> tuple[Estimate, ...]:
    """As `rank`, of a problem that a model knows."""
    estimates, space = model_of(problem, where)
    extents, wanted = dict(sizes), dict(given)
    name = wanted.pop("schedule", "")
    found: dict[Schedule, None] = {}
    for schedule in space.candidates(problem, where, extents):
        if name in ("", type(schedule).name) and schedule not in found:
            if _has(schedule, wanted) and _legal(schedule, problem, where):
                found[schedule] = None
    if isinstance(where, CudaTarget):
        found = {s: None for s in found if takes(s, problem, where, extents)}
    if not found and wanted:
        raise UsageError(
            f"the model has no schedule with {', '.join(f'{k}={v}' for k, v in wanted.items())}",
            "Leave the sizes out to take the stated rule for the other fields.",
        )
    ranked = [estimates.estimate(s, problem, where, extents) for s in found]
    # Of equals the first, which is the default of its class.
    return tuple(sorted(ranked, key=lambda e: round(math.log(e.seconds) / estimates.TIE)))


def _has(schedule: Schedule, given: Mapping[str, Any]) -> bool:
    return all(hasattr(schedule, k) and getattr(schedule, k) == v for k, v in given.items())


def choice(problem: Problem, where: Target, sizes: Mapping[str, int]) -> Schedule:
    """The model's schedule, or where no model knows the problem that of the stated rule."""
    ranked = rank(problem, where, sizes)
    if ranked:
        return ranked[0].schedule
    return registry.schedule_class(problem, where).default(problem, where)


@dataclass(frozen=True)
class Measured:
    """A kernel that was measured beside others of its problem and sizes.

    Attributes:
        spec: the kernel.
        sizes: extents.
        speed: in a unit that is the same for all of its problem and sizes.
    """

    spec: KernelSpec
    sizes: Mapping[str, int]
    speed: float


@dataclass(frozen=True)
class Judged:
    """A size at which several schedules were measured in one run.

    Attributes:
        problem: the problem's title.
        sizes: extents.
        measured: how many schedules.
        chosen, best: the one that the model takes among them, and the fastest.
        loss: time of the chosen over the best, less 1.
    """

    problem: str
    sizes: Mapping[str, int]
    measured: int
    chosen: str
    best: str
    loss: float


def judge(kernels: Sequence[Measured]) -> list[Judged]:
    """What the model loses among the kernels that were measured at each size."""
    groups: dict[Any, list[Measured]] = {}
    for one in kernels:
        key = (one.spec.problem, one.spec.target, tuple(one.sizes.items()))
        groups.setdefault(key, []).append(one)
    found = []
    for (problem, where, sizes), members in groups.items():
        model = model_of(problem, where)
        if model is None or len(members) < 2:
            continue

        def time(one: Measured) -> float:
            return model[0].estimate(one.spec.schedule, problem, where, dict(sizes)).seconds

        chosen, best = min(members, key=time), max(members, key=lambda m: m.speed)
        same = chosen.spec.schedule == best.spec.schedule
        loss = 0.0 if same else best.speed / chosen.speed - 1
        words = [" ".join(m.spec.schedule.tokens()) for m in (chosen, best)]
        found.append(Judged(problem.title(), dict(sizes), len(members), *words, loss))
    return found


def of_report(rows: Sequence[Any]) -> list[Measured]:
    """The kernels of a saved report, compared by their ratios to the first peer that they were paired with."""
    found = []
    for row in rows:
        spec = read_command(row.command)
        if spec is not None and row.ratios:
            found.append(Measured(spec, row.sizes, row.ratio(sorted(row.ratios)[0])))
    return found


def read_command(command: str) -> KernelSpec | None:
    """The kernel of an `emit` command; None for one that is not legal any more."""
    words = shlex.split(command)[2:]
    given: dict[str, object] = {}
    operator = words.pop(0)
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        given[name] = words.pop(0) if words and not words[0].startswith("--") else "true"
    where = str(given.pop("target"))
    try:
        return KernelSpec.make(operator, where, given)
    except (UsageError, IllegalSchedule):
        return None


def summary(judged: Sequence[Judged]) -> str:
    """Geometric mean and worst loss in one line."""
    mean = math.exp(statistics.mean(math.log1p(j.loss) for j in judged)) - 1
    worst = max(judged, key=lambda j: j.loss)
    at = " ".join(f"{k}={v}" for k, v in worst.sizes.items())
    return (
        f"{len(judged)} sizes: the model's choice loses {mean:.1%} in the geometric mean, "
        f"{worst.loss:.1%} at most ({at})"
    )


def given_values(problem: Problem, where: Target, options: Mapping[str, Any]) -> dict[str, Any]:
    """Option texts of a schedule as values of its fields, its name under `schedule` as it is."""
    cls = registry.schedule_class(problem, where, str(options.get("schedule", "")))
    rest = {k: v for k, v in options.items() if k != "schedule"}
    return {**fields.from_text(cls, rest), **{k: v for k, v in options.items() if k == "schedule"}}
