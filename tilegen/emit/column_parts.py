"""Text of the two kernels that reduce columns in parts: each locates, loads and computes only what it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.emit.column_text import COLUMN, NEIGHBOUR, ArrayText, Columns, ColumnSweepText
from tilegen.emit.row_text import alike_conditions, stop_line
from tilegen.emit.sweeps import Writer, wrapped
from tilegen.plans.columns import RESULT_BYTES
from tilegen.problems.lowering import COUNT
from tilegen.problems.passes import Pass


@dataclass(frozen=True)
class FetchText:
    """A pack that a step reads: its name, element type, the row that it is of, and the arguments of what reads it."""

    name: str
    type: str
    base: str
    address: str
    stride: str

    @property
    def array(self) -> str:
        """The array's name."""
        return self.name.removesuffix("_pack")


@dataclass(frozen=True)
class PartsKernel:
    """A kernel that reduces parts: its name, how its rows lie, for which arrays it is, and whether its registers are bound."""

    name: str
    rows: str
    what: str
    bound: int


KERNELS = (
    PartsKernel("vector", "kWhole", "For arrays whose rows all start on whole packs.", 1),
    PartsKernel("alike", "kAlike", "For arrays whose rows lie alike at every step of a thread.", 0),
    PartsKernel("spread", "kSpread", "For any other arrays.", 0),
)


@dataclass(frozen=True)
class FinishKernel:
    """A kernel that combines parts: its name, the columns of a block, and when it is used."""

    name: str
    together: str
    what: str


FINISHES = (
    FinishKernel("finish", "kFew", "For columns of many parts, which rows of threads share."),
    FinishKernel(
        "finish_alone", "kThreads", "For columns of few parts, all of which a thread takes."
    ),
)


def context(made: Columns, names: dict[str, Any]) -> dict[str, Any]:
    """What the template of two kernels adds: each locates, loads and computes only what it uses."""
    sweep = names["sweeps"][0]
    steps = [*sweep.step_lines, *sweep.lines]
    ends = [line for a in sweep.after for line in a.lines]
    ends += [f"{p.address} {p.access}" for p in sweep.column_stores]
    arrays = [*names["loaded"], *names["before"]]
    parts, finish = _needed(arrays, steps), _single(_needed(arrays, ends))
    in_parts = [*steps, *(line for a in parts for line in a.lines)]
    in_finish = [*ends, *(line for a in finish for line in a.lines)]
    size = made.problem
    form, alike = _alike(made)
    fetch_lines, fetched = _fetches(made, made.program.passes[0])
    uses = _step_uses(made, made.program.passes[0], sweep.lines)
    fresh = [line for line in uses if line not in fetch_lines]
    outer = Writer(size, "cuda").extent(made.outer)
    return {
        "sweep": replace(sweep, step_lines=wrapped(uses)),
        "singly": replace(_singly(sweep), step_lines=wrapped(fresh)),
        "stops": _stops(made) if form else [],
        "fetch_lines": wrapped(fetch_lines),
        "fetched": fetched,
        "before_lines_all": wrapped(_needed_lines(fetch_lines, [p.base for p in fetched])),
        "before_lines": wrapped(_needed_lines(fetch_lines, [fetched[0].base] if fetched else [])),
        "alike_form": form,
        "alike_less": " - (kRows == Rows::kAlike ? kVector : 0)" if form else "",
        "alike": alike,
        "spread_form": int(not form or bool(alike)),
        "kernels": [
            k
            for k in KERNELS
            if k.name == "vector" or (form if k.name == "alike" else not form or alike)
        ],
        "finishes": FINISHES,
        "loaded": parts,
        "finish_loaded": finish,
        "line_lines": _needed_lines(names["line_lines"], in_parts),
        "finish_line_lines": (lines := _needed_lines(names["line_lines"], in_finish)),
        "counted": any(f" {COUNT} = " in line for line in lines),
        "all_columns": f"{made.writer.extent(made.outer)} * columns" if made.outer else "columns",
        "host_lines": outer,
        "host_columns": f"{outer} * {made.last}" if made.outer else made.last,
        "part_places": [
            f"space + parts * lines * columns * {RESULT_BYTES * n}" if n else "space"
            for n in range(len(sweep.reductions))
        ],
        "host_last": made.last,
        "host_along": Writer(size, "cuda").extent(size.along),
    }


