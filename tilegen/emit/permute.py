"""Text of the permute templates of both backends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.filters import broken
from tilegen.emit.row_text import array_parameter, stop_line
from tilegen.emit.sweeps import PackText, Sweeps, Writer, index_lines, moved, wrapped
from tilegen.plans.permute import TileLoopsPlan, TileSharedPlan
from tilegen.problems.base import Tensor
from tilegen.schedules.permute import crossed_operands
from tilegen.values import DType


@dataclass(frozen=True)
class Side:
    """One kernel of the CUDA template.

    Attributes:
        name, read, write: its name, whether it reads packs that lie askew, and elements of an access that writes.
        bounds: of its launch.
    """

    name: str
    read: str
    write: str
    bounds: str = "kThreads"


@dataclass(frozen=True)
class Turn:
    """The C function that turns lines of one element type, in squares of vectors of 16 bytes.

    Attributes:
        name, type, bytes: the function's name, and the element's type and size.
        side, half, rounds: lanes of a vector, which is the side of a square; half of them; its logarithm.
        vector, low, high: names of the vector type and of the two functions that alternate lanes.
        low_lanes, high_lanes, lane_type: which lanes these take, and the type of a lane's number.
    """

    name: str
    type: str
    bytes: int
    side: int
    half: int
    rounds: int
    vector: str
    low: str
    high: str
    low_lanes: str
    high_lanes: str
    lane_type: str

    @classmethod
    def of(cls, kind: DType) -> Turn:
        """The function for elements of a type."""
        side, half = 16 // kind.bytes, 8 // kind.bytes
        low, high = (
            ", ".join(f"{i}, {i + side}" for i in range(start, start + half)) for start in (0, half)
        )
        tail = kind.name
        return cls(
            name=f"turn_{tail}",
            type=kind.c,
            bytes=kind.bytes,
            side=side,
            half=half,
            rounds=side.bit_length() - 1,
            vector=f"Lanes{tail.capitalize()}",
            low=f"low_{tail}",
            high=f"high_{tail}",
            low_lanes=low,
            high_lanes=high,
            lane_type=f"int{8 * kind.bytes}_t",
        )


@dataclass(frozen=True)
class Crossed:
    """An input that is turned.

    Attributes:
        name, type: of the array and of its elements.
        lines: in C the call that fills its tile; in CUDA what locates a line along the index that it lies along.
        reach: where the array starts and stops.
        fetched, settled: arguments of the calls that ask for a pack of a line, and that give it.
    """

    name: str
    type: str
    lines: tuple[str, ...]
    reach: str = ""
    fetched: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()


# Bytes of a pack, and CUDA's type that moves as many in one access.
WORDS = (
    (1, "unsigned char"),
    (2, "unsigned short"),
    (4, "unsigned int"),
    (8, "uint2"),
    (16, "uint4"),
)
SIDES = (
    Side("vector", "false", "kVector"),
    Side("vector_scalar", "false", "1"),
    Side("askew_vector", "true", "kVector", "kAskewThreads, kResident"),
    Side("askew_scalar", "true", "1", "kAskewThreads, kResident"),
)


def context(plan: TileSharedPlan | TileLoopsPlan) -> dict[str, Any]:
    """The names of the template."""
    cuda = plan.target.backend == "cuda"
    problem, program = plan.problem, plan.program
    access = "args." if cuda else "args->"
    source = "" if cuda else access
    writer = Writer(problem, plan.target.backend, access)
    crossed = crossed_operands(problem)
    batch = tuple(i for i in problem.family.order if i not in (plan.read, plan.written))
    outer = {i: f"{i}_index" for i in (*batch, plan.read)}

    def base(tensor: Tensor) -> str:
        return f"{tensor.name}_line" if set(tensor.dims) & set(outer) else source + tensor.name

    column = "column" if cuda else "first_written + column"
    made = Sweeps(
        writer,
        program,
        held={x: f"{x}_turned.at[element]" if cuda else f"{x}_tile[line][column]" for x in crossed},
        kept="",
        base=base,
        column=column,
        within="element" if cuda else "",
        read=lambda x: f"{x}_pack.at[element]" if cuda else f"{base(writer.tensor(x))}[{column}]",
        written=lambda x: f"{x}_out.at[element]" if cuda else f"{x}_out[column]",
        source=source,
    )
    sweep = made.text(0)
    line_lines = _line_lines(plan, writer, base, outer, crossed, source)
    wanted = {d for t in problem.tensors() for d in t.dims} | set(program.positions.values())
    batch_lines = index_lines(writer, batch, "batch", wanted)
    host = Writer(problem, plan.target.backend, "args.")
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
        "batch_indices": batch,
        "batch_lines": batch_lines,
        "batches": host.extent(batch),
        "batches_times": "\n       ".join(broken(f"{host.extent(batch)} * ", 38)) if batch else "",
        "line_lines": line_lines,
        "sweep": sweep,
    }
    if cuda:
        arrays = [writer.tensor(x) for x in crossed]
        names["crossed"] = [_crossed(plan, writer, t, source) for t in arrays]
        names["stops"] = wrapped(stop_line(writer, t) for t in arrays)
        names["array_parameters"] = [array_parameter(writer, t) for t in problem.tensors()]
        names["array_arguments"] = ", ".join(f"args.{t.name}" for t in problem.tensors())
        names["read_aligned"] = _aligned(plan, plan.read, crossed)
        others = [t.name for t in problem.tensors() if t.name not in crossed]
        names["write_aligned"] = _aligned(plan, plan.written, others)
        names["sides"] = SIDES
        sizes = {t.dtype.bytes for t in problem.tensors() if t.is_written}
        names["words"] = [
            w for w in WORDS if w[0] in {n * s for n in (1, plan.vector) for s in sizes}
        ]
    else:
        stores = [writer.tensor(s.name) for s in program.passes[0].stores]
        arrays = [writer.tensor(x) for x in crossed]
        names["crossed"] = [_turned(plan, writer, t, source) for t in arrays]
        names["result"] = _result(writer, stores[0])
        names["turned"] = [Turn.of(k) for k in dict.fromkeys(t.dtype for t in arrays)]
        names["sweep"] = {
            "lines": sweep.lines,
            "stores": [
                PackText(t.name, writer.storage(t.dtype), f"{base(t)} + first_written")
                for t in stores
            ],
        }
    helpers = writer.helpers()
    lines = [*helpers, *names["members"], *line_lines, *sweep.lines]
    includes = set(includes_for(lines, plan.target.backend)) | ({"<string.h>"} if cuda else set())
    if not cuda:
        includes |= {"<errno.h>", "<stddef.h>", "<stdint.h>", "<string.h>"}
    return names | {"helpers": helpers, "includes": sorted(includes)}


def _crossed(plan, writer: Writer, tensor: Tensor, source: str) -> Crossed:
    """An input that the CUDA template turns."""
    at = {i: f"{i}_index" for i in tensor.dims if i != plan.read}
    at[plan.read] = "first_read"
    address = moved(source + tensor.name, writer.offset(tensor, at))
    kind = writer.storage(tensor.dtype)
    lines = wrapped([f"const {kind} *{tensor.name}_line = {address};"])
    name, reach = tensor.name, (tensor.name, f"{tensor.name}_stop")
    fetched = ("exists", f"{name}_at(line, first)", *reach)
    settled = (
        f"{name}_packs[step][each]",
        f"{name}_at(first_written + line + each, first)",
        *reach,
    )
    return Crossed(name, kind, lines, ", ".join(reach), fetched, settled)


@dataclass(frozen=True)
class Result:
    """The output that tiles are cut for: name, element type, and its strides in one number's bits."""

    name: str
    type: str
    strides: str


