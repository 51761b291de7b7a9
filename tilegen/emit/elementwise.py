"""Text of the elementwise templates of both backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.row_text import (
    aligned_conditions,
    alike_conditions,
    array_parameter,
    crosses,
    function_head,
    own_arrays,
    pack_access,
    row_base,
    row_statements,
    staging,
)
from tilegen.emit.rowwise_c import loop_stores
from tilegen.emit.sweeps import PackText, Sweeps, Writer, row_indices, wrapped
from tilegen.plans.elementwise import ElementLoopsPlan, ElementPacksPlan
from tilegen.problems.base import Tensor
from tilegen.problems.passes import Program


@dataclass(frozen=True)
class KernelText:
    """One kernel: its name, the template arguments of its function, and which arrays it is for."""

    name: str
    arguments: str
    what: str


def context(plan: ElementPacksPlan | ElementLoopsPlan) -> dict[str, Any]:
    """The names of the template."""
    cuda = plan.target.backend == "cuda"
    problem, program = plan.problem, plan.program
    access = "args." if cuda else "args->"
    source = "" if cuda else access
    writer = Writer(problem, plan.target.backend, access)
    held = [x.operand.name for x in program.passes[0].loads] if cuda else []
    made = Sweeps(
        writer,
        program,
        held={name: f"{name}_pack.at[element]" for name in held},
        kept="",
        base=lambda t: row_base(writer, t),
        column="column",
        within="element" if cuda else "",
        read=lambda name: f"{row_base(writer, writer.tensor(name))}[column]",
        written=lambda name: f"{name}_out.at[element]" if cuda else f"{name}_out[column - first]",
        source=source,
    )
    sweep = made.text(0)
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
        "row_lines": row_statements(writer, program, source),
        "sweep": sweep,
        "row_indices": row_indices(problem),
        "rows_expression": host.extent(row_indices(problem)),
        "row_length_expression": host.extent(problem.along),
        "gapless": gapless(plan),
        "folded": " * ".join(f"args.{i}" for i in plan.folded_names),
    }
    if cuda:
        folded = {*plan.folded_names, plan.last} if plan.folded_names else set()
        inputs = [writer.tensor(x) for x in dict.fromkeys(held)]
        across = [t.name for t in inputs if crosses(writer, t, plan.cuts)]
        names |= _forms(plan, writer) | {
            "crosses": len(across),
            "held": [_held(plan, writer, made, x) for x in dict.fromkeys(held) if x not in across],
            "crossed": [_held(plan, writer, made, x) for x in across],
            **_calls(made, writer, list(dict.fromkeys(held))),
            "array_parameters": [array_parameter(writer, t) for t in problem.tensors()],
            "array_arguments": ", ".join(f"args.{t.name}" for t in problem.tensors()),
            "aligned": aligned_conditions(plan, folded),
        }
    else:
        sweep_stores = loop_stores(writer, program.passes[0], lambda t: row_base(writer, t))
        names["sweep"] = {"lines": sweep.lines, "stores": sweep_stores}
        names["prefetches"] = _prefetches(writer, program)
        names |= staging(writer, program)
    helpers = writer.helpers()
    lines = [*helpers, *names["members"], *names["row_lines"], *sweep.lines]
    includes = set(includes_for(lines, plan.target.backend))
    if not cuda:
        includes |= {"<errno.h>", "<stddef.h>", "<stdint.h>", "<string.h>"}
    return names | {"helpers": helpers, "includes": sorted(includes)}


def _held(plan: ElementPacksPlan, writer: Writer, made: Sweeps, name: str) -> PackText:
    """The packs of an input that a thread reads before it computes."""
    tensor = writer.tensor(name)
    return pack_access(writer, tensor, made.pack_text(tensor), "kWidth", plan.cuts)


def _calls(made: Sweeps, writer: Writer, held: list[str]) -> dict[str, Any]:
    """The function of a pack, and what calls it: packs that are held, and elements at the ends of a row."""
    parameters = ["auto width", "int64_t column", *(f"const auto &{n}_pack" for n in held)]
    ends = [f"load<1>({made.pack_text(writer.tensor(n)).address})" for n in held]
    packs = [f"{n}_packs[step]" for n in held]
    return {
        "compute_head": function_head("compute", parameters),
        "compute_end": wrapped([f"compute({', '.join(['Width<1>()', 'column', *ends])});"]),
        "compute_step": wrapped([f"compute({', '.join(['Width<kWidth>()', 'column', *packs])});"]),
    }


def _forms(plan: ElementPacksPlan, writer: Writer) -> dict[str, Any]:
    """The kernels: for whole packs, for rows that are whole packs but for their ends, and for any others."""
    what = {
        "vector": "For arrays whose rows all start on whole packs.",
        "cut": "For arrays whose rows all start at one place of a pack.",
        "scalar": "For any other arrays.",
    }
    own = own_arrays(writer)
    alike = alike_conditions(plan, own) if plan.cuts else []
    askew, first = ("cut", "kVector, true") if plan.cuts else ("scalar", "1")
    kernels = [
        KernelText(f"{rung}_{name}", f"{arguments}, {rung}", what[name])
        for name, arguments in (("vector", "kVector" + ", false" * plan.cuts), (askew, first))
        for rung in plan.rungs
    ]
    if alike:
        kernels.append(KernelText("scalar", "1, false, kThreads", what["scalar"]))
    return {
        "kernels": kernels,
        "askew_form": askew,
        "alike": alike,
        "cut_row": row_base(writer, own[0]),
        "cut_parameter": "bool kCut, " * plan.cuts,
    }


def _prefetches(writer: Writer, program: Program) -> list[str]:
    """Requests of a chunk for what one further on reads, where a formula of one whole operand computes much.

    What computes little, or reads several operands, keeps enough loads under way by itself.
    """
    whole = _whole_operands(writer, program)
    if len(whole) != 1 or not program.passes[0].is_costly:
        return []
    tensor = whole[0]
    address = f"{row_base(writer, tensor)} + first"
    return [f"prefetch({address}, kAhead, sizeof({writer.storage(tensor.dtype)}), end - first);"]


def _whole_operands(writer: Writer, program: Program) -> list[Tensor]:
    """The operands that have every index, in order of first use."""
    names = dict.fromkeys(load.operand.name for load in program.passes[0].loads)
    order = writer.problem.family.order
    return [t for t in map(writer.tensor, names) if len(t.dims) == len(order)]


def gapless(plan: ElementPacksPlan | ElementLoopsPlan) -> list[str]:
    """C conditions under which the folded indices are one, tensor by tensor."""
    inner = [*plan.folded_names, plan.last]
    conditions = []
    for tensor in plan.problem.tensors():
        for index in plan.folded_names:
            if index in tensor.dims:
                stride = tensor.strides[tensor.dims.index(index)]
                after = inner[inner.index(index) + 1 :]
                conditions.append(f"{stride} == {' * '.join(after)}")
    return conditions


def _prose(plan: ElementPacksPlan | ElementLoopsPlan, cuda: bool) -> str:
    names = ", ".join((*plan.folded_names, plan.last))
    folded = (
        f" Where arrays have no gaps, {names} are folded into one index."
        if plan.folded_names
        else ""
    )
    if cuda:
        return (
            f"Every element is read once and written once. Blocks take pieces of {plan.threads} x {plan.steps} "
            f"accesses, or several short rows; of {plan.vector} elements where the rows of all arrays start at one place "
            f"of a pack, but for the elements at their ends, else of one.{folded}"
        )
    return (
        f"Every element is read once and written once. Threads share chunks of {plan.cached} columns; each is "
        "one vector loop. When there are more results than caches hold, they go past them, in chunks of "
        f"{plan.chunk} columns.{folded}"
    )
