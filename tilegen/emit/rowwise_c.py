"""Text of `templates/c_openmp/rowwise.c.j2`: a thread a row, vector loops along it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilegen.emit import tensors
from tilegen.emit.c_expr import includes_for
from tilegen.emit.exponents import negative_exponentials
from tilegen.emit.reductions_c import accumulation, loop_pragma, settled, starts
from tilegen.emit.row_parts_c import long_rows, step_of, width_lines
from tilegen.emit.row_text import chunk_text, in_chunks, row_base, row_statements, staging
from tilegen.emit.sweeps import PackText, Sweeps, Writer, moved, row_indices, wrapped
from tilegen.plans.rowwise_c import RowLoopsPlan
from tilegen.problems.base import Tensor
from tilegen.problems.passes import Pass, Program

ARGS = "args->"


@dataclass(frozen=True)
class LoopText:
    """One pass in C.

    Attributes:
        title, lines, stores, after, row_stores: as in `SweepText`; `after` starts with what settles the reductions.
        segment_lines: statements at the start of each stretch of the last of several reduced indices.
        prefetches: requests for the row that comes next.
        step: the columns that it takes at a time.
        pragma: what stands before the loop over elements.
        starts: locals of the reductions.
    """

    title: str
    starts: tuple[str, ...]
    segment_lines: tuple[str, ...]
    prefetches: tuple[str, ...]
    step: str
    pragma: str
    lines: tuple[str, ...]
    stores: tuple[PackText, ...]
    after: tuple[str, ...]
    row_stores: tuple[str, ...]


@dataclass(frozen=True)
class FunctionText:
    """The function of a row: its statements and passes."""

    row_lines: tuple[str, ...]
    row_length: str
    kept_lines: tuple[str, ...]
    stores_before: tuple[str, ...]
    sweeps: tuple[LoopText, ...]

    def all_lines(self) -> list[str]:
        """Every statement, for the headers that they need."""
        swept = [
            x for s in self.sweeps for x in (*s.segment_lines, *s.lines, *s.after, *s.row_stores)
        ]
        starts = [x for s in self.sweeps for x in s.starts]
        return [*self.row_lines, *self.kept_lines, *self.stores_before, *swept, *starts]


def context(plan: RowLoopsPlan) -> dict[str, Any]:
    """The names of the template."""
    problem = plan.problem
    writer = Writer(problem, "c_openmp", ARGS)
    keeps = any(p.kept for p in plan.short_program.passes)
    row = _function(writer, plan.short_program, keeps)
    parts = long_rows(writer, plan.long_program, ARGS) if _cuts_rows(plan) else None
    written = [writer.tensor(name) for name in in_chunks(problem)]
    streams = "streams" if written else ""
    steps = [*row.sweeps, *(parts.passes if parts else ())]
    asked = "\n".join(line for s in row.sweeps for line in s.prefetches)
    names = {
        "computes": problem.title(),
        "prose": _prose(plan, keeps),
        "members": [
            f"int64_t {', '.join(s.name for s in problem.sizes())};",
            *tensors.members(problem.tensors(), problem.scalars(), False),
        ],
        "assignments": [
            *(s.name for s in problem.sizes()),
            *(
                line.split(" = ")[1]
                for line in tensors.assignments(problem.tensors(), problem.scalars(), False)
            ),
        ],
        "function": row,
        "long_row": parts or "",
        "any_streams": streams,
        "any_prefetches": "prefetches" if "prefetch(" in asked else "",
        "any_prefetched_results": "results" if "prefetch_result(" in asked else "",
        "any_ahead": "ahead" if any(s.step == "kAhead" for s in steps) else "",
        "any_stretches": "stretches" if any(s.step == "kStretch" for s in steps) else "",
        "keeps": "keeps" if keeps else "",
        **staging(writer, plan.short_program),
        "last_extent": f"{ARGS}{problem.along[-1]}",
        "segments": _segments(writer),
        "rows_expression": Writer(problem, "c_openmp").extent(row_indices(problem)),
        "row_length_expression": Writer(problem, "c_openmp").extent(problem.along),
        "output_count": len(written),
        "result_bytes": sum(t.dtype.bytes for t in written),
    }
    helpers = writer.helpers()
    lines = [
        *helpers,
        *names["members"],
        *row.all_lines(),
        *(parts.all_lines() if parts else ()),
    ]
    includes = {*includes_for(lines, "c_openmp"), "<errno.h>", "<stddef.h>", "<stdint.h>"}
    includes |= {"<string.h>"} if streams else set()
    return names | {"helpers": helpers, "includes": sorted(includes)}


def _cuts_rows(plan: RowLoopsPlan) -> bool:
    """Whether threads share rows: those that have one index and results that parts can add to."""
    return len(plan.problem.along) == 1 and bool(plan.long_program.reductions)


def _segments(writer: Writer) -> str:
    """The number of stretches of the last reduced index, empty where it is the only one."""
    along = writer.problem.along
    return writer.extent(along[:-1]) if len(along) > 1 else ""


def _function(writer: Writer, program: Program, keep: bool) -> FunctionText:
    problem = writer.problem
    writer.printer.negative = negative_exponentials(program)
    segmented = len(problem.along) > 1

    def base(tensor):
        own = tensor.name in stretched
        return f"{tensor.name}_segment" if own else row_base(writer, tensor)

    inner = set(problem.along[:-1])
    stretched = {
        t.name for t in problem.tensors() if problem.along[-1] in t.dims and inner & set(t.dims)
    }
    made = Sweeps(
        writer,
        program,
        held={},
        kept="{name}_kept[column]" if keep else "",
        base=lambda t: base(t),
        column="column",
        within="",
        read=lambda x: f"{base(writer.tensor(x))}[column]",
        written=lambda x: f"{x}_out[column - first]",
        source=ARGS,
        accumulate=lambda r: accumulation(writer, r, r.name),
    )
    kept = {n for p in program.passes for n in p.kept} if keep else set()
    types = {v.name: writer.dialect.type(v.dtype) for p in program.passes for v in p.values}
    sweeps = []
    for number, sweep in enumerate(program.passes):
        text = made.text(number)
        sweeps.append(
            LoopText(
                title=text.title,
                starts=starts(writer, sweep),
                segment_lines=_segment_lines(writer, sweep, made) if segmented else (),
                prefetches=(ahead := _prefetches(writer, program, number)),
                step=step_of(sweep, bool(ahead)),
                pragma=loop_pragma(sweep.reductions),
                lines=text.lines,
                stores=loop_stores(writer, sweep, base),
                after=(*settled(sweep.reductions), *text.after),
                row_stores=text.row_stores,
            )
        )
    return FunctionText(
        row_lines=(
            *row_statements(writer, program, ARGS),
            *width_lines([s.step for s in sweeps]),
        ),
        row_length=writer.extent(problem.along) if program.counts else "",
        kept_lines=tuple(f"{types[n]} {n}_kept[kRowBuffer];" for n in types if n in kept),
        stores_before=tuple(made.row_store(s) for s in program.stores_before),
        sweeps=tuple(sweeps),
    )


def loop_stores(writer: Writer, sweep: Pass, base: Callable[[Tensor], str]) -> tuple[PackText, ...]:
    """Where the chunks of a pass's outputs go."""
    arrays = [writer.tensor(s.name) for s in sweep.stores]
    return tuple(chunk_text(writer, t, base(t)) for t in arrays)


