"""Text of the column templates of both backends: every column has its own sums, kept in arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.row_text import alike_conditions, array_parameter, stop_line
from tilegen.emit.rowwise_cuda import operation
from tilegen.emit.sweeps import PackText, ReductionText, Writer, combined, index_lines, moved
from tilegen.emit.sweeps import op_name, partials_name, start_value, wrapped
from tilegen.formula import node_text
from tilegen.plans.columns import ColumnBlocksPlan, ColumnLoopsPlan, ColumnPartsPlan
from tilegen.problems.base import Tensor
from tilegen.problems.lowering import COUNT, Value
from tilegen.problems.passes import Load, Pass

# Where an element of a thread lies, and where it lies if its columns are neighbours.
COLUMN, NEIGHBOUR = "column + element * kSpread", "column + element"


@dataclass(frozen=True)
class ArrayText:
    """A value that every column has one of: its array, and the statement that fills an element."""

    name: str
    type: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class FetchText:
    """A pack that a step reads: its name, element type, the row that it is of, and the arguments of what reads it."""

    name: str
    type: str
    base: str
    address: str

    @property
    def array(self) -> str:
        """The array's name."""
        return self.name.removesuffix("_pack")


@dataclass(frozen=True)
class PartsKernel:
    """A kernel that reduces parts: its name, how its rows lie, for which arrays it is, and whether its registers are bound."""

    name: str
    rows: str
    what: str
    bound: int


@dataclass(frozen=True)
class ColumnSweepText:
    """One pass down the columns.

    Attributes:
        title: what it computes.
        reductions: arrays that it accumulates.
        step_lines: statements that locate a step along the reduced indices, and what it has one of.
        loads: packs read at each step.
        lines: statements for one element.
        stores: packs written at each step.
        after: arrays that follow from the reductions.
        column_stores: what is written once a column.
    """

    title: str
    reductions: tuple[ReductionText, ...]
    step_lines: tuple[str, ...]
    loads: tuple[PackText, ...]
    lines: tuple[str, ...]
    stores: tuple[PackText, ...]
    after: tuple[ArrayText, ...]
    column_stores: tuple[PackText, ...]


KERNELS = (
    PartsKernel("vector", "kWhole", "For arrays whose rows all start on whole packs.", 1),
    PartsKernel("alike", "kAlike", "For arrays whose rows lie alike at every step of a thread.", 0),
    PartsKernel("spread", "kSpread", "For any other arrays.", 0),
)


