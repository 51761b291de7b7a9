"""Text of the elementwise templates of both backends."""

from __future__ import annotations

from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.row_text import aligned_conditions, array_parameter, row_base, row_statements
from tilegen.emit.rowwise_c import loop_stores
from tilegen.emit.sweeps import Sweeps, Writer, row_indices, row_texts
from tilegen.plans.elementwise import ElementLoopsPlan, ElementPacksPlan


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
        held={name: f"{name}_pack[step].at[element]" for name in held},
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
        names |= {
            "held": list(dict.fromkeys(made.pack_text(writer.tensor(name)) for name in held)),
            "array_parameters": [array_parameter(writer, t) for t in problem.tensors()],
            "array_arguments": ", ".join(f"args.{t.name}" for t in problem.tensors()),
            "aligned": aligned_conditions(plan, folded),
        }
    else:
        sweep_stores = loop_stores(writer, program.passes[0], lambda t: row_base(writer, t))
        names["sweep"] = {"lines": sweep.lines, "stores": sweep_stores}
    helpers = writer.helpers()
    lines = [*helpers, *names["members"], *names["row_lines"], *sweep.lines]
    includes = set(includes_for(lines, plan.target.backend))
    if not cuda:
        includes |= {"<errno.h>", "<stddef.h>", "<stdint.h>", "<string.h>"}
    return names | {"helpers": helpers, "includes": sorted(includes)}


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
            f"accesses, of {plan.vector} elements where strides and addresses permit, else of one.{folded}"
        )
    return (
        f"Every element is read once and written once. Threads share chunks of {plan.chunk} columns; each is "
        f"one vector loop. Results go past the caches when there are more of them than caches hold.{folded}"
    )
