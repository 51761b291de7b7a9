"""Reductions of vector loops in C: by a clause of OpenMP, or in lanes that are folded at the end."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.emit.c_expr.dialects import TAILS
from tilegen.emit.sweeps import Writer, combined, start_value
from tilegen.formula.nodes import Name
from tilegen.problems.lowering import Value
from tilegen.problems.passes import Pass
from tilegen.values import DType


@dataclass(frozen=True)
class FoldText:
    """The function that takes the lanes of a reduction together: its name, type, a word for it, a statement."""

    name: str
    type: str
    word: str
    line: str


def has_lanes(sweep: Pass) -> bool:
    """Whether a pass finds a largest or smallest element."""
    return any(r.op in ("max", "min") for r in sweep.reductions)


def fold_name(writer: Writer, op: str, kind: DType) -> str:
    """Name of the function that takes the lanes of a reduction together."""
    return f"fold_{writer.dialect.function(op, kind) if op in ('max', 'min') else op + TAILS[kind]}"


def fold_text(writer: Writer, op: str, kind: DType) -> FoldText:
    """The function that takes the lanes of a reduction together."""
    if op in ("sum", "prod"):
        line = f"lanes[lane] {'+' if op == 'sum' else '*'}= lanes[lane + half];"
    else:
        node = combined(op, kind, "lanes[lane]", Name("lanes[lane + half]", dtype=kind))
        line = f"lanes[lane] = {writer.expression(node)};"
    word = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum"}[op]
    return FoldText(fold_name(writer, op, kind), writer.dialect.type(kind), word, line)


def fold_line(writer: Writer, r: Value) -> str:
    """The statement that takes a reduction's lanes together."""
    kind = writer.dialect.type(r.dtype)
    return f"const {kind} {r.name} = {fold_name(writer, r.op, r.dtype)}({r.name}_lanes);"


def loop_pragma(writer: Writer, sweep: Pass) -> str:
    """The pragma of a loop over elements, with a clause for each reduction."""
    clauses: dict[str, list[str]] = {}
    for r in sweep.reductions:
        sign = {"sum": "+", "prod": "*"}.get(r.op) or _function_name(writer, r)
        clauses.setdefault(sign, []).append(r.name)
    words = [f"reduction({sign} : {', '.join(names)})" for sign, names in clauses.items()]
    return " ".join(["#pragma omp simd", *words])


def _function_name(writer: Writer, r: Value) -> str:
    return writer.dialect.function(r.op, r.dtype)


def declared(writer: Writer, op: str, kind: DType) -> str:
    """How OpenMP is told of a largest or smallest element that keeps NaN."""
    name = writer.dialect.function(op, kind)
    start = writer.expression(start_value(op, kind))
    text = writer.expression(combined(op, kind, "omp_out", Name("omp_in", dtype=kind)))
    return (
        f"#pragma omp declare reduction({name}:{writer.dialect.type(kind)} : omp_out = {text}) \\\n"
        f"    initializer(omp_priv = {start})"
    )
