"""Names of the column templates of both backends: every column has its own sums, kept in arrays."""

from __future__ import annotations

from typing import Any

from tilegen.emit import column_parts, tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.column_text import Columns
from tilegen.emit.row_text import array_parameter
from tilegen.emit.rowwise_cuda import operation
from tilegen.emit.sweeps import Writer, partials_name
from tilegen.plans.columns import ColumnBlocksPlan, ColumnLoopsPlan, ColumnPartsPlan


def context(plan: ColumnBlocksPlan | ColumnPartsPlan | ColumnLoopsPlan) -> dict[str, Any]:
    """The names of the template."""
    made = Columns(plan)
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
        "length_expression": writer.extent(problem.along),
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
        names |= column_parts.context(made, names)
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
