"""Text of the passes of a formula over rows: what the row templates of both backends print."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilegen.emit.c_expr import (
    CUDA_SHORT,
    ExpressionPrinter,
    catalogue,
    dialect,
    helper_texts,
    shortened,
)
from tilegen.emit.wrap import wrap
from tilegen.formula import node_text
from tilegen.formula.typing import ARITHMETIC
from tilegen.formula.nodes import Call, Name, Node, Number
from tilegen.problems.base import Tensor
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.lowering import Store, Value
from tilegen.problems.passes import Load, Pass, Program
from tilegen.values import BOOL, DType


@dataclass(frozen=True)
class PackText:
    """A vector of an operand's elements: its name, element type, where it lies, how it is read or written.

    In C, `number` counts the outputs that go to memory in chunks.
    """

    name: str
    type: str
    address: str
    access: str = ""
    number: int = 0


@dataclass(frozen=True)
class ReductionText:
    """The local of a reduction: name, type, value over nothing, and what combines two of them."""

    name: str
    type: str
    start: str
    op: str
    partials: str


@dataclass(frozen=True)
class SweepText:
    """One pass.

    Attributes:
        title: what it computes.
        reductions: locals that it accumulates.
        pack_lines: statements before the elements of a pack.
        loads: packs read in the pass.
        lines: statements for one element.
        stores: packs written in the pass.
        after: statements once the row's reductions are known.
        row_stores: statements that write what the row has one of.
    """

    title: str
    reductions: tuple[ReductionText, ...]
    pack_lines: tuple[str, ...]
    loads: tuple[PackText, ...]
    lines: tuple[str, ...]
    stores: tuple[PackText, ...]
    after: tuple[str, ...]
    row_stores: tuple[str, ...]

    @property
    def has_end(self) -> bool:
        """Whether anything follows the elements."""
        return bool(self.reductions or self.after or self.row_stores)


def wrapped(lines: Iterable[str]) -> tuple[str, ...]:
    """Statements with the long ones broken, to stand up to 12 columns from the left."""
    return tuple(part for line in lines for part in wrap(line, 88))


class Writer:
    """Prints a formula's expressions for one backend.

    Args:
        problem: whose formula it is.
        backend: `cuda` or `c_openmp`.
        prefix: what stands before the names of sizes, strides and scalars, such as `args.`.
    """

    def __init__(self, problem: FormulaProblem, backend: str, prefix: str = "") -> None:
        self.problem = problem
        self.cuda = backend == "cuda"
        self.short = self.cuda and problem.is_short
        self.dialect = CUDA_SHORT if self.short else dialect(backend)
        self.prefix = prefix
        self.names = {s.name: f"{prefix}{s.name}" for s in problem.scalars()}
        positions = frozenset(f"{i}_index" for i in problem.family.order)
        self.printer = ExpressionPrinter(self.dialect, self.names, {}, positions)

    def expression(self, node: Node) -> str:
        """The C text of an expression; names of values stand as they are."""
        return self.printer.text(node)

    def stored(self, node: Node) -> str:
        """The C text of an output's value; conditions are stored as 0 or 1."""
        text = self.printer.text(node)
        return text if self.cuda or node.dtype != BOOL else f"(uint8_t)(({text}) != 0)"

    def element(self, node: Node, operand: str, text: str) -> str:
        """The C text of a conversion of an operand's element, which stands at `text`."""
        self.names[operand] = text
        return self.printer.text(node)

    def local(self, kind: DType, name: str, text: str) -> str:
        """A statement that names a value."""
        known = kind in ARITHMETIC
        return f"const {self.dialect.type(kind) if known else self.storage(kind)} {name} = {text};"

    def storage(self, kind: DType) -> str:
        """The type of an array's elements."""
        return kind.cuda if self.cuda else kind.c

    def tensor(self, name: str) -> Tensor:
        """The array of that name."""
        return next(t for t in self.problem.tensors() if t.name == name)

    def helpers(self) -> tuple[str, ...]:
        """Texts of the functions that what was printed so far calls."""
        known = catalogue(self.dialect)
        texts = helper_texts([n for n in self.printer.used if n in known], self.dialect)
        return tuple(shortened(texts)) if self.short else texts

    def offset(self, tensor: Tensor, indices: Mapping[str, str]) -> str:
        """The offset of an element from the start of its array, for the given texts of its indices."""
        terms = []
        for position, dim in enumerate(tensor.dims):
            if dim in indices:
                last = position == len(tensor.dims) - 1
                stride = "" if last else f" * {self.prefix}{tensor.strides[position]}"
                terms.append(f"{indices[dim]}{stride}")
        return " + ".join(terms)

    def extent(self, indices: Sequence[str]) -> str:
        """The product of sizes, `1` for none."""
        return " * ".join(f"{self.prefix}{i}" for i in indices) or "1"


def moved(base: str, distance: str) -> str:
    """`base` moved by a distance that may be empty."""
    return f"{base} + {distance}" if distance else base


