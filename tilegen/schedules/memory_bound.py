"""What the schedules of formulas share: the family that each computes, vectors, register estimates."""

from __future__ import annotations

from typing import ClassVar

from tilegen.problems.formula import FormulaProblem
from tilegen.schedules.base import Schedule, Violation
from tilegen.targets import Target

# Bytes of the widest access to memory of a CUDA thread.
ACCESS_BYTES = 16


class FormulaSchedule(Schedule):
    """Base of the schedules of a formula alone: each computes one family."""

    operator: ClassVar[str] = "formula"
    family: ClassVar[str]

    @classmethod
    def accepts(cls, problem: FormulaProblem, target: Target) -> Violation | None:
        """None for a formula of the schedule's family."""
        if problem.family.name == cls.family:
            return None
        return Violation(
            "formula", f"computes {cls.family} formulas, and this is {problem.family.name}"
        )


def whole_operands(problem: FormulaProblem) -> list[int]:
    """Sizes in bytes of the elements of arrays that carry every index."""
    return [t.dtype.bytes for t in problem.tensors() if len(t.dims) == len(problem.family.order)]


def vector(problem: FormulaProblem) -> int:
    """Elements that a thread takes at a time: 16 bytes of the widest array that carries every index."""
    return ACCESS_BYTES // max(whole_operands(problem), default=4)


def positive(field: str, value: int, low: int, high: int, power: bool = False) -> list[Violation]:
    """A violation if a number is out of its range, or has to be a power of two and is none."""
    if low <= value <= high and not (power and value & (value - 1)):
        return []
    kind = "a power of two from" if power else "from"
    return [Violation(field, f"{field} {value} must be {kind} {low} to {high}")]
