"""What is tried next where no model ranks a space too large to try all of."""

from __future__ import annotations

import math
import sys

import pytest

from tilegen.bench.suites import BenchCase
from tilegen.errors import ToolMissing
from tilegen.schedules.columns import ColumnParts
from tilegen.targets import target
from tilegen.tune import candidates, strategy

WHERE = target("sm_90a")
SPACE = candidates.space(BenchCase("column_sum", {"dtype": "bf16"}, {}).spec(WHERE).problem, WHERE)
TURNS = candidates.order(SPACE.schedules, seed=0)
COUNT = 40


def speed(schedule) -> float:
    """A speed with one best schedule, which no default is."""
    lost = 0.2 * abs(math.log2(schedule.across) - 4) + 0.3 * abs(math.log2(schedule.threads) - 7)
    lost += 0.1 * abs(getattr(schedule, "blocks", 0) - 3168) / 3168
    return 2 - lost if isinstance(schedule, ColumnParts) else 1 - lost / 4


def search(propose) -> dict[int, float]:
    tried = {place: speed(SPACE.schedules[place]) for place in TURNS[: COUNT // 2]}
    while len(tried) < COUNT:
        chosen = propose(tried, 4)
        assert len(set(chosen)) == 4 and not set(chosen) & set(tried)
        tried |= {place: speed(SPACE.schedules[place]) for place in chosen}
    return tried


def reached(tried: dict[int, float]) -> float:
    return max(tried.values()) / max(map(speed, SPACE.schedules))


def test_neighbours_of_the_best_reach_the_best():
    assert reached(search(strategy.by_neighbours(SPACE.schedules, TURNS))) == 1.0
    few = SPACE.schedules[:3]
    propose = strategy.by_neighbours(few, range(3))
    assert propose({}, 2) == [0, 1] and propose({0: 1.0, 1: 2.0, 2: 0.5}, 2) == []


def test_optuna_reaches_nearly_the_best_and_the_same_again_for_the_same_seed():
    pytest.importorskip("optuna")
    make = lambda: strategy.by_optuna(SPACE.schedules, TURNS, seed=1)  # noqa: E731
    found = search(make())
    assert reached(found) >= 0.95 and list(search(make())) == list(found)
    assert sorted(make()({}, 10**6)) == sorted(TURNS)


def test_an_optimiser_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolMissing, match="--strategy optuna needs optuna") as refused:
        strategy.require("optuna")
    assert "tilegen[search]" in refused.value.hint
