"""What `bench` and `tune` measure: the cases of a suite's file, or an operator with fields and sizes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import typer

from tilegen import registry
from tilegen.bench.suites import BenchCase, Suite, read_suite
from tilegen.cli import options as opt
from tilegen.errors import ToolMissing, UsageError
from tilegen.problems.base import Problem
from tilegen.tables.lookup import parse_sizes
from tilegen.targets import TARGETS, CpuTarget, Target
from tilegen.targets import target as find_target
from tilegen.toolchain.host import missing_features

# CPU targets for every type, the widest last; `portable` runs everywhere.
_LEVELS = ("portable", "neon", "x86-64-v3", "x86-64-v4")

# Sizes that say how many problems there are, not how large one is.
_COUNTS = {"batch": 1, "heads": 8, "kv_heads": 8, "groups": 8}


def target_here(name: str) -> Target:
    """A target by name; `c_openmp` is the widest level whose instructions this processor has.

    VNNI and AMX are no levels but for narrow types, and are named where they are meant.
    """
    if name != "c_openmp":
        return find_target(name)
    return [TARGETS[level] for level in _LEVELS if not missing_features(TARGETS[level])][-1]


def require_here(where: Target, threads: int) -> None:
    """Raise ToolMissing or UsageError where this machine's processor cannot time a target in so many threads."""
    if not isinstance(where, CpuTarget):
        return
    missing = missing_features(where)
    if missing:
        raise ToolMissing(
            f"this processor lacks {', '.join(missing)}: it cannot time {where}",
            "`tilegen doctor` prints the targets that it runs.",
        )
    processors = os.cpu_count() or 1
    if threads > processors:
        raise UsageError(f"--threads {threads}: this machine has {processors} processors")


def suite(
    context: typer.Context,
    kernel: str,
    at: str | None,
    where: Target,
    groups: Sequence[str],
    sweep: Sequence[int] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Suite:
    """The cases of a suite's file, or of an operator with its fields and sizes.

    Args:
        context: unknown flags are fields and sizes of the operator.
        kernel: path of a suite, ending in .toml, or an operator, or a formula.
        at: sizes such as `m=512,n=512,k=512`.
        where: the target.
        groups: patterns of groups of the suite.
        sweep: what every size is in turn, where none is given; without it sizes have to be given.
        defaults: fields of an operator that hold where they are not given.

    Raises:
        UsageError, FormulaError: with what to change.
    """
    given = opt.with_sizes(opt.given_fields(context, None, None, None, None, None, None))
    if at is not None and "at" in given:
        raise UsageError(f"--at {at} and --at {given['at']} both give sizes")
    at = given.pop("at", at)
    if kernel.endswith(".toml"):
        if given or at:
            raise UsageError("a suite has its own fields and sizes", "Leave the other options out.")
        return read_suite(Path(kernel)).select(groups)
    if groups:
        raise UsageError("--groups are those of a suite", f"{kernel} is none: leave them out.")
    operator, implied = registry.operator_of(kernel)
    options = {**defaults, **implied, **given}
    problem = BenchCase(operator, options, {}).spec(where).problem
    if at is None and not sweep:
        words = ",".join(f"{name}={value}" for name, value in _square(problem, 512).items())
        raise UsageError(f"{kernel} needs sizes", f"Give them: --at {words}")
    sizes = [parse_sizes(at, problem)] if at else [_square(problem, extent) for extent in sweep]
    name = kernel if kernel.isidentifier() else operator
    return Suite(name, "", tuple(BenchCase(operator, options, s, name) for s in sizes))


def _square(problem: Problem, extent: int) -> dict[str, int]:
    return {s.name: _COUNTS.get(s.name, extent) for s in problem.sizes()}
