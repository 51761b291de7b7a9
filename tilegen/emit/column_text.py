"""Text of columns: a program whose values are arrays over the columns that a thread works on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.emit.sweeps import PackText, ReductionText, Writer, combined, index_lines, moved
from tilegen.emit.sweeps import op_name, partials_name, start_value, wrapped
from tilegen.formula import node_text
from tilegen.plans.columns import ColumnBlocksPlan, ColumnLoopsPlan, ColumnPartsPlan
from tilegen.problems.base import Tensor
from tilegen.problems.lowering import COUNT, Store, Value
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


class Columns:
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

    def column_store(self, s: Store) -> PackText:
        """An output of which a column has one element: its name, type, address and value."""
        tensor = self.writer.tensor(s.name)
        kind = self.writer.storage(tensor.dtype)
        return PackText(tensor.name, kind, self.base(tensor), self.writer.stored(s.value.node))
