"""Text of `templates/cuda/rowwise.cu.j2`: rows in registers, and rows that are read again in every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.row_passes import RowFunction
from tilegen.emit.row_text import (
    aligned_conditions,
    alike_conditions,
    array_parameter,
    own_arrays,
)
from tilegen.emit.sweeps import Writer, combined, op_name, partials_name, row_indices
from tilegen.formula.nodes import Binary, Name
from tilegen.plans.rowwise import RowRegistersPlan
from tilegen.problems.passes import Program
from tilegen.schedules.rowwise import reads_vectors

PREFIX = "args."


def _in_ring(plan: RowRegistersPlan, alike: list[str]) -> str:
    """The condition besides a row's length: registers do not last for vectors that rows cross askew."""
    if reads_vectors(plan.problem):
        return " && aligned"
    return " && (aligned || alike)" if alike else ""


@dataclass(frozen=True)
class OpText:
    """An operation that combines two partial results."""

    name: str
    type: str
    text: str


def context(plan: RowRegistersPlan) -> dict[str, Any]:
    """The names of the template."""
    problem = plan.problem
    writer = Writer(problem, "cuda", PREFIX)
    short = RowFunction(
        writer,
        plan.short_program,
        "registers",
        plan.cuts,
        stays=int(plan.keeping > 0 or plan.few_values > 0),
    )
    long = RowFunction(writer, plan.long_program, "memory", plan.cuts)
    ring = (
        RowFunction(writer, plan.long_program, "ring", plan.cuts, plan.keeps)
        if plan.rings
        else None
    )
    ops = {(r.op, r.dtype): operation(writer, r.op, r.dtype) for r in plan.short_program.reductions}
    names = {
        "computes": problem.title(),
        "prose": _prose(plan),
        "members": [
            f"int64_t {', '.join(s.name for s in problem.sizes())};",
            *tensors.members(problem.tensors(), problem.scalars(), True),
        ],
        "assignments": [
            *(s.name for s in problem.sizes()),
            *(
                line.split(" = ")[1]
                for line in tensors.assignments(problem.tensors(), problem.scalars(), True)
            ),
        ],
        "reduction_ops": list(ops.values()),
        "partials": _partials(plan.short_program),
        "array_parameters": [array_parameter(writer, t) for t in problem.tensors()],
        "array_arguments": ", ".join(f"args.{t.name}" for t in problem.tensors()),
        "rows_expression": writer.extent(row_indices(problem)),
        "row_length_expression": writer.extent(problem.along),
        "short_rows": short,
        "long_rows": long,
        "ring_rows": ring,
        "crosses": int(reads_vectors(problem)),
        "stays": len(short.crossing),
        "ring_cut": "false" if reads_vectors(problem) else "true",
        "aligned": aligned_conditions(plan),
        **_forms(plan, short),
    }
    helpers = writer.helpers()
    rings = ring.all_lines() if ring else []
    lines = [*helpers, *short.all_lines(), *long.all_lines(), *rings, *names["members"]]
    return names | {"helpers": helpers, "includes": includes_for(lines, "cuda")}


@dataclass(frozen=True)
class KernelText:
    """One kernel: attributes, name, the function of its rows with template arguments."""

    attributes: str
    name: str
    rows: str
    arguments: str


def _kernels(plan: RowRegistersPlan, askew: str, alike: list[str]) -> list[KernelText]:
    """A kernel for whole packs and one for other rows, for each number of threads and for longer rows."""
    forms = (
        ("vector", "kVector" + ", false" * plan.cuts),
        (askew, ("1", "kVector, true")[plan.cuts]),
    )
    made = []
    for rung in plan.rungs:
        for (name, first), attributes in zip(forms, (rung.attributes, rung.askew)):
            whole, arguments = f"{rung.threads}_{name}", f"{first}, {rung.threads}"
            made.append(KernelText(attributes, whole, "short_rows", arguments))
    for ring in plan.rings:
        cluster = f" __cluster_dims__({ring.blocks}, 1, 1)" if ring.blocks > 1 else ""
        attributes = f"__launch_bounds__(kRingBlock, kRingBlocks){cluster}"
        keeps = f", {'true' if ring.keeps else 'false'}" if plan.keeps else ""
        made.append(KernelText(attributes, ring.name, "ring_rows", f"{ring.blocks}{keeps}"))
    bounds = f"__launch_bounds__({plan.long_block}, 1)"
    if plan.few_values:
        arguments = "kVector, false, kLongest, kFewValues"
        made.append(KernelText(bounds, "few", "short_rows", arguments))
    for name, first in (*forms, *((("scalar", "1, false"),) if alike else ())):
        made.append(KernelText(bounds, f"long_{name}", "long_rows", f"{first}, kLongest"))
    return made


