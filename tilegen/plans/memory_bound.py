"""What the plans of formulas share."""

from __future__ import annotations

from tilegen.plans.base import Plan, Refusal
from tilegen.problems.formula import FormulaProblem


class FormulaPlan(Plan):
    """Base of the plans of a formula alone."""

    problem: FormulaProblem

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        empty = " || ".join(f"{i} == 0" for i in self.problem.needs_elements)
        if not empty:
            return ()
        return (Refusal(4, empty, "argmax or argmin over no elements"),)
