"""Text of `templates/cuda/rowwise.cu.j2`: rows in registers, and rows that are read again in every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.row_text import aligned_conditions, array_parameter, row_base, row_statements
from tilegen.emit.sweeps import (
    PackText,
    Sweeps,
    SweepText,
    Writer,
    combined,
    op_name,
    partials_name,
)
from tilegen.emit.sweeps import row_indices, row_texts
from tilegen.formula.nodes import Binary, Name
from tilegen.plans.rowwise import RowRegistersPlan
from tilegen.problems.base import Tensor
from tilegen.problems.passes import Program

PREFIX = "args."


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
    short = _Rows(writer, plan.short_program, hold=True)
    long = _Rows(writer, plan.long_program, hold=False)
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
        "aligned": aligned_conditions(plan),
        **_forms(plan, short),
    }
    helpers = writer.helpers()
    lines = [*helpers, *short.all_lines(), *long.all_lines(), *names["members"]]
    return names | {"helpers": helpers, "includes": includes_for(lines, "cuda")}


@dataclass(frozen=True)
class KernelText:
    """One kernel: attributes, name, the function of its rows with template arguments, whether blocks share a row."""

    attributes: str
    name: str
    rows: str
    arguments: str
    shared: bool


def _kernels(plan: RowRegistersPlan, askew: str, cut: bool) -> list[KernelText]:
    """A kernel for whole packs and one for other rows, for each number of threads and for longer rows."""
    forms = (("vector", "kVector" + ", false" * cut), (askew, "kVector, true" if cut else "1"))
    made = []
    for rung in plan.rungs:
        for (name, first), attributes in zip(forms, (rung.attributes, rung.askew)):
            arguments, shared = f"{first}, {rung.threads}", rung.blocks > 1
            whole = f"{rung.threads}_{name}"
            made.append(KernelText(attributes, whole, "short_rows", arguments, shared))
    bounds = "__launch_bounds__(kLongest, 1)"
    for name, first in forms:
        made.append(KernelText(bounds, f"long_{name}", "long_rows", f"{first}, kLongest", False))
    return made


def _forms(plan: RowRegistersPlan, short: _Rows) -> dict[str, Any]:
    """How rows are read that do not all start on whole packs.

    Along one index they are read in packs that begin before the row, cut at its ends; along several, where
    every stretch of the last index would have ends of its own, element by element.
    """
    if not plan.cuts:
        return {
            "kernels": _kernels(plan, "scalar", False),
            "askew_form": "scalar",
            "cut_parameter": "",
            "cut_arguments": "",
            "load_call": "load<kWidth>",
            "store_call": "store<kWidth>",
            "cut_row": "",
            "word": "",
            "held": "aligned ? row_length : 2 * row_length",
        }
    problem = plan.problem
    rows = set(row_indices(problem))
    whole = [t for t in problem.tensors() if problem.along[-1] in t.dims]
    narrow = min(t.dtype.bytes for t in whole) * plan.vector
    own = [t for t in whole if rows & set(t.dims)] or whole
    return {
        "kernels": _kernels(plan, "cut", True),
        "askew_form": "cut",
        "cut_parameter": "bool kCut, ",
        "cut_arguments": ", column, columns",
        "load_call": "load_at<kWidth, kCut>",
        "store_call": "store_at<kWidth, kCut>",
        "cut_row": short.base(own[0]),
        "held": "row_length",
        "word": "uint32_t" if narrow >= 4 else "uint16_t",
    }


class _Rows:
    """The text of one of the two row functions.

    Attributes:
        row_lines: statements that locate a row and what it has one of.
        held: packs of operands that stay in registers.
        held_lines: statements before their addresses.
        kept_lines: declarations of values that stay in registers.
        sweeps: the passes.
        stores_before: statements that write what depends on no element.
    """

    def __init__(self, writer: Writer, program: Program, hold: bool) -> None:
        self.writer = writer
        self.program = program
        problem = writer.problem
        self.last = problem.along[-1]
        held = self._held() if hold else {}
        made = Sweeps(
            writer,
            program,
            held={name: f"{name}_pack[step].at[element]" for name in held},
            kept="{name}_kept[step][element]" if hold else "",
            base=self.base,
            column="column",
            within="element",
            read=lambda name: f"{name}_pack.at[element]",
            written=lambda name: f"{name}_out.at[element]",
        )
        self.row_lines = row_statements(writer, program)
        self.held = [made.pack_text(writer.tensor(name)) for name in held]
        self.held_lines = made.split_lines() if held else []
        kept = {n for p in program.passes for n in p.kept} if hold else ()
        types = {v.name: writer.dialect.type(v.dtype) for p in program.passes for v in p.values}
        self.kept_lines = [f"{types[n]} {n}_kept[kSteps][kWidth];" for n in types if n in kept]
        self.sweeps = [made.text(n) for n in range(len(program.passes))]
        self.stores_before = [made.row_store(s) for s in program.stores_before]

    def all_lines(self) -> list[str]:
        """Every statement, for the headers that they need."""
        swept = [
            line for s in self.sweeps for line in (*s.pack_lines, *s.lines, *s.after, *s.row_stores)
        ]
        types = [f"{p.type} x;" for s in self.sweeps for p in (*s.loads, *s.stores)]
        return [*self.row_lines, *self.held_lines, *self.kept_lines, *swept, *types]

    def base(self, tensor: Tensor) -> str:
        """The start of an array's row."""
        return row_base(self.writer, tensor)

    def _held(self) -> list[str]:
        """Operands with elements of their own in every row, read ahead of the first pass."""
        rows = row_texts(self.writer.problem)
        found = {}
        for number, sweep in enumerate(self.program.passes):
            for load in sweep.loads:
                indices = load.operand.indices
                own = not rows or any(i in rows for i in indices)
                if own and self.last in indices and (number == 0 or load.kept):
                    found[load.operand.name] = None
        return list(found)


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
        f"and written once: {ladder}. The launcher picks the first of these that holds a row; longer rows are "
        f"read again in every pass. {_accesses(plan)} Sums are taken in a fixed order: results do not depend on the launch."
    )


def _accesses(plan: RowRegistersPlan) -> str:
    if plan.cuts:
        return (
            f"Accesses are {plan.vector} elements wide: where rows do not start on whole packs, packs begin before the "
            "row and are cut at its ends; an array that lies otherwise than the first is then read element by element."
        )
    return (
        f"Accesses are {plan.vector} elements wide where sizes, strides and addresses permit, else one element of rows "
        "half as long."
    )
