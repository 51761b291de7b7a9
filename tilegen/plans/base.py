"""A plan: problem x schedule x target with every derived integer; the only thing a template sees."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from tilegen.problems.base import Problem, Tensor
from tilegen.schedules.base import Schedule
from tilegen.targets import Target


@dataclass(frozen=True)
class Fact:
    """One derived number and where it comes from, for `tilegen plan`.

    Attributes:
        name: what it is, such as `shared memory`.
        value: the number with its unit.
        why: the arithmetic or the limit behind it.
    """

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Refusal:
    """A call that a family's kernels do not take, beyond what every kernel refuses.

    Attributes:
        code: what `_supports` returns; from 4 on.
        condition: C condition over the launcher's arguments.
        reason: the sentence in the header.
    """

    code: int
    condition: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Base of all plans. Every field that a subclass adds is a name in its template, and is used there.

    Attributes:
        problem, schedule, target: what the plan was made from; templates do not see them.
    """

    problem: Problem
    schedule: Schedule
    target: Target

    # The template this plan fills, relative to the template root.
    template: ClassVar[str]

    # The template of its header, whose contract every kernel has.
    header: ClassVar[str] = "common/kernel.h.j2"

    # Fields that templates do not see, besides problem, schedule and target.
    hidden: ClassVar[frozenset[str]] = frozenset()

    # Elements by which an array's start and its strides may be displaced; others are refused.
    unit: ClassVar[int] = 1

    # Whether the launcher takes a workspace; such a template also emits `_workspace`.
    uses_workspace: ClassVar[bool] = False

    # The input that a function of the kernel's own packs ahead of the calls; such a template also emits
    # `_packed_bytes` and `_pack`.
    packs: ClassVar[str] = ""

    # Standard headers that the template itself needs, besides those of the printed formula.
    includes: ClassVar[tuple[str, ...]] = ()

    def tensors(self) -> tuple[Tensor, ...]:
        """Arrays of the launcher in C order: the problem's, one that is packed ahead in its packed form."""
        return self.problem.tensors()

    @property
    def helpers(self) -> tuple[str, ...]:
        """Helper functions of `emit.c_expr` that the template itself calls."""
        return ()

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes, static and dynamic; 0 on a CPU."""
        return 0

    @property
    def requirements(self) -> tuple[str, ...]:
        """Sentences of the header's Requires paragraph that this kernel adds to the problem's."""
        return ()

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Calls that this kernel refuses beyond the common reasons."""
        return ()

    def context(self) -> dict[str, Any]:
        """The plan's own fields as template names: integers, strings, and tuples of them."""
        skip = {"problem", "schedule", "target"} | self.hidden
        return {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in skip
        }

    def parts(self) -> tuple[str, ...]:
        """Part templates that this plan chose, relative to the template root."""
        return ()

    def facts(self) -> list[Fact]:
        """Derived numbers for `tilegen plan`, most important first."""
        return []

    def description(self) -> str:
        """One line: the schedule in words, for the banner."""
        return " ".join(self.schedule.tokens())


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below a / b, for positive b."""
    return -(-a // b)