def _result(writer: Writer, tensor: Tensor) -> Result:
    kind = writer.storage(tensor.dtype)
    strides = "\n     ".join(broken(" | ".join(f"args.{s}" for s in tensor.strides) or "0", 46))
    return Result(tensor.name, kind, strides)


def _turned(plan: TileLoopsPlan, writer: Writer, tensor: Tensor, source: str) -> Crossed:
    """How an input's tile is filled, from its first line along the index that it lies along."""
    at = {i: f"{i}_index" for i in tensor.dims}
    at |= {plan.read: "first_read", plan.written: "first_written"}
    address = moved(source + tensor.name, writer.offset(tensor, at))
    stride = f"{source}{tensor.strides[tensor.dims.index(plan.written)]}"
    kind = writer.storage(tensor.dtype)
    lines = [
        f"const {kind} *{tensor.name}_lines = {address};",
        f"turn_{tensor.dtype.name}({tensor.name}_lines, {stride}, {tensor.name}_tile, reads, writes);",
    ]
    return Crossed(tensor.name, kind, wrapped(lines))


def _line_lines(plan, writer, base, outer, crossed, source) -> list[str]:
    """Where the lines of the other arrays start, and what does not vary along a line."""
    program = plan.program
    lines = []
    for tensor in writer.problem.tensors():
        if (
            tensor.name in crossed
            or plan.written not in tensor.dims
            or base(tensor)[-5:] != "_line"
        ):
            continue
        constant = "" if tensor.is_written else "const "
        start = moved(source + tensor.name, writer.offset(tensor, outer))
        lines.append(f"{constant}{writer.storage(tensor.dtype)} *{base(tensor)} = {start};")
    for load in program.loads:
        tensor = writer.tensor(load.operand.name)
        text = f"{source}{tensor.name}[{writer.offset(tensor, outer)}]"
        lines.append(
            writer.local(load.dtype, load.name, writer.element(load.node, tensor.name, text))
        )
    lines += [writer.local(v.dtype, v.name, writer.expression(v.node)) for v in program.before]
    return list(wrapped(lines))


def _aligned(plan: TileSharedPlan, index: str, arrays: Collection[str]) -> list[str]:
    """C conditions under which packs along an index may be accessed whole in the arrays that lie along it."""
    conditions = [f"{index} % {plan.vector} == 0"]
    for tensor in plan.problem.tensors():
        if tensor.name not in arrays or tensor.dims[-1:] != (index,):
            continue
        size = min(16, plan.vector * tensor.dtype.bytes)
        conditions.append(f"reinterpret_cast<uintptr_t>({tensor.name}) % {size} == 0")
        conditions += [f"{s} % {plan.vector} == 0" for s in tensor.strides]
    return conditions


def _prose(plan: TileSharedPlan | TileLoopsPlan, cuda: bool) -> str:
    if cuda:
        return (
            f"Inputs that lie along {plan.read} become outputs that lie along {plan.written}. A block reads a tile "
            f"of {plan.tile} x {plan.tile} elements line by line into shared memory, {plan.vector} an access, and writes it "
            "line by line the other way. Packs that lie askew are shifted together from those that cover them; where "
            "lines that are written do not all start on whole packs, accesses are of one element. "
            f"Shared memory: {plan.schedule.shared_bytes(plan.problem)} bytes."
        )
    return (
        f"Inputs that lie along {plan.read} become outputs that lie along {plan.written}. Threads share tiles of up "
        f"to {plan.tile_read} x {plan.tile_written} elements: a tile is read line by line, turned in the first-level "
        "cache in squares of vectors, and written line by line the other way, past the caches when the results "
        "are large."
    )
