"""What the plans of formulas share."""

from __future__ import annotations

from tilegen.plans.base import Plan, Refusal
from tilegen.problems.formula import FormulaProblem
from tilegen.targets import CpuTarget

# Features that loops over elements gain from.
_USEFUL = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl")


def loop_features(target: CpuTarget) -> tuple[str, str]:
    """The target's features as clang and as gcc name them; gcc is told to use the whole width."""
    used = [f for f in target.features if f in _USEFUL]
    if "avx512f" not in used:
        return ",".join(used), ",".join(used)
    used.remove("avx2")
    return ",".join(used), ",".join([*used, "prefer-vector-width=512"])


class FormulaPlan(Plan):
    """Base of the plans of a formula alone."""

    problem: FormulaProblem

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        empty = " || ".join(f"{i} == 0" for i in self.problem.needs_elements)
        if not empty:
            return ()
        return (Refusal(4, empty, "argmax or argmin over no elements"),)


def foldable(problem: FormulaProblem) -> tuple[str, ...]:
    """Indices before the last that every array carries together with it or not at all, outer first.

    Where such arrays have no gaps, these indices and the last are one long index.
    """
    order = problem.family.order
    positions = set(problem.program().positions.values())
    for first in range(len(order) - 1):
        inner = set(order[first:])
        together = all(
            t.dims[-len(inner) :] == order[first:] or not inner & set(t.dims)
            for t in problem.tensors()
        )
        if together and not inner & positions:
            return order[first:-1]
    return ()
