"""Problems and schedules as one line of text, and back."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from typing import Any

from tilegen import fields, registry
from tilegen.emit.banner import digest
from tilegen.emit.render import render
from tilegen.errors import UsageError
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.spec import KernelSpec
from tilegen.targets import Target


def problem_text(problem: Problem) -> str:
    """The options of a problem that differ from its defaults: `dtype=f32 layout=tt`."""
    return shlex.join(f"{name}={value}" for name, value in fields.given(problem).items())


def schedule_text(schedule: Schedule) -> str:
    """A schedule's name and every field: `packed tile=960x512x384 micro=6x64 unroll=4`."""
    words = [type(schedule).name]
    for name in fields.options(type(schedule)):
        words.append(f"{name}={fields.to_text(getattr(schedule, name))}")
    return shlex.join(words)


def _pairs(words: list[str], text: str) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"'{word}' in '{text}' is not FIELD=VALUE")
        found[name] = value
    return found


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"'{text}': {error}") from None


def schedule_options(text: str) -> dict[str, str]:
    """Option texts of a schedule's line, its name under `schedule`. Raises UsageError."""
    words = _split(text)
    if not words:
        raise UsageError("a schedule without a name")
    return {"schedule": words[0], **_pairs(words[1:], text)}


def problem_options(text: str) -> dict[str, str]:
    """Option texts of a problem's line. Raises UsageError."""
    return _pairs(_split(text), text)


def kernel_spec(operator: str, where: Target, problem: str, schedule: str) -> KernelSpec:
    """The kernel of two lines of text.

    Raises:
        UsageError, IllegalSchedule: a line does not parse, or the schedule is not legal (any more).
    """
    given: Mapping[str, Any] = {**problem_options(problem), **schedule_options(schedule)}
    return KernelSpec.make(operator, where, dict(given))


def problem_of(operator: str, text: str) -> Problem:
    """The problem of a line of text. Raises UsageError."""
    cls = registry.problem_class(operator)
    return cls(**fields.from_text(cls, problem_options(text)))


def default_spec(problem: Problem, where: Target, name: str = "") -> KernelSpec:
    """The kernel of a problem by the stated rule of its (named or preferred) schedule class."""
    cls = registry.schedule_class(problem, where, name)
    return KernelSpec(problem, cls.default(problem, where), where)


# String literals are kept; comments and continued lines are layout.
_LAYOUT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|\\\n', re.DOTALL)


# The function that refuses wrong arguments: what it does takes no time that a table speaks of.
_REFUSING = re.compile(
    r'^(?:extern "C" )?int \w+_supports\([^{;]*\{\n.*?^\}$', re.DOTALL | re.MULTILINE
)


def code_digest(text: str) -> str:
    """Digest of a source's code: other comments, spaces, line breaks and refusals leave it as it is."""
    bare = _LAYOUT.sub(lambda found: found.group(1) or " ", _REFUSING.sub("", text))
    return digest(" ".join(bare.split()))


def kernel_digest(spec: KernelSpec) -> str:
    """Digest of the code of a kernel: it changes with the template and the schedule."""
    rendered = render(spec)
    return code_digest(rendered.files[rendered.source])