def _segment_lines(writer: Writer, sweep: Pass, made: Sweeps) -> tuple[str, ...]:
    """Where a stretch of the last reduced index lies, and what it has one of."""
    outer = writer.problem.along[:-1]
    lines, divisor = [], []
    for i in reversed(outer):
        modulo = "" if i == outer[0] else f" % {ARGS}{i}"
        text = " / ".join(["segment", *divisor]) + modulo
        lines.insert(0, f"const int64_t {i}_index = {text};")
        divisor.append(f"{ARGS}{i}")
    at = {i: f"{i}_index" for i in outer}
    used = dict.fromkeys(
        [x.operand.name for x in sweep.loads if writer.problem.along[-1] in x.operand.indices]
        + [s.name for s in sweep.stores]
    )
    for name in used:
        tensor = writer.tensor(name)
        if set(outer) & set(tensor.dims):
            constant = "" if tensor.is_written else "const "
            start = moved(row_base(writer, tensor), writer.offset(tensor, at))
            lines.append(f"{constant}{writer.storage(tensor.dtype)} *{name}_segment = {start};")
    lines += [made.single_line(x) for x in sweep.loads if not _packed(writer, x)]
    return wrapped(lines)


def _packed(writer: Writer, load) -> bool:
    return writer.problem.along[-1] in load.operand.indices


