"""Text of rows that are cut into parts in C: a function a pass over a part, whose results threads combine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilegen.emit.exponents import negative_exponentials
from tilegen.emit.reductions_c import accumulation, loop_pragma, settled, starts
from tilegen.emit.row_text import chunk_text, row_base, row_statements
from tilegen.emit.sweeps import PackText, SweepText, Sweeps, Writer, combined, wrapped
from tilegen.emit.sweeps import start_value
from tilegen.formula.nodes import Name
from tilegen.problems.lowering import Value
from tilegen.problems.passes import Pass, Program

RESULTS = "results"


@dataclass(frozen=True)
class PartText:
    """One pass over a part of a row.

    Attributes:
        title: what it computes.
        name: of the function.
        parameters: of it.
        arguments: for these.
        head_lines: statements before the loop: where the row lies, results of passes before.
        starts, pragma, lines, stores, prefetches: as in `LoopText`.
        step: the columns that it takes at a time.
        tail_lines: statements that leave the part's results.
        combine_lines: statements that take the results of one part into those of the row.
    """

    title: str
    name: str
    parameters: tuple[str, ...]
    arguments: str
    head_lines: tuple[str, ...]
    starts: tuple[str, ...]
    pragma: str
    step: str
    lines: tuple[str, ...]
    stores: tuple[PackText, ...]
    tail_lines: tuple[str, ...]
    combine_lines: tuple[str, ...]
    prefetches: tuple[str, ...] = ()


@dataclass(frozen=True)
class LongRowText:
    """Everything about rows that are cut into parts.

    Attributes:
        members: of the struct of results, with their type.
        start_values: of these, over nothing.
        passes: the functions of the passes.
        finish_lines: statements that store what a row has one of; none where it has nothing.
    """

    members: tuple[str, ...]
    start_values: str
    passes: tuple[PartText, ...]
    finish_lines: tuple[str, ...]

    def all_lines(self) -> list[str]:
        """Every statement, for the headers that they need."""
        found = [*self.members, self.start_values, *self.finish_lines]
        for p in self.passes:
            found += [*p.head_lines, *p.starts, *p.lines, *p.tail_lines, *p.combine_lines]
        return found


def long_rows(writer: Writer, program: Program, source: str) -> LongRowText:
    """The text of rows of one reduced index that are cut into parts; nothing is kept between passes."""
    writer.printer.negative = negative_exponentials(program)
    made = Sweeps(
        writer,
        program,
        held={},
        kept="",
        base=lambda t: row_base(writer, t),
        column="column",
        within="",
        read=lambda x: f"{row_base(writer, writer.tensor(x))}[column]",
        written=lambda x: f"{x}_out[column - first]",
        source=source,
        accumulate=lambda r: accumulation(writer, r, r.name),
    )
    known = [f"const int64_t row_length = {writer.extent(writer.problem.along)};"]
    known += _statements(row_statements(writer, program, source))
    passes, stores = [], [made.row_store(s) for s in program.stores_before]
    for number, sweep in enumerate(program.passes):
        text = made.text(number)
        passes.append(_part(writer, number, sweep, text, known))
        known += [_known(writer, r) for r in sweep.reductions]
        known += list(_statements(text.after))
        stores += text.row_stores
    reductions = program.reductions
    finish = (*_needed(known, stores), *stores)
    if stores and not any(f"{RESULTS}->" in line for line in finish):
        finish = (f"(void){RESULTS};  // what is stored depends on none", *finish)
    return LongRowText(
        members=tuple(f"{writer.dialect.type(r.dtype)} {r.name};" for r in reductions),
        start_values=", ".join(writer.expression(start_value(r.op, r.dtype)) for r in reductions),
        passes=tuple(passes),
        finish_lines=finish if stores else (),
    )


def _part(
    writer: Writer, number: int, sweep: Pass, text: SweepText, known: Sequence[str]
) -> PartText:
    arrays = [writer.tensor(s.name) for s in sweep.stores]
    stores = tuple(chunk_text(writer, t, row_base(writer, t)) for t in arrays)
    head = _needed(known, [*text.lines, *(s.address for s in stores)])
    tail = [f"part->{r.name} = {r.name};" for r in sweep.reductions]
    whole = "\n".join([*head, *text.lines, *(s.address for s in stores)])
    words = {
        "const Arguments *args": "args" if "args->" in whole else "",
        "int64_t row": "row" if re.search(r"\brow\b", whole) else "",
        "int64_t begin": "begin",
        "int64_t stop": "stop",
        f"const Results *{RESULTS}": (
            f"&{RESULTS}" if any(f"{RESULTS}->" in x for x in head) else ""
        ),
        "Results *part": "&parts[part]" if sweep.reductions else "",
        "Stream *streams": "streams" if stores else "",
    }
    used = {parameter: argument for parameter, argument in words.items() if argument}
    return PartText(
        title=text.title,
        name=f"pass_{number + 1}",
        parameters=tuple(used),
        arguments=", ".join(used.values()),
        head_lines=(*head, *width_lines([step_of(sweep)])),
        starts=starts(writer, sweep),
        pragma=loop_pragma(sweep.reductions),
        step=step_of(sweep),
        lines=text.lines,
        stores=stores,
        tail_lines=(*settled(sweep.reductions), *tail),
        combine_lines=wrapped(
            combined_line(writer, r, f"{RESULTS}.", "parts[part].") for r in sweep.reductions
        ),
    )


def step_of(sweep: Pass, ahead: bool = False) -> str:
    """The columns that a pass takes at a time: those of a reduction depend on nothing but the row."""
    if sweep.stores:
        return "kChunk" if sweep.reductions else "width"
    return "kAhead" if ahead else "kStretch"


def width_lines(steps: Iterable[str]) -> tuple[str, ...]:
    """The declaration of `width`, where a pass takes so many columns at a time."""
    return ("const int64_t width = streams ? kChunk : kCached;",) if "width" in steps else ()


def combined_line(writer: Writer, r: Value, total: str, part: str) -> str:
    """The statement that takes one partial result into another."""
    left, right = f"{total}{r.name}", f"{part}{r.name}"
    if r.op in ("sum", "prod"):
        return f"{left} {'+' if r.op == 'sum' else '*'}= {right};"
    node = combined(r.op, r.dtype, left, Name(right, dtype=r.dtype))
    return f"{left} = {writer.expression(node)};"


def _known(writer: Writer, r: Value) -> str:
    return f"const {writer.dialect.type(r.dtype)} {r.name} = {RESULTS}->{r.name};"


def _statements(lines: Iterable[str]) -> Iterable[str]:
    """Lines with those that continue a statement put to its first."""
    whole: list[str] = []
    for line in lines:
        whole.append(line)
        if line.endswith(";"):
            yield "\n".join(whole)
            whole = []


def _needed(known: Sequence[str], lines: Iterable[str]) -> tuple[str, ...]:
    """Those of the known declarations that the lines use, and what these use, in order."""
    text, found = "\n".join(lines), []
    for statement in reversed(known):
        name = re.split(r" =\s", statement)[0].split()[-1].lstrip("*")
        if re.search(rf"\b{name}\b", text):
            found.insert(0, statement)
            text += "\n" + statement
    return tuple(line for statement in found for line in statement.split("\n"))
