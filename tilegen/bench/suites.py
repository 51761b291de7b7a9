"""Suites of cases, `benchmarks/suites/*.toml`: which problems, which sizes."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegen import fields
from tilegen.errors import UsageError
from tilegen.problems.base import Problem
from tilegen.spec import KernelSpec
from tilegen.tables import lookup
from tilegen.tables.files import FOLDER
from tilegen.targets import Target
from tilegen.values import nearest


@dataclass(frozen=True)
class BenchCase:
    """One problem at one size.

    Attributes:
        operator: operator name.
        options: option texts of problem and schedule.
        sizes: extent of every size.
        group: name of the group in the table, such as `large`.
    """

    operator: str
    options: Mapping[str, str]
    sizes: Mapping[str, int]
    group: str = ""

    def spec(self, where: Target) -> KernelSpec:
        """The kernel of this case's options on a target, by the stated rule where they leave it open."""
        return KernelSpec.make(self.operator, where, dict(self.options))

    def chosen(self, where: Target, tuned: str = "", tables: Path = Path(FOLDER)) -> KernelSpec:
        """The kernel that is timed for this case: for its sizes, where its options name no schedule.

        Args:
            where: the target.
            tuned: the device whose table chooses; empty for the model.
            tables: folder of the tables.
        """
        spec = self.spec(where)
        if self.of_schedule(spec.problem):
            return spec
        sizes = [f"{s.name}={self.sizes[s.name]}" for s in spec.problem.sizes()]
        given = {**self.options, "at": ",".join(sizes)} | ({"tuned": tuned} if tuned else {})
        found = lookup.resolve(self.operator, where, given, tables)
        return KernelSpec.make(self.operator, where, found.options)

    def of_schedule(self, problem: Problem) -> list[str]:
        """Names of the options that are a schedule's: `schedule` and its fields."""
        known = {*fields.options(type(problem)), "formula"}
        return [name for name in self.options if name not in known]

    def without(self, option: str) -> BenchCase:
        """The same case with one option left open."""
        return dataclasses.replace(
            self, options={k: v for k, v in self.options.items() if k != option}
        )

    def label(self) -> str:
        """Short text for tables: options, then sizes."""
        options = " ".join(v for k, v in self.options.items() if k != "schedule")
        sizes = "x".join(str(v) for v in self.sizes.values())
        return f"{self.operator} {options} {sizes}".replace("  ", " ")


@dataclass(frozen=True)
class Suite:
    """A named list of cases.

    Attributes:
        name: the file's stem.
        description: what it stands for.
        cases: in the order of the file.
    """

    name: str
    description: str
    cases: tuple[BenchCase, ...]

    def select(self, groups: Sequence[str]) -> Suite:
        """The cases of the groups that match a pattern such as `few*`; all without patterns.

        Raises:
            UsageError: a pattern matches no group.
        """
        known = list(dict.fromkeys(case.group for case in self.cases))
        for pattern in groups:
            if not fnmatch.filter(known, pattern):
                raise UsageError(
                    f"{self.name} has no group '{pattern}'{nearest(pattern, known)}",
                    f"Groups: {', '.join(known)}",
                )
        wanted = {g for g in known if not groups or any(fnmatch.fnmatch(g, p) for p in groups)}
        return dataclasses.replace(self, cases=tuple(c for c in self.cases if c.group in wanted))


def read_suite(path: Path) -> Suite:
    """Read a suite.

    Each `[[case]]` names an operator, options, and `sizes`: a table of extents, each one number or a
    list of them; lists are combined. `shapes` is a list of such tables instead.

    Raises:
        UsageError: the file cannot be read or a case is malformed.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(p.stem for p in path.parent.glob("*.toml"))
        raise UsageError(
            f"cannot read {path}: {error.strerror}{nearest(path.stem, known)}",
            f"Suites there: {', '.join(known) or 'none'}",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    cases: list[BenchCase] = []
    for number, entry in enumerate(table.get("case", []), start=1):
        entry = dict(entry)
        try:
            operator = str(entry.pop("operator"))
            group = str(entry.pop("group", ""))
            shapes = entry.pop("shapes", None) or [entry.pop("sizes")]
        except KeyError as error:
            raise UsageError(f"{path}: case {number} has no {error}") from None
        options = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in entry.items()}
        for shape in shapes:
            for sizes in _combine(shape):
                cases.append(BenchCase(operator, options, sizes, group))
    return Suite(path.stem, str(table.get("description", "")), tuple(cases))


def _combine(shape: Mapping[str, object]) -> list[dict[str, int]]:
    lists = [v if isinstance(v, list) else [v] for v in shape.values()]
    return [dict(zip(shape, values)) for values in itertools.product(*lists)]