def _prefetches(writer: Writer, program: Program, number: int) -> tuple[str, ...]:
    """Requests of a pass for a row of one reduced index.

    The first pass that computes much, of those after the first, asks for what the first reads of the next row, and
    where the pass after it stores, for the lines of these results. Where none computes much, the last pass asks for
    the next row: stores go on meanwhile, and lines of results would come no sooner for being asked for. Of three
    passes and more it is the one before, where results go to the caches: the last has their lines to wait for.
    """
    problem = writer.problem
    rows = row_indices(problem)
    if len(problem.along) > 1:
        return ()
    busy = [at for at, p in enumerate(program.passes) if at and p.is_costly]
    last = len(program.passes) - 1
    asking = {busy[0] if busy else last: "end - first"}
    if last > 1 and not busy and program.passes[last].stores:
        asking = {last - 1: "streams ? 0 : end - first", last: "streams ? end - first : 0"}
    lines = []
    for load in program.passes[0].loads if number in asking and number > 0 else ():
        tensor = writer.tensor(load.operand.name)
        if not rows or rows[-1] not in tensor.dims:
            continue
        stride = tensor.strides[tensor.dims.index(rows[-1])]
        kind = writer.storage(tensor.dtype)
        lines.append(
            f"prefetch({tensor.name}_row + first, {ARGS}{stride}, sizeof({kind}), {asking[number]});"
        )
    storing = [at for at, sweep in enumerate(program.passes) if sweep.stores]
    if storing and number == storing[0] - 1 and number in busy[:1]:
        for store in program.passes[number + 1].stores:
            tensor = writer.tensor(store.name)
            kind = writer.storage(tensor.dtype)
            address = f"{row_base(writer, tensor)} + first"
            lines.append(f"prefetch_result({address}, sizeof({kind}), streams ? 0 : end - first);")
    return tuple(lines)


def _prose(plan: RowLoopsPlan, keeps: bool) -> str:
    count = len(plan.short_program.passes)
    passes = "one pass" if count == 1 else f"{count} passes"
    kept = (
        f" Intermediate values of rows up to {plan.row_buffer} columns stay on the stack."
        if keeps
        else ""
    )
    longer = (
        f" Longer rows than {plan.row_buffer} columns are cut into {plan.row_parts} parts, which threads share where rows "
        "are fewer than they."
        if _cuts_rows(plan)
        else ""
    )
    written = any(s.stores for s in plan.short_program.passes)
    streams = (
        f" When there are more results than caches hold, they go past them, in chunks of {plan.chunk} columns."
        if written
        else ""
    )
    return (
        f"Threads share the rows; a row takes {passes}, the later of which find it in the cache.{kept}{longer}"
        f"{streams} Reductions along a row are vector loops whose order depends on nothing but the row: results "
        "are the same bits for any number of threads."
    )
