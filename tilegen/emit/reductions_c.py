"""Reductions of vector loops in C, by clauses of OpenMP."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.emit.sweeps import Writer, start_value
from tilegen.formula.nodes import Name
from tilegen.problems.lowering import Value
from tilegen.problems.passes import Pass
from tilegen.values import DType

EXTREMES = {"max": ">", "min": "<"}
SIGNS = {"sum": "+", "prod": "*"}


def nan_flag(r: Value) -> str:
    """The local that says whether an element was NaN; empty where none can be, or where NaN spreads by itself."""
    return f"{r.name}_nan" if r.op in EXTREMES and r.dtype.is_float else ""


def flag_type(kind: DType) -> str:
    """An integer as wide as the elements, so that vectors of both have as many."""
    return "int64_t" if kind.bytes == 8 else "int32_t"


def starts(writer: Writer, sweep: Pass) -> tuple[str, ...]:
    """The locals of a pass's reductions, as they are over nothing."""
    lines = []
    for r in sweep.reductions:
        start = writer.expression(start_value(r.op, r.dtype))
        lines.append(f"{writer.dialect.type(r.dtype)} {r.name} = {start};")
        if nan_flag(r):
            lines.append(f"{flag_type(r.dtype)} {nan_flag(r)} = 0;")
    return tuple(lines)


def accumulation(writer: Writer, r: Value, total: str) -> list[str]:
    """Statements that take an element into a reduction.

    A comparison with NaN never holds, so a largest or smallest element passes over it: one instruction of most
    processors. That there was one is found beside it.
    """
    text = writer.expression(r.node)
    if r.op in SIGNS:
        return [f"{total} {SIGNS[r.op]}= {text};"]
    lines = []
    if not isinstance(r.node, Name):
        lines.append(writer.local(r.dtype, f"{r.name}_element", text))
        text = f"{r.name}_element"
    lines.append(f"{total} = {text} {EXTREMES[r.op]} {total} ? {text} : {total};")
    if nan_flag(r):
        lines.append(f"{nan_flag(r)} |= {text} != {text};")
    return lines


def settled(reductions: Iterable[Value]) -> list[str]:
    """Statements after the elements: NaN where an element was NaN."""
    return [f"{r.name} = {nan_flag(r)} ? NAN : {r.name};" for r in reductions if nan_flag(r)]


def loop_pragma(reductions: Iterable[Value]) -> str:
    """The pragma of a loop over elements, with a clause for each kind of reduction."""
    clauses: dict[str, list[str]] = {}
    for r in reductions:
        clauses.setdefault(SIGNS.get(r.op, r.op), []).append(r.name)
        if nan_flag(r):
            clauses.setdefault("|", []).append(nan_flag(r))
    words = [f"reduction({sign} : {', '.join(names)})" for sign, names in clauses.items()]
    line = " ".join(["#pragma omp simd", *words])
    return line if len(line) <= 100 else " \\\n    ".join(["#pragma omp simd", *words])
