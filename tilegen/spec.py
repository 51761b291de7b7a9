"""One kernel in words: operator, target and options, as a command line and as a `tilegen.toml` entry."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass

from tilegen import fields, registry
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule, require_legal
from tilegen.targets import Target, target


@dataclass(frozen=True)
class KernelSpec:
    """A problem, a schedule and a target, reducible to the shortest command that makes them.

    Attributes:
        problem: what is computed.
        schedule: how, legal for the problem on the target.
        target: where.
    """

    problem: Problem
    schedule: Schedule
    target: Target

    @classmethod
    def make(cls, operator: str, target_name: str | Target, given: dict[str, object]) -> KernelSpec:
        """Resolve an operator, a target and option texts.

        Raises:
            UsageError, FormulaError, IllegalSchedule: with the field, the numbers and legal values.
        """
        where = target(target_name)
        operator, implied = registry.operator_of(operator)
        given = {**implied, **given}
        problem, schedule = registry.make(operator, where, given)
        require_legal(schedule, problem, where)
        return cls(problem, schedule, where)

    def options(self) -> dict[str, str]:
        """Options that differ from the defaults, as text, in declaration order."""
        given = fields.given(self.problem)
        first = registry.schedule_class(self.problem, self.target)
        chosen = type(self.schedule)
        if chosen is not first:
            given["schedule"] = chosen.name
        # What is given may change the other fields' defaults: pin fields, in order, until nothing differs.
        known, fixed = fields.options(chosen), {}
        while True:
            made = chosen.with_options(self.problem, self.target, fixed)
            differing = [n for n in known if getattr(made, n) != getattr(self.schedule, n)]
            if not differing:
                break
            fixed[differing[0]] = getattr(self.schedule, differing[0])
        given |= {name: fields.to_text(fixed[name]) for name in known if name in fixed}
        return given

    def command(self) -> str:
        """The shell command that emits exactly this kernel."""
        word, said = self.problem.head()
        words = ["tilegen", "emit", word]
        given = {"target": self.target.name, **self.options()}
        given = {name: value for name, value in given.items() if name not in said}
        for name, value in given.items():
            words.append(fields.flag(name))
            if value != "true":
                words.append(value)
        return shlex.join(words)


def replace(spec: KernelSpec, **schedule_fields: object) -> KernelSpec:
    """The same kernel with some fields of its schedule replaced. Raises IllegalSchedule."""
    schedule = dataclasses.replace(spec.schedule, **schedule_fields)
    require_legal(schedule, spec.problem, spec.target)
    return KernelSpec(spec.problem, schedule, spec.target)
