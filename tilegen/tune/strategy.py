"""What a search tries next where it cannot try all: neighbours of the best, or what an optimiser proposes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilegen import fields
from tilegen.errors import ToolMissing, UsageError
from tilegen.schedules.base import Schedule
from tilegen.tune.candidates import neighbours

# Gives the places to try next, at most so many, from the speedups of what was tried by place.
Propose = Callable[[Mapping[int, float], int], list[int]]

STRATEGIES = ("neighbours", "optuna")


def require(name: str) -> None:
    """Raise UsageError for a strategy that is not known, ToolMissing for one whose library is not there."""
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy '{name}'", f"Known: {', '.join(STRATEGIES)}")
    if name == "optuna":
        _optuna()


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ToolMissing(
            f"--strategy optuna needs optuna: {error}", "pip install 'tilegen[search]'"
        ) from None
    return optuna


def by_neighbours(schedules: Sequence[Schedule], turns: Sequence[int]) -> Propose:
    """The schedules that differ from the best in one field, nearest first, then the others in their order.

    Args:
        schedules: the space.
        turns: all places, in the order of trials.
    """

    def propose(tried: Mapping[int, float], count: int) -> list[int]:
        best = max(tried, key=lambda p: (tried[p], -p), default=None)
        near = [] if best is None else neighbours(schedules, schedules[best])
        return [p for p in dict.fromkeys([*near, *turns]) if p not in tried][:count]

    return propose


def by_optuna(schedules: Sequence[Schedule], turns: Sequence[int], seed: int) -> Propose:
    """The untried schedules nearest to what Optuna's tree-structured Parzen estimator samples.

    A schedule is a point of categorical parameters: its class, and every field of the class. What was tried is told
    to the sampler, a failure as a speedup of 0.

    Raises:
        ToolMissing: optuna is not installed.
    """
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    points = [_point(schedule) for schedule in schedules]
    values: dict[str, dict[str, None]] = {}
    for point in points:
        for name, value in point.items():
            values.setdefault(name, {})[value] = None
    known = {
        name: optuna.distributions.CategoricalDistribution(list(found))
        for name, found in values.items()
    }
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    told: set[int] = set()

    def propose(tried: Mapping[int, float], count: int) -> list[int]:
        for place in sorted(tried.keys() - told):
            point = points[place]
            spaces = {name: known[name] for name in point}
            study.add_trial(
                optuna.trial.create_trial(params=point, distributions=spaces, value=tried[place])
            )
            told.add(place)
        chosen: dict[int, None] = {}
        while len(chosen) < count:
            left = [p for p in turns if p not in tried and p not in chosen]
            if not left:
                break
            trial = study.ask()
            wanted = {"schedule": trial.suggest_categorical("schedule", known["schedule"].choices)}
            for name in known:
                if name.startswith(f"{wanted['schedule']}."):
                    wanted[name] = trial.suggest_categorical(name, known[name].choices)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            chosen[min(left, key=lambda p: _apart(points[p], wanted))] = None
        return list(chosen)

    return propose


def _point(schedule: Schedule) -> dict[str, Any]:
    """A schedule's class and fields as texts."""
    name = type(schedule).name
    options = fields.options(type(schedule))
    own = {f"{name}.{field}": fields.to_text(getattr(schedule, field)) for field in options}
    return {"schedule": name, **own}


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """In how many parameters two points differ."""
    return sum(one.get(name) != other.get(name) for name in one.keys() | other.keys())