class _Columns:
    """Writes a program whose values are arrays over the columns that a thread works on."""

    def __init__(self, plan: ColumnBlocksPlan | ColumnPartsPlan | ColumnLoopsPlan) -> None:
        self.plan = plan
        self.problem = plan.problem
        self.program = plan.program
        self.cuda = plan.target.backend == "cuda"
        self.access = "args." if self.cuda else "args->"
        self.source = "" if self.cuda else self.access
        self.parts = isinstance(plan, ColumnPartsPlan)
        self.place = COLUMN
        self.at = "element" if self.cuda else "column - first"
        self.writer = Writer(self.problem, plan.target.backend, self.access)
        self.last = self.problem.family.order[-1]
        self.outer = tuple(
            i for i in self.problem.family.order if i not in (*self.problem.along, self.last)
        )
        self.texts = {i: f"{i}_index" for i in (*self.outer, *self.problem.along)}
        flat = [v for p in self.program.passes for v in (*p.reductions, *p.after)]
        self.columnar = [*flat, *self.program.before]
        for value in self.columnar:
            self.writer.names[value.name] = f"{value.name}[{self.at}]"

    def base(self, tensor: Tensor) -> str:
        """Where an array's part for the current outer indices starts."""
        inner = {*self.outer} & {*tensor.dims}
        return f"{tensor.name}_line" if inner else self.source + tensor.name

    def line_statements(self) -> list[str]:
        """Where the arrays' parts for the outer indices start."""
        wanted = {d for t in self.problem.tensors() for d in t.dims}
        wanted |= set(self.program.positions.values())
        lines = index_lines(self.writer, self.outer, "line", wanted)
        texts = {i: self.texts[i] for i in self.outer}
        for tensor in self.problem.tensors():
            if self.base(tensor) != f"{tensor.name}_line":
                continue
            constant = "" if tensor.is_written else "const "
            start = moved(self.source + tensor.name, self.writer.offset(tensor, texts))
            kind = self.writer.storage(tensor.dtype)
            lines.append(f"{constant}{kind} *{tensor.name}_line = {start};")
        if self.program.counts:
            kind = self.problem.typed.compute
            lines.append(self.writer.local(kind, COUNT, self.writer.dialect.cast(kind, "length")))
        return list(wrapped(lines))

    def address(self, tensor: Tensor) -> str:
        """Where a pack, or a column, lies at the current step."""
        steps = {i: self.texts[i] for i in self.problem.along if i in tensor.dims}
        return moved(self.base(tensor), self.writer.offset(tensor, steps))

    def sweep(self, number: int) -> ColumnSweepText:
        """The text of one pass."""
        sweep = self.program.passes[number]
        packed = [x for x in sweep.loads if self.last in x.operand.indices]
        single = [x for x in sweep.loads if self.last not in x.operand.indices]
        lines = self.position_lines(sweep)
        lines += [self.load_line(x) for x in packed]
        for value in sweep.values:
            lines.append(self.writer.local(value.dtype, value.name, self.text(value)))
        lines += [self.accumulation(r) for r in sweep.reductions]
        stores = []
        for s in sweep.stores:
            tensor = self.writer.tensor(s.name)
            lines.append(f"{self.written(tensor)} = {self.writer.stored(s.value.node)};")
            stores.append(self.pack(tensor, "out"))
        return ColumnSweepText(
            title=self.title(number, sweep),
            reductions=tuple(self.reduction(r) for r in sweep.reductions),
            step_lines=wrapped(
                [
                    *self.step_lines(sweep),
                    *self.step_addresses(sweep),
                    *(self.single_line(x) for x in single),
                ]
            ),
            loads=tuple({x.operand.name: self.loaded(self.tensor(x)) for x in packed}.values()),
            lines=wrapped(lines),
            stores=tuple(stores),
            after=tuple(self.array(v) for v in sweep.after),
            column_stores=tuple(self.column_store(s) for s in sweep.stores_after),
        )

    def tensor(self, load: Load) -> Tensor:
        return self.writer.tensor(load.operand.name)

    def text(self, value: Value) -> str:
        return self.writer.expression(value.node)

    def title(self, number: int, sweep: Pass) -> str:
        what = [f"{r.name} = {r.op} of {node_text(r.node)}" for r in sweep.reductions]
        what += [f"store {s.name}" for s in sweep.stores]
        count = len(self.program.passes)
        head = f"Pass {number + 1} of {count}: " if count > 1 else ""
        return head + ", ".join(what) + "."

    def step_lines(self, sweep: Pass) -> list[str]:
        wanted = {d for x in sweep.loads for d in x.operand.indices}
        wanted |= {d for s in sweep.stores for d in s.indices}
        names = {
            n
            for v in (*sweep.values, *sweep.reductions, *(s.value for s in sweep.stores))
            for n in v.names
        }
        wanted |= {i for name, i in self.program.positions.items() if name in names}
        return index_lines(self.writer, self.problem.along, "step", wanted)

    def step_addresses(self, sweep: Pass) -> list[str]:
        """Where the arrays' columns lie at the current step."""
        names = [x.operand.name for x in sweep.loads if self.last in x.operand.indices]
        lines = []
        for name in dict.fromkeys([*names, *(s.name for s in sweep.stores)]):
            tensor = self.writer.tensor(name)
            constant = "" if tensor.is_written else "const "
            kind = self.writer.storage(tensor.dtype)
            lines.append(f"{constant}{kind} *{name}_step = {self.address(tensor)};")
        return lines

    def position_lines(self, sweep: Pass) -> list[str]:
        values = (*sweep.values, *sweep.reductions, *(s.value for s in sweep.stores))
        name = f"{self.last}_index"
        if name not in self.program.positions or name not in {n for v in values for n in v.names}:
            return []
        return [f"const int64_t {name} = {self.place if self.cuda else 'column'};"]

    def load_line(self, load: Load) -> str:
        tensor = self.tensor(load)
        at = f"{tensor.name}_pack.at[element]" if self.cuda else f"{tensor.name}_step[column]"
        text = self.writer.element(load.node, tensor.name, at)
        return self.writer.local(load.dtype, load.name, text)

    def single_line(self, load: Load) -> str:
        tensor = self.tensor(load)
        steps = {i: self.texts[i] for i in tensor.dims if i in self.problem.along}
        at = f"{self.base(tensor)}[{self.writer.offset(tensor, steps)}]"
        return self.writer.local(
            load.dtype, load.name, self.writer.element(load.node, tensor.name, at)
        )

    def written(self, tensor: Tensor) -> str:
        return f"{tensor.name}_out.at[element]" if self.cuda else f"{tensor.name}_step[column]"

    def pack(self, tensor: Tensor, word: str = "pack") -> PackText:
        kind = self.writer.storage(tensor.dtype)
        name = f"{tensor.name}_{word}" if self.cuda else tensor.name
        return PackText(name, kind, f"{tensor.name}_step")

    def loaded(self, tensor: Tensor) -> PackText:
        """The pack of an input at the current step, with the function that reads it."""
        x = tensor.name
        access, address = "load_columns<kWhole>", f"{x}_step, column, columns"
        if self.parts:
            access = f"Pack<{self.writer.storage(tensor.dtype)}, kWidth>"
            address = f"{x}_packs[each]"
        return replace(self.pack(tensor), access=access, address=address)

    def singly(self, sweep: ColumnSweepText) -> ColumnSweepText:
        """A pass whose packs are read element by element."""
        loads = [
            replace(p, access="read_singly", address=f"{x}_step + column, {x}, {x}_stop")
            for p in sweep.loads
            for x in [p.name.removesuffix("_pack")]
        ]
        return replace(sweep, step_lines=(), loads=tuple(loads))

    def uses(self, sweep: Pass, lines: Sequence[str]) -> list[str]:
        """Statements of a step that its elements need besides its packs."""
        single = [x for x in sweep.loads if self.last not in x.operand.indices]
        known = [*self.step_lines(sweep), *self.step_addresses(sweep)]
        return _needed_lines([*known, *(self.single_line(x) for x in single)], list(lines))

    def fetches(self, sweep: Pass) -> tuple[list[str], list[FetchText]]:
        """The packs that a step reads, and the statements that locate them."""
        names = [x.operand.name for x in sweep.loads if self.last in x.operand.indices]
        arrays = [self.writer.tensor(name) for name in dict.fromkeys(names)]
        packs = [
            FetchText(
                f"{t.name}_pack",
                self.writer.storage(t.dtype),
                f"{t.name}_step",
                f"{t.name}_step + column, columns - column",
            )
            for t in arrays
        ]
        lines = [*self.step_lines(sweep), *self.step_addresses(sweep)]
        return _needed_lines(lines, [p.address for p in packs]), packs

    def stops(self) -> list[str]:
        """Statements that locate the ends of the arrays that are read step by step."""
        loads = [x for p in self.program.passes for x in p.loads]
        names = dict.fromkeys(x.operand.name for x in loads if self.last in x.operand.indices)
        return list(wrapped(stop_line(self.writer, self.writer.tensor(x)) for x in names))

    def accumulation(self, r: Value) -> str:
        total = self.writer.names[r.name]
        if r.op in ("sum", "prod"):
            return f"{total} {'+' if r.op == 'sum' else '*'}= {self.text(r)};"
        return f"{total} = {self.writer.expression(combined(r.op, r.dtype, r.name, r.node))};"

    def reduction(self, r: Value) -> ReductionText:
        start = self.writer.expression(start_value(r.op, r.dtype))
        kind = self.writer.dialect.type(r.dtype)
        return ReductionText(r.name, kind, start, op_name(r.op, r.dtype), partials_name(r.dtype))

    def array(self, value: Value) -> ArrayText:
        return self.filled(value.name, self.writer.dialect.type(value.dtype), self.text(value))

    def filled(self, name: str, kind: str, text: str) -> ArrayText:
        """The array `name` with every element set to `text`."""
        return ArrayText(name, kind, wrapped([f"{name}[{self.at}] = {text};"]))

    def loaded_arrays(self) -> list[ArrayText]:
        """Operands that every column has one element of, in the type of the arithmetic."""
        found = []
        for load in self.program.loads:
            tensor = self.tensor(load)
            kind = self.writer.dialect.type(load.dtype)
            at = self.place if self.cuda else "column"
            inside = f"{self.guard(at)} ? {at} : 0" if self.cuda else at
            place = inside if self.last in tensor.dims else "0"
            text = self.writer.element(load.node, tensor.name, f"{self.base(tensor)}[{place}]")
            found.append(self.filled(load.name, kind, text))
            self.writer.names[load.name] = f"{load.name}[{self.at}]"
        return found

    def guard(self, at: str) -> str:
        """The condition that a column exists; packs of parts that lie alike begin before the first."""
        return f"{at} >= 0 && {at} < columns" if self.parts else f"{at} < columns"

    def column_store(self, s) -> PackText:
        """An output of which a column has one element: its name, type, address and value."""
        tensor = self.writer.tensor(s.name)
        kind = self.writer.storage(tensor.dtype)
        return PackText(tensor.name, kind, self.base(tensor), self.writer.stored(s.value.node))


