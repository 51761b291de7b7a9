"""A fused formula cut into two or more kernels, each storing what the next one reads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilegen import formula as fl
from tilegen.errors import TilegenError, UsageError
from tilegen.problems.base import Problem
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.gemm import Gemm
from tilegen.spec import KernelSpec
from tilegen.targets import Target

# Formulas of more statements are cut in two places at most.
MOST_CUTS = 2


@dataclass(frozen=True)
class Part:
    """One kernel of a split.

    Attributes:
        operator: its operator.
        options: its option texts.
    """

    operator: str
    options: dict[str, str]

    def spec(self, where: Target) -> KernelSpec:
        """The kernel on a target."""
        return KernelSpec.make(self.operator, where, dict(self.options))

    def text(self) -> str:
        """What it computes, in one line."""
        return self.options.get("formula", "gemm")


def splits(problem: Problem, where: Target) -> list[tuple[Part, ...]]:
    """Every split whose kernels all exist, fewest cuts first.

    A GEMM is cut between its sum and its epilogue; a formula after any of its statements, and in two
    places at once.

    Raises:
        UsageError: the problem has nothing to cut, or no cut gives kernels on the target.
    """
    if isinstance(problem, Gemm):
        found = [_gemm(problem)]
    elif isinstance(problem, FormulaProblem):
        found = _formula(problem)
    else:
        raise UsageError(f"a {problem.operator} is not split: it has no formula")
    made, reasons = [], []
    for parts in found:
        try:
            for part in parts:
                part.spec(where)
            made.append(parts)
        except TilegenError as error:
            reasons.append(f"{' | '.join(p.text() for p in parts)}: {error.message}")
    if not made:
        raise UsageError(
            f"nothing to split in {problem.title()}",
            "\n".join(reasons) or "Write it in statements, as 'h = x[m,n] + r[m,n]; y[m,n] = ...'.",
        )
    return made


def _gemm(problem: Gemm) -> tuple[Part, ...]:
    if problem.epilogue == "none":
        raise UsageError("a gemm without an epilogue has nothing to split")
    if problem.formula.in_out:
        raise UsageError(f"the epilogue {problem.epilogue} reads what it writes: it is not split")
    names = {*problem.formula.operands, *problem.formula.outputs, *problem.formula.scalars}
    held = next(n for n in ("c", "p", "product", "product_") if n not in names or n == "c")
    text = problem.formula.text
    if held in problem.formula.outputs:
        # The first kernel writes `c`; what the second writes takes another name.
        fresh = next(n for n in ("y", "z", "result") if n not in names)
        text = re.sub(rf"\b{held}\[", f"{fresh}[", text)
    place = f"{held}[{','.join(problem.indices)}]"
    kinds = problem.typed.operands | {n: k for n, k in problem.typed.outputs.items() if n != held}
    out = str(problem.out_dtype)
    first = {"dtype": str(problem.dtype), "layout": str(problem.layout), "out_dtype": out}
    if problem.batched:
        first["batched"] = "true"
    second = {"formula": re.sub(r"\bacc\b", place, text), "dtype": out}
    second |= _operands({n: str(k) for n, k in kinds.items() if str(k) != out})
    return Part("gemm", first), Part("formula", second)


def _operands(kinds: dict[str, str]) -> dict[str, str]:
    return {"operands": ",".join(f"{n}:{k}" for n, k in kinds.items())} if kinds else {}


def _formula(problem: FormulaProblem) -> list[tuple[Part, ...]]:
    count = len(problem.parsed.statements)
    found = []
    for cuts in range(1, MOST_CUTS + 1):
        for places in itertools.combinations(range(1, count), cuts):
            found.append(_cut(problem, places))
    return [parts for parts in found if parts]


def _cut(problem: FormulaProblem, places: Sequence[int]) -> tuple[Part, ...]:
    """The kernels between the cuts; empty where a value without indices would have to be stored."""
    parsed, order = problem.parsed, problem.family.order
    indices = {
        s.name: s.indices or tuple(i for i in order if i in free)
        for s, free in zip(parsed.statements, parsed.free_indices, strict=True)
    }
    edges = [0, *places, len(parsed.statements)]
    parts = []
    stored: set[str] = set()
    for start, stop in zip(edges, edges[1:]):
        inside = parsed.statements[start:stop]
        later = " ; ".join(fl.statement_text(s).partition("=")[2] for s in parsed.statements[stop:])
        lines, computed = [], set()
        for s in inside:
            value = fl.statement_text(s).partition("=")[2].strip()
            for name in stored - computed:
                value = re.sub(rf"\b{name}\b(?!\[)", f"{name}[{','.join(indices[name])}]", value)
            needed = bool(re.search(rf"\b{s.name}\b", later))
            if needed and not indices[s.name]:
                return ()
            kept = s.indices is not None or needed
            lines.append(
                f"{s.name}{'[' + ','.join(indices[s.name]) + ']' if kept else ''} = {value}"
            )
            computed.add(s.name)
            stored |= {s.name} if kept else set()
        text = "; ".join(lines)
        kinds = {n: str(k) for n, k in problem.types.items() if re.search(rf"\b{n}\b", text)}
        options = {"formula": text, "dtype": str(problem.dtype), **_operands(kinds)}
        parts.append(Part("formula", options))
    return tuple(parts)


def requests(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The parts as plain data for a worker."""
    return [{"operator": p.operator, "options": p.options} for p in parts]
