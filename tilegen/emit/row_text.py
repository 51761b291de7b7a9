"""Where rows lie and what they have one of: text that the row templates of both backends share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tilegen.emit.filters import broken
from tilegen.emit.sweeps import PackText, Writer, moved, row_element, row_indices, row_lines
from tilegen.emit.sweeps import row_texts, wrapped
from tilegen.plans.base import Plan
from tilegen.problems.base import Tensor
from tilegen.problems.formula import FormulaProblem
from tilegen.problems.lowering import COUNT
from tilegen.problems.passes import Program


def row_base(writer: Writer, tensor: Tensor) -> str:
    """The start of an array's row: a local where rows have a start of their own."""
    rows = row_texts(writer.problem)
    return f"{tensor.name}_row" if any(d in rows for d in tensor.dims) else tensor.name


def row_statements(writer: Writer, program: Program, source: str = "") -> list[str]:
    """Statements that locate a row and compute what it has one of.

    Args:
        source: what stands before an array's name, such as `args->`.
    """
    lines = [*row_lines(writer, program), *_addresses(writer, source)]
    return list(wrapped([*lines, *_values(writer, program, source)]))


def _addresses(writer: Writer, source: str) -> list[str]:
    problem, rows = writer.problem, row_texts(writer.problem)
    lines = []
    for tensor in problem.tensors():
        base = row_base(writer, tensor)
        along = set(problem.along) & set(tensor.dims)
        if not along or (base == tensor.name and not source):
            continue
        constant = "" if tensor.is_written else "const "
        start = moved(f"{source}{tensor.name}", writer.offset(tensor, rows))
        lines.append(f"{constant}{writer.storage(tensor.dtype)} *{base} = {start};")
    return lines


def _values(writer: Writer, program: Program, source: str) -> list[str]:
    lines = []
    for load in program.loads:
        tensor = writer.tensor(load.operand.name)
        text = writer.element(load.node, tensor.name, source + row_element(writer, tensor))
        lines.append(writer.local(load.dtype, load.name, text))
    if program.counts:
        kind = writer.problem.typed.compute
        lines.append(writer.local(kind, COUNT, writer.dialect.cast(kind, "row_length")))
    return lines + [
        writer.local(v.dtype, v.name, writer.expression(v.node)) for v in program.before
    ]


def array_parameter(writer: Writer, tensor: Tensor) -> str:
    """The parameter of a device function for an array: nothing else points into it, unless it is in-out."""
    kind = writer.storage(tensor.dtype)
    if tensor.role == "inout":
        return f"{kind} *{tensor.name}"
    return f"{'' if tensor.is_written else 'const '}{kind} *__restrict__ {tensor.name}"


def aligned_conditions(plan: Plan, folded: Collection[str] = ()) -> list[str]:
    """C conditions under which packs of `plan.vector` elements may be accessed whole.

    Args:
        folded: indices that `args` may have folded into the last; a stride then matters only if it did not.
    """
    problem, wide = plan.problem, plan.vector
    last = problem.along[-1]
    conditions = [f"{'args.' if folded else ''}{last} % {wide} == 0"]
    for tensor in problem.tensors():
        if last not in tensor.dims:
            continue
        size = min(16, wide * tensor.dtype.bytes)
        conditions.append(f"reinterpret_cast<uintptr_t>({tensor.name}) % {size} == 0")
        for dim, stride in zip(tensor.dims, tensor.strides):
            multiple = f"{stride} % {wide} == 0"
            conditions.append(f"(args.{dim} == 1 || {multiple})" if dim in folded else multiple)
    return conditions


def stop_line(writer: Writer, tensor: Tensor) -> str:
    """The statement that locates the end of an array that has elements."""
    *outer, last = tensor.dims
    ends = {d: f"({writer.prefix}{d} - 1)" for d in outer} | {last: f"{writer.prefix}{last}"}
    kind, x = writer.storage(tensor.dtype), tensor.name
    return f"const {kind} *const {x}_stop = {x} + {writer.offset(tensor, ends)};"