_START = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def start_value(op: str, kind: DType) -> Node:
    """The result of a reduction over nothing, as a literal."""
    value = _START[op]
    if kind.is_float:
        return Number(value, dtype=kind)
    extreme = 2 ** (kind.bits - 1)
    return Number({"sum": 0, "prod": 1, "max": -extreme, "min": extreme - 1}[op], dtype=kind)


def combined(op: str, kind: DType, total: str, value: Node) -> Node:
    """`total` and `value` combined, for the operations that are function calls."""
    return Call(op, (Name(total, dtype=kind), value), dtype=kind)


class Sweeps:
    """Writes the statements of passes for one backend.

    Args:
        writer: prints expressions.
        program: the passes.
        held: operands whose elements are in registers throughout, with the text of an element.
        kept: the text of an element of a kept value, by a format with `{name}`; empty keeps nothing.
        base: text of the address of an operand's row, by operand name.
        column: text of the position of a pack's first element along the last index.
        within: text of an element's position in its pack; empty where a pack is one element.
        read: text of an element of an operand that the pass reads from memory, by operand name.
        written: text of an element of an output, by its name.
        source: what stands before an array's name, such as `args->`.
        along: the indices that a pack may vary with; those that the program runs along if empty.
        accumulate: statements that take an element into a reduction; `accumulation` if None.
    """

    def __init__(
        self,
        writer: Writer,
        program: Program,
        *,
        held: dict[str, str],
        kept: str,
        base: Callable[[Tensor], str],
        column: str,
        within: str,
        read: Callable[[str], str],
        written: Callable[[str], str],
        source: str = "",
        along: Sequence[str] = (),
        accumulate: Callable[[Value], list[str]] | None = None,
    ) -> None:
        self.writer = writer
        self.program = program
        self.accumulate = accumulate or self.accumulation
        self.held = held
        self.kept = kept
        self.base = base
        self.column = column
        self.within = within
        self.read = read
        self.written = written
        self.source = source
        self.along = tuple(along) or writer.problem.along
        self.last = self.along[-1]

    def text(self, number: int) -> SweepText:
        """The text of pass `number`, which counts from 0."""
        sweep = self.program.passes[number]
        single = [x for x in sweep.loads if self.last not in x.operand.indices]
        packed = [x for x in sweep.loads if self.last in x.operand.indices]
        fresh = {x.operand.name: x for x in packed if x.operand.name not in self.held}
        element = dict(self.held)
        element |= {name: self.read(name) for name in fresh}
        lines = [self.load_line(x, element) for x in packed]
        positions = self.position_lines(sweep)
        lines = [*positions, *lines]
        for value in sweep.recalled:
            lines.append(self.value_line(value, self.kept.format(name=value.name)))
        for value in sweep.values:
            lines.append(self.value_line(value, self.writer.expression(value.node)))
            if value.name in sweep.kept and self.kept:
                lines.append(f"{self.kept.format(name=value.name)} = {value.name};")
        lines += [line for r in sweep.reductions for line in self.accumulate(r)]
        stores = []
        for s in sweep.stores:
            tensor = self.writer.tensor(s.name)
            lines.append(f"{self.written(s.name)} = {self.writer.stored(s.value.node)};")
            stores.append(self.pack_text(tensor, "out"))
        return SweepText(
            title=self.title(number, sweep),
            reductions=tuple(self.reduction(r) for r in sweep.reductions),
            pack_lines=wrapped(
                [
                    *(self.split_lines() if fresh or single or stores or positions else ()),
                    *(
                        self.single_line(x)
                        for x in single
                        if set(self.along) & {*x.operand.indices}
                    ),
                ]
            ),
            loads=tuple(self.pack_text(self.writer.tensor(name)) for name in fresh),
            lines=wrapped(lines),
            stores=tuple(stores),
            after=wrapped(self.value_line(v, self.writer.expression(v.node)) for v in sweep.after),
            row_stores=wrapped(self.row_store(s) for s in sweep.stores_after),
        )

    def title(self, number: int, sweep: Pass) -> str:
        what = [f"{r.name} = {r.op} of {node_text(r.node)}" for r in sweep.reductions]
        what += [f"store {s.name}" for s in sweep.stores]
        count = len(self.program.passes)
        head = f"Pass {number + 1} of {count}: " if count > 1 else ""
        return (head + ", ".join(what or ["store the row's results"]) + ".").replace("*/", "* /")

    def pack_text(self, tensor: Tensor, word: str = "pack") -> PackText:
        """The vector of an array's elements at the current place, named after the array."""
        kind = self.writer.storage(tensor.dtype)
        return PackText(f"{tensor.name}_{word}", kind, moved(self.base(tensor), self.inner(tensor)))

    def inner(self, tensor: Tensor) -> str:
        """Offset of a pack from the start of its row."""
        if len(self.along) == 1:
            return self.column
        at = {i: f"{i}_index" for i in self.along[:-1]} | {self.last: f"{self.last}_first"}
        return self.writer.offset(tensor, at)

    def split_lines(self) -> list[str]:
        """Where a pack stands along each of several reduced indices."""
        if len(self.along) == 1:
            return []
        lines, divisor = [], []
        for i in reversed(self.along):
            text = " / ".join([self.column, *divisor])
            name = f"{i}_first" if i == self.last else f"{i}_index"
            modulo = "" if i == self.along[0] else f" % {self.writer.prefix}{i}"
            lines.append(f"const int64_t {name} = {text}{modulo};")
            divisor.append(f"{self.writer.prefix}{i}")
        return lines[::-1]

    def position_lines(self, sweep: Pass) -> list[str]:
        """Positions along the last index, where the pass uses them as values."""
        used = {n for v in _all_values(sweep) for n in v.names}
        name = f"{self.last}_index"
        if name not in used or name not in self.program.positions:
            return []
        first = self.column if len(self.along) == 1 else f"{self.last}_first"
        return [f"const int64_t {name} = {' + '.join(filter(None, [first, self.within]))};"]

    def load_line(self, load: Load, element: dict[str, str]) -> str:
        name = load.operand.name
        text = self.writer.element(load.node, name, element[name])
        return self.writer.local(load.dtype, load.name, text)

    def single_line(self, load: Load) -> str:
        """An operand that varies along the row, but not with its last index."""
        tensor = self.writer.tensor(load.operand.name)
        at = {i: f"{i}_index" for i in self.along[:-1]}
        at_text = f"{self.base(tensor)}[{self.writer.offset(tensor, at)}]"
        text = self.writer.element(load.node, tensor.name, at_text)
        return self.writer.local(load.dtype, load.name, text)

    def value_line(self, value: Value, text: str) -> str:
        return self.writer.local(value.dtype, value.name, text)

    def accumulation(self, r: Value) -> list[str]:
        """Statements that take an element into a reduction, by a function where it is not a sum or product."""
        if r.op in ("sum", "prod"):
            sign = "+" if r.op == "sum" else "*"
            return [f"{r.name} {sign}= {self.writer.expression(r.node)};"]
        node = combined(r.op, r.dtype, r.name, r.node)
        return [f"{r.name} = {self.writer.expression(node)};"]

    def reduction(self, r: Value) -> ReductionText:
        return ReductionText(
            name=r.name,
            type=self.writer.dialect.type(r.dtype),
            start=self.writer.expression(start_value(r.op, r.dtype)),
            op=op_name(r.op, r.dtype),
            partials=partials_name(r.dtype),
        )

    def row_store(self, s: Store) -> str:
        tensor = self.writer.tensor(s.name)
        return (
            f"{self.source}{row_element(self.writer, tensor)} = {self.writer.stored(s.value.node)};"
        )