def context(plan: ColumnBlocksPlan | ColumnPartsPlan | ColumnLoopsPlan) -> dict[str, Any]:
    """The names of the template."""
    made = _Columns(plan)
    problem, writer, cuda = plan.problem, made.writer, made.cuda
    host = Writer(problem, plan.target.backend, "args.")
    loaded = made.loaded_arrays()
    before = [made.array(v) for v in plan.program.before]
    sweeps = [made.sweep(n) for n in range(len(plan.program.passes))]
    ops = {(r.op, r.dtype): operation(writer, r.op, r.dtype) for r in plan.program.reductions}
    kinds = dict.fromkeys(r.dtype for r in plan.program.reductions)
    names: dict[str, Any] = {
        "computes": problem.title(),
        "prose": _prose(plan, cuda),
        "members": [
            f"int64_t {', '.join(s.name for s in problem.sizes())};",
            *tensors.members(problem.tensors(), problem.scalars(), cuda),
        ],
        "assignments": [
            *(s.name for s in problem.sizes()),
            *(
                line.split(" = ")[1]
                for line in tensors.assignments(problem.tensors(), problem.scalars(), cuda)
            ),
        ],
        "line_lines": made.line_statements(),
        "outer": made.outer,
        "loaded": loaded,
        "before": before,
        "sweeps": sweeps,
        "lines_expression": host.extent(made.outer),
        "length_expression": (writer if cuda else writer).extent(problem.along),
        "columns_expression": f"{made.access}{made.last}",
        "host_columns": f"args.{made.last}",
        "host_length": host.extent(problem.along),
    }
    if cuda:
        names |= {
            "reduction_ops": list(ops.values()),
            "partials": [(partials_name(k), k.c) for k in kinds],
            "array_parameters": [array_parameter(writer, t) for t in problem.tensors()],
            "array_arguments": ", ".join(f"args.{t.name}" for t in problem.tensors()),
            "aligned": _aligned(plan, made.last),
        }
    if isinstance(plan, ColumnPartsPlan):
        names |= _parts(made, names)
    helpers = writer.helpers()
    texts = [f"{a.type} x; {line}" for a in [*loaded, *before] for line in a.lines]
    for s in sweeps:
        texts += [
            *s.step_lines,
            *s.lines,
            *(x for a in s.after for x in a.lines),
            *(r.start for r in s.reductions),
        ]
        texts += [p.type + " x;" + p.access for p in s.column_stores]
    lines = [*helpers, *names["members"], *names["line_lines"], *texts]
    includes = set(includes_for(lines, plan.target.backend))
    if not cuda:
        includes |= {"<errno.h>", "<stddef.h>", "<stdint.h>"}
    return names | {"helpers": helpers, "includes": sorted(includes)}