def _singly(sweep: ColumnSweepText) -> ColumnSweepText:
    """A pass whose packs are read element by element."""
    loads = [
        replace(p, access="read_singly", address=f"{x}_step + column, {x}, {x}_stop")
        for p in sweep.loads
        for x in [p.name.removesuffix("_pack")]
    ]
    return replace(sweep, step_lines=(), loads=tuple(loads))


def _step_uses(made: Columns, sweep: Pass, lines: Sequence[str]) -> list[str]:
    """Statements of a step that its elements need besides its packs."""
    single = [x for x in sweep.loads if made.last not in x.operand.indices]
    known = [*made.step_lines(sweep), *made.step_addresses(sweep)]
    return _needed_lines([*known, *(made.single_line(x) for x in single)], list(lines))


def _fetches(made: Columns, sweep: Pass) -> tuple[list[str], list[FetchText]]:
    """The packs that a step reads, and the statements that locate them."""
    names = [x.operand.name for x in sweep.loads if made.last in x.operand.indices]
    arrays = [made.writer.tensor(name) for name in dict.fromkeys(names)]
    packs = [
        FetchText(
            f"{t.name}_pack",
            made.writer.storage(t.dtype),
            f"{t.name}_step",
            f"{t.name}_step + column, columns - column",
            f"args.{dict(zip(t.dims, t.strides)).get(made.problem.along[-1], '')}",
        )
        for t in arrays
    ]
    lines = [*made.step_lines(sweep), *made.step_addresses(sweep)]
    return _needed_lines(lines, [p.address for p in packs]), packs


def _stops(made: Columns) -> list[str]:
    """Statements that locate the ends of the arrays that are read step by step."""
    loads = [x for p in made.program.passes for x in p.loads]
    names = dict.fromkeys(x.operand.name for x in loads if made.last in x.operand.indices)
    return list(wrapped(stop_line(made.writer, made.writer.tensor(x)) for x in names))


def _single(arrays: list[ArrayText]) -> list[ArrayText]:
    """The arrays of a thread that has one column."""
    return [
        replace(a, lines=tuple(line.replace(COLUMN, NEIGHBOUR) for line in a.lines)) for a in arrays
    ]


def _alike(made: Columns) -> tuple[int, list[str]]:
    """Whether there are rows that all lie alike at every step of a thread, and the conditions for it in C.

    A thread's steps lie whole numbers of rows of threads apart along one index.
    """
    loads = [x.operand.name for x in made.program.passes[0].loads]
    arrays = [made.writer.tensor(x) for x in dict.fromkeys(loads)]
    arrays = [t for t in arrays if made.last in t.dims]
    plan = made.plan
    down = plan.threads // plan.across
    same = len({t.dims for t in arrays}) == 1
    if not same or len(made.problem.along) > 1 or down % plan.vector:
        return 0, []
    return 1, alike_conditions(plan, arrays)


def _uses(name: str, texts: Iterable[str]) -> bool:
    return any(re.search(rf"\b{name}\b", text) for text in texts)


def _needed(arrays: list[ArrayText], texts: list[str]) -> list[ArrayText]:
    """Arrays that the texts use, and those that these are computed from, in order."""
    found: list[ArrayText] = []
    for array in reversed(arrays):
        later = [line for a in found for line in a.lines]
        if _uses(array.name, [*texts, *later]):
            found.insert(0, array)
    return found


def _needed_lines(lines: list[str], texts: list[str]) -> list[str]:
    """Declarations whose names the texts, or later declarations, use; a continued one is kept whole."""
    found: list[str] = []
    for line in reversed(lines):
        match = re.search(r"\*?(\w+) =", line)
        if match is None or _uses(match.group(1), [*texts, *found]):
            found.insert(0, line)
    return found