def _all_values(sweep: Pass) -> list[Value]:
    return [*sweep.values, *sweep.reductions, *(s.value for s in sweep.stores)]


def op_name(op: str, kind: DType) -> str:
    """Name of a reduction's operation: `Sum`, or `SumI64` for types other than float."""
    return op.capitalize() + ("" if kind.name == "f32" else kind.name.capitalize())


def partials_name(kind: DType) -> str:
    """Name of the shared array of partial results of a type."""
    return "partials" if kind.name == "f32" else f"partials_{kind.name}"


def row_indices(problem: FormulaProblem) -> tuple[str, ...]:
    """Indices that a row has one value of each."""
    return tuple(i for i in problem.family.order if i not in problem.along)


def row_texts(problem: FormulaProblem) -> dict[str, str]:
    """Text of each row index."""
    rows = row_indices(problem)
    return {rows[0]: "row"} if len(rows) == 1 else {i: f"{i}_index" for i in rows}


def row_element(writer: Writer, tensor: Tensor) -> str:
    """The element of an array that a row has one of."""
    return f"{tensor.name}[{writer.offset(tensor, row_texts(writer.problem)) or '0'}]"


def row_lines(writer: Writer, program: Program) -> list[str]:
    """Where a row stands along each of several row indices, or by name where the formula uses it."""
    problem = writer.problem
    rows = row_indices(problem)
    if len(rows) == 1:
        used = f"{rows[0]}_index" in program.positions
        return [f"const int64_t {rows[0]}_index = row;"] if used else []
    carried = {d for t in problem.tensors() for d in t.dims} | set(program.positions.values())
    return index_lines(writer, rows, "row", carried)


def index_lines(
    writer: Writer, indices: Sequence[str], counter: str, wanted: Collection[str]
) -> list[str]:
    """Statements that take a running number apart into indices, the last of which runs fastest."""
    lines, divisor = [], []
    for i in reversed(indices):
        text = " / ".join([counter, *divisor])
        modulo = "" if i == indices[0] else f" % {writer.prefix}{i}"
        if i in wanted:
            lines.append(f"const int64_t {i}_index = {text}{modulo};")
        divisor.append(f"{writer.prefix}{i}")
    return lines[::-1]