def _parts(made: _Columns, names: dict[str, Any]) -> dict[str, Any]:
    """What the template of two kernels adds: each locates, loads and computes only what it uses."""
    sweep = names["sweeps"][0]
    steps = [*sweep.step_lines, *sweep.lines]
    ends = [line for a in sweep.after for line in a.lines]
    ends += [f"{p.address} {p.access}" for p in sweep.column_stores]
    arrays = [*names["loaded"], *names["before"]]
    parts, finish = _needed(arrays, steps), _single(_needed(arrays, ends))
    in_parts = [*steps, *(line for a in parts for line in a.lines)]
    in_finish = [*ends, *(line for a in finish for line in a.lines)]
    size = made.problem
    form, alike = _alike(made)
    fetch_lines, fetched = made.fetches(made.program.passes[0])
    uses = made.uses(made.program.passes[0], sweep.lines)
    fresh = [line for line in uses if line not in fetch_lines]
    lies = " & ".join(f"lies({p.base} + column, {p.array}, {p.array}_stop)" for p in fetched)
    return {
        "sweep": replace(sweep, step_lines=wrapped(uses)),
        "singly": replace(made.singly(sweep), step_lines=wrapped(fresh)),
        "lies": lies,
        "lies_too": f" && (kRows != Rows::kAlike || ({lies}))" if form else "",
        "stops": made.stops() if form else [],
        "fetch_lines": wrapped(fetch_lines),
        "fetched": fetched,
        "before_lines": wrapped(_needed_lines(fetch_lines, [fetched[0].base] if fetched else [])),
        "alike_form": form,
        "alike_less": " - (kRows == Rows::kAlike ? kVector : 0)" if form else "",
        "alike": alike,
        "spread_form": int(not form or bool(alike)),
        "kernels": [
            k
            for k in KERNELS
            if k.name == "vector" or (form if k.name == "alike" else not form or alike)
        ],
        "loaded": parts,
        "before": [],
        "finish_loaded": finish,
        "finish_before": [],
        "line_lines": _needed_lines(names["line_lines"], in_parts),
        "finish_line_lines": (lines := _needed_lines(names["line_lines"], in_finish)),
        "counted": any(f" {COUNT} = " in line for line in lines),
        "host_lines": Writer(size, "cuda").extent(made.outer),
        "host_last": made.last,
        "host_along": Writer(size, "cuda").extent(size.along),
    }


