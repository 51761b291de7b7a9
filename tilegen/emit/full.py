"""Text of the templates of full reductions, both backends."""

from __future__ import annotations

from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.elementwise import gapless
from tilegen.emit.row_text import aligned_conditions, array_parameter
from tilegen.emit.reductions_c import accumulation, loop_pragma, settled, starts
from tilegen.emit.row_parts_c import combined_line
from tilegen.emit.rowwise_cuda import operation
from tilegen.emit.sweeps import Sweeps, Writer, index_lines, moved, partials_name, wrapped
from tilegen.plans.full import FullLoopsPlan, FullPartsPlan
from tilegen.problems.base import Tensor
from tilegen.problems.lowering import COUNT


def context(plan: FullPartsPlan | FullLoopsPlan) -> dict[str, Any]:
    """The names of the template."""
    cuda = plan.target.backend == "cuda"
    problem, program = plan.problem, plan.program
    access = "args." if cuda else "args->"
    source = "" if cuda else access
    writer = Writer(problem, plan.target.backend, access)
    order = problem.family.order
    outer = order[:-1]
    sweep = program.passes[0]

    def base(tensor: Tensor) -> str:
        # In C a local of its own, which the compiler knows not to change during a loop.
        own = not cuda or {*outer} & {*tensor.dims}
        return f"{tensor.name}_row" if own else tensor.name

    held = [x.operand.name for x in sweep.loads if order[-1] in x.operand.indices] if cuda else []
    made = Sweeps(
        writer,
        program,
        held={name: f"{name}_pack[step].at[element]" for name in held},
        kept="",
        base=base,
        column="column",
        within="element" if cuda else "",
        read=lambda name: f"{base(writer.tensor(name))}[column]",
        written=lambda name: name,
        source=access,
        along=order[-1:],
        accumulate=None if cuda else lambda r: accumulation(writer, r, r.name),
    )
    text = made.text(0)
    texts = {i: f"{i}_index" for i in outer}
    singles = []
    for load in (x for x in sweep.loads if order[-1] not in x.operand.indices):
        tensor = writer.tensor(load.operand.name)
        place = f"{source}{tensor.name}[{writer.offset(tensor, texts)}]"
        value = writer.element(load.node, tensor.name, place)
        singles.append(writer.local(load.dtype, load.name, value))
    row_lines = _row_lines(writer, program, outer, base, source) + list(wrapped(singles))
    finish = [writer.local(v.dtype, v.name, writer.expression(v.node)) for v in sweep.after]
    finish = list(wrapped([*_before(writer, program, access), *finish]))
    host = Writer(problem, plan.target.backend, "args.")
    inputs = [t for t in problem.tensors() if not t.is_written]
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
        "sweep": text,
        "outer": outer,
        "row_lines": row_lines,
        "finish_lines": finish,
        "rows_expression": host.extent(outer),
        "columns_expression": f"args.{order[-1]}",
        "gapless": gapless(plan),
        "folded": " * ".join(f"args.{i}" for i in plan.folded_names),
    }
    if cuda:
        ops = {(r.op, r.dtype): operation(writer, r.op, r.dtype) for r in program.reductions}
        kinds = dict.fromkeys(r.dtype for r in program.reductions)
        folded = {*plan.folded_names, plan.last} if plan.folded_names else set()
        names |= {
            "held": [made.pack_text(writer.tensor(name)) for name in dict.fromkeys(held)],
            "reduction_ops": list(ops.values()),
            "partials": [(partials_name(k), k.c) for k in kinds],
            "clusters": (),
            "size_names": [s.name for s in problem.sizes()],
            "input_parameters": [array_parameter(writer, t) for t in inputs],
            "input_arguments": ", ".join(f"args.{t.name}" for t in inputs),
            "aligned": aligned_conditions(plan, folded),
        }
    else:
        names |= {
            "pragma": loop_pragma(sweep.reductions),
            "starts": [r.start for r in text.reductions],
            "chunk_starts": starts(writer, sweep),
            "combine_lines": [
                *settled(sweep.reductions),
                *(combined_line(writer, r, "partial->", "") for r in sweep.reductions),
            ],
            "final_lines": [combined_line(writer, r, "", "parts[part].") for r in sweep.reductions],
        }
    helpers = writer.helpers()
    lines = [*helpers, *names["members"], *row_lines, *text.lines, *finish, *text.row_stores]
    lines += [r.start for r in text.reductions]
    lines += names.get("combine_lines", [])
    includes = set(includes_for(lines, plan.target.backend))
    includes |= {"<stddef.h>", "<stdint.h>"} if cuda else {"<errno.h>", "<stddef.h>", "<stdint.h>"}
    return names | {"helpers": helpers, "includes": sorted(includes)}


def _row_lines(writer: Writer, program, outer, base, source: str) -> list[str]:
    """Where a row lies, and what it has one of."""
    problem = writer.problem
    wanted = {d for t in problem.tensors() for d in t.dims} | set(program.positions.values())
    lines = index_lines(writer, outer, "row", wanted)
    texts = {i: f"{i}_index" for i in outer}
    for tensor in problem.tensors():
        if base(tensor).endswith("_row") and problem.family.order[-1] in tensor.dims:
            constant = "" if tensor.is_written else "const "
            start = moved(source + tensor.name, writer.offset(tensor, texts))
            lines.append(f"{constant}{writer.storage(tensor.dtype)} *{tensor.name}_row = {start};")
    return list(wrapped(lines))


def _before(writer: Writer, program, access: str) -> list[str]:
    """What the results need besides the reductions: the number of elements, values of scalars."""
    lines = []
    if program.counts:
        kind = writer.problem.typed.compute
        count = writer.dialect.cast(kind, f"({writer.extent(writer.problem.along)})")
        if writer.cuda:
            count = writer.dialect.cast(kind, writer.extent(writer.problem.along))
        lines.append(writer.local(kind, COUNT, count))
    return lines + [
        writer.local(v.dtype, v.name, writer.expression(v.node)) for v in program.before
    ]


def _prose(plan: FullPartsPlan | FullLoopsPlan, cuda: bool) -> str:
    if cuda:
        return (
            f"At most {plan.most_parts} blocks reduce every so many pieces of {plan.threads} x {plan.steps} accesses, of "
            f"{plan.vector} elements where strides and addresses permit, and leave a partial result each in the "
            "workspace; then one block combines these. The cut depends on the sizes alone: results are the same "
            "bits on every device."
        )
    return (
        f"The chunks of {plan.chunk} columns are cut into {plan.most_parts} parts, which threads share; each part is "
        "reduced by itself, and the partial results are combined in order: results are the same bits for any "
        "number of threads."
    )