def own_arrays(writer: Writer) -> list[Tensor]:
    """Arrays with every row index and the last: rows of them that lie alike are whole packs but for their ends."""
    problem = writer.problem
    needed = {*row_indices(problem), problem.along[-1]}
    return [t for t in problem.tensors() if needed <= set(t.dims)]


def crosses(writer: Writer, tensor: Tensor, cuts: int) -> bool:
    """Whether rows with ends meet packs of an array anywhere, as it has no row of its own for each of theirs."""
    return bool(cuts) and tensor not in own_arrays(writer)


def pack_access(writer: Writer, tensor: Tensor, pack: PackText, width: str, cuts: int) -> PackText:
    """A pack with the function that reads it: rows that begin at whole packs, other arrays anywhere."""
    if not crosses(writer, tensor, cuts):
        return replace(pack, access=f"load<{width}>")
    return replace(pack, access=f"load_across<{width}, kCut>")


def alike_conditions(plan: Plan, own: Sequence[Tensor]) -> list[str]:
    """C conditions under which the rows of these arrays all begin at the same place of a pack."""
    first, wide = own[0], plan.vector

    def place(tensor: Tensor) -> str:
        return f"reinterpret_cast<uintptr_t>({tensor.name}) / {tensor.dtype.bytes}"

    conditions = []
    for tensor in own[1:]:
        apart = broken(f"({place(tensor)} - {place(first)}) % {wide} == 0", 88)
        conditions.append("\n      ".join(apart))
        others = dict(zip(first.dims, first.strides))
        for dim, stride in zip(tensor.dims, tensor.strides):
            conditions.append(f"({stride} - {others[dim]}) % {wide} == 0")
    return conditions


def function_head(name: str, parameters: Sequence[str]) -> list[str]:
    """First line of a local function, its parameters one under the other's start where they need more lines."""
    lines, indent = [f"const auto {name} = [&]("], " " * len(f"const auto {name} = [&](")
    for number, parameter in enumerate(parameters):
        text = parameter + (") {" if number == len(parameters) - 1 else ",")
        if number == 0:
            lines[-1] += text
        elif len(lines[-1]) + 1 + len(text) <= 92:
            lines[-1] += f" {text}"
        else:
            lines.append(indent + text)
    return lines


def in_chunks(problem: FormulaProblem) -> list[str]:
    """The outputs that C stores in chunks: those with an element of every column."""
    return [t.name for t in problem.tensors() if t.is_written and problem.along[-1] in t.dims]


def chunk_text(writer: Writer, tensor: Tensor, base: str) -> PackText:
    """Where the chunks of an output go whose row starts at `base`."""
    number = in_chunks(writer.problem).index(tensor.name)
    kind = writer.storage(tensor.dtype)
    return PackText(tensor.name, kind, f"{base} + first", number=number)


def staging(writer: Writer, program: Program) -> dict[str, object]:
    """When a C kernel computes results in a chunk before it stores them: names of the template.

    Beside results that go past the caches, those that lie just behind an array which their pass reads: stores
    straight to them would hold up the loads that follow.

    Returns:
        `staging`, the C condition, and `staging_lines`, which declare it where it is no other's name.
    """
    own = [t.name for t in own_arrays(writer)]
    pairs = {
        f"lies_behind(args.{store.name}, args.{load.operand.name})": None
        for sweep in program.passes
        for store in sweep.stores
        for load in sweep.loads
        if {store.name, load.operand.name} <= set(own) and store.name != load.operand.name
    }
    if not pairs:
        return {"staging": "streaming", "staging_lines": []}
    line = f"const int staging = {' || '.join(['streaming', *pairs])};"
    lines = [line] if len(line) <= 98 else line.replace(" || ", " ||\n    ").split("\n")
    return {"staging": "staging", "staging_lines": lines}