def _single(arrays: list[ArrayText]) -> list[ArrayText]:
    """The arrays of a thread that has one column."""
    return [
        replace(a, lines=tuple(line.replace(COLUMN, NEIGHBOUR) for line in a.lines)) for a in arrays
    ]


def _alike(made: _Columns) -> tuple[int, list[str]]:
    """Whether there are rows that all lie alike at every step of a thread, and the conditions for it in C.

    A thread's steps lie whole numbers of rows of threads apart along one index.
    """
    loads = [x.operand.name for x in made.program.passes[0].loads]
    arrays = [made.writer.tensor(x) for x in dict.fromkeys(loads)]
    arrays = [t for t in arrays if made.last in t.dims]
    plan = made.plan
    down = plan.threads // plan.across
    same = len({t.dims for t in arrays}) == 1
    if not same or len(made.problem.along) > 1 or down % plan.vector:
        return 0, []
    return 1, alike_conditions(plan, arrays)


def _uses(name: str, texts: Iterable[str]) -> bool:
    return any(re.search(rf"\b{name}\b", text) for text in texts)


def _needed(arrays: list[ArrayText], texts: list[str]) -> list[ArrayText]:
    """Arrays that the texts use, and those that these are computed from, in order."""
    found: list[ArrayText] = []
    for array in reversed(arrays):
        later = [line for a in found for line in a.lines]
        if _uses(array.name, [*texts, *later]):
            found.insert(0, array)
    return found


def _needed_lines(lines: list[str], texts: list[str]) -> list[str]:
    """Declarations whose names the texts, or later declarations, use; a continued one is kept whole."""
    found: list[str] = []
    for line in reversed(lines):
        match = re.search(r"\*?(\w+) =", line)
        if match is None or _uses(match.group(1), [*texts, *found]):
            found.insert(0, line)
    return found


def _aligned(plan: ColumnBlocksPlan, last: str) -> list[str]:
    """C conditions under which packs may be accessed whole."""
    conditions = [f"{last} % {plan.vector} == 0"]
    for tensor in plan.problem.tensors():
        if last in tensor.dims and set(plan.problem.along) & set(tensor.dims):
            size = min(16, plan.vector * tensor.dtype.bytes)
            conditions.append(f"reinterpret_cast<uintptr_t>({tensor.name}) % {size} == 0")
            conditions += [f"{s} % {plan.vector} == 0" for s in tensor.strides]
    return conditions


def _prose(plan: ColumnBlocksPlan | ColumnPartsPlan | ColumnLoopsPlan, cuda: bool) -> str:
    count = len(plan.program.passes)
    passes = "one pass" if count == 1 else f"{count} passes"
    along = ", ".join(plan.problem.along)
    if isinstance(plan, ColumnPartsPlan):
        return (
            f"Every column is reduced over {along}. A block works on {plan.across} x {plan.vector} neighbouring "
            f"columns; its {plan.threads // plan.across} "
            f"rows of threads share the steps along {along} and meet in shared memory. Where columns are few, their "
            f"steps are cut into parts, so that there are about {plan.blocks} blocks; a second kernel combines the "
            "parts. The cut depends on the sizes alone, and all is combined in a fixed order: results are the same bits "
            "every time."
        )
    if cuda:
        return (
            f"Every column is reduced over {along} in {passes}. A block works on {plan.across} x {plan.vector} "
            f"neighbouring columns; its "
            f"{plan.threads // plan.across} rows of threads share the steps along {along} and meet in shared "
            "memory after each pass, always in the same order."
        )
    return (
        f"Every column is reduced over {along} in {passes}. Threads share chunks of {plan.chunk} columns; a step "
        f"along {along} is a vector loop over the chunk. A column's sums are taken in the order of {along}: results "
        "are the same bits for any number of threads."
    )