def _forms(plan: RowRegistersPlan, short: RowFunction) -> dict[str, Any]:
    """How rows are read that do not all start on whole packs.

    Along one index their whole packs are read at once and the rest element by element; along several, where
    every stretch of the last index would have ends of its own, all of it.
    """
    if not plan.cuts:
        return {
            "kernels": _kernels(plan, "scalar", []),
            "askew_form": "scalar",
            "cut_parameter": "",
            "cut_row": "",
            "alike": [],
            "in_ring": "",
            "held": "aligned ? row_length : 2 * row_length",
        }
    own = own_arrays(short.writer)
    alike = alike_conditions(plan, own)
    return {
        "kernels": _kernels(plan, "cut", alike),
        "askew_form": "cut",
        "cut_parameter": "bool kCut, ",
        "cut_row": short.base(own[0]),
        "alike": alike,
        "in_ring": _in_ring(plan, alike),
        "held": "row_length",
    }


def operation(writer: Writer, op: str, kind) -> OpText:
    if op in ("sum", "prod"):
        node = Binary("+" if op == "sum" else "*", Name("value"), Name("other"), dtype=kind)
    else:
        node = combined(op, kind, "value", Name("other", dtype=kind))
    return OpText(op_name(op, kind), writer.dialect.type(kind), writer.expression(node))


@dataclass(frozen=True)
class PartialText:
    """A shared array of partial results: name and element type."""

    name: str
    type: str


def _partials(program: Program) -> list[PartialText]:
    kinds = dict.fromkeys(r.dtype for r in program.reductions)
    return [PartialText(partials_name(k), k.c) for k in kinds]


def _prose(plan: RowRegistersPlan) -> str:
    program = plan.short_program
    count = len(program.passes)
    ladder = ", ".join(f"{r.threads} threads up to {r.columns} columns" for r in plan.rungs)
    passes = "one pass" if count == 1 else f"{count} passes"
    return (
        f"A row takes {passes}, and stays in the registers of the threads that share it, so that memory is read "
        f"and written once: {ladder}. The launcher picks the first of these that holds a row{_rings(plan)}; longer "
        f"rows are read again in every pass.{_few(plan)} {_accesses(plan)} Sums are taken in a fixed order: results do not depend "
        "on the launch."
    )


def _rings(plan: RowRegistersPlan) -> str:
    if not plan.rings:
        return ""
    blocks = ", ".join(f"{r.blocks} up to {r.columns}" for r in plan.rings)
    keeping = [r.columns for r in plan.rings if r.keeps]
    kept = (
        f". Up to {keeping[-1]} blocks keep their part of the vectors that all rows read"
        if keeping
        else ""
    )
    return (
        ", or the fewest blocks whose rings of slots in shared memory do, into which a thread copies this row and the "
        f"next ones while the others compute: {blocks} columns{kept}"
    )


def _few(plan: RowRegistersPlan) -> str:
    if not plan.few_values:
        return ""
    columns = plan.longest * plan.few_values
    return (
        f" Up to {plan.few_rows} rows of at most {columns} columns get {plan.longest} threads each."
    )


def _accesses(plan: RowRegistersPlan) -> str:
    if plan.cuts:
        return (
            f"Accesses are {plan.vector} elements wide where the rows of all arrays start at one place of a pack, but for "
            "the elements outside whole packs at the ends of a row; other rows are read element by element."
        )
    return (
        f"Accesses are {plan.vector} elements wide where sizes, strides and addresses permit, else one element of rows "
        "half as long."
    )
