"""Passes over rows as local functions of a pack of any width: rows in registers, in rings, and in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tilegen.emit.row_text import crosses, function_head, pack_access, row_base, row_statements
from tilegen.emit.sweeps import PackText, ReductionText, Sweeps, Writer, row_texts, wrapped
from tilegen.problems.base import Tensor
from tilegen.problems.passes import Program
from tilegen.schedules.rowwise import kept_vectors, row_inputs


@dataclass(frozen=True)
class SlotText:
    """An array's part of a slot: its name, element type, and the address of what a slot is filled with."""

    name: str
    type: str
    address: str


@dataclass(frozen=True)
class RowSweepText:
    """A pass over a row as a function of packs of any width.

    Attributes:
        name: of the function.
        title, reductions, pack_lines, loads, lines, stores, after, row_stores: as in `SweepText`.
        head: its first line; it is given packs held in registers, and values kept between passes.
        at_step, at_end: calls of it, for a pack and for an element at an end of the row.
        slot: what it reads of a slot of a ring.
    """

    name: str
    title: str
    reductions: tuple[ReductionText, ...]
    pack_lines: tuple[str, ...]
    loads: tuple[PackText, ...]
    lines: tuple[str, ...]
    stores: tuple[PackText, ...]
    after: tuple[str, ...]
    row_stores: tuple[str, ...]
    head: tuple[str, ...]
    at_step: tuple[str, ...]
    at_end: tuple[str, ...]
    slot: tuple[SlotText, ...]


class RowFunction:
    """The text of one of the row functions.

    Args:
        mode: where operands with elements of their own in every row are between passes: in `registers`, in the
            slots of a `ring`, or only in `memory`.
        stays: whether threads keep vectors that rows with ends cross.
        beside: whether blocks with rings may keep their part of the vectors that all rows read.

    Attributes:
        row_lines: statements that locate a row and what it has one of.
        held: packs of operands that stay in registers.
        held_lines: statements before their addresses.
        kept_lines: declarations of values that stay in registers.
        slot: arrays that a slot of a ring holds.
        kept: vectors that a block may keep beside it.
        crossing: vectors that rows with ends meet anywhere, by name.
        sweeps: the passes.
        stores_before: statements that write what depends on no element.
    """

    def __init__(
        self,
        writer: Writer,
        program: Program,
        mode: str,
        cuts: int,
        beside: int = 0,
        stays: int = 0,
    ) -> None:
        self.cuts = cuts
        self.mode = mode
        self.index = "int64_t" if mode == "memory" else "int"
        self.writer = writer
        self.program = program
        problem = writer.problem
        self.last = problem.along[-1]
        held = {"registers": self._held, "ring": self._inputs, "memory": list}[mode]()
        keeps = mode == "registers"
        made = Sweeps(
            writer,
            program,
            held={name: f"{name}_pack.at[element]" for name in held},
            kept="{name}_kept[element]" if keeps else "",
            base=self.base,
            column="column",
            within="element",
            read=lambda name: f"{name}_pack.at[element]",
            written=lambda name: f"{name}_out.at[element]",
        )
        vectors = kept_vectors(problem) if mode == "ring" and beside else []
        self.kept = [SlotText(t.name, writer.storage(t.dtype), t.name) for t in vectors]
        self.near = [t.name for t in vectors]
        self.crossing = {
            t.name: SlotText(t.name, writer.storage(t.dtype), self.base(t))
            for t in kept_vectors(problem)
            if stays and crosses(writer, t, cuts)
        }
        self.row_lines = row_statements(writer, program)
        packs = [made.pack_text(writer.tensor(name)) for name in held]
        self.held = [self._access(p, name, "kWidth") for p, name in zip(packs, held)]
        self.held_lines = made.split_lines() if held else []
        self.slot = [
            SlotText(name, p.type, f"{self.base(writer.tensor(name))} + first")
            for p, name in zip(packs, held)
        ]
        kept = {n for p in program.passes for n in p.kept} if keeps else set()
        types = {v.name: writer.dialect.type(v.dtype) for p in program.passes for v in p.values}
        self.kept_lines = [
            line
            for n in types
            if n in kept
            for line in (
                f"{types[n]} {n}_packs[kSteps][kWidth];",
                *((f"[[maybe_unused]] {types[n]} {n}_ends[kEnds][1];",) if self.cuts else ()),
            )
        ]
        self.sweeps = [self._sweep(made, n, held, kept) for n in range(len(program.passes))]
        self.stores_before = [made.row_store(s) for s in program.stores_before]

    def _access(self, pack: PackText, name: str, width: str) -> PackText:
        """A pack with what reads it."""
        if self.mode == "registers" and name in self.crossing:
            return replace(pack, access=f"{name}_at", address="width, column")
        if name in self.near:
            return replace(pack, access=f"load<{width}>", address=f"{name}_near + column")
        return pack_access(self.writer, self.writer.tensor(name), pack, width, self.cuts)

    def _inputs(self) -> list[str]:
        """Operands of which every row has elements of its own."""
        return [t.name for t in row_inputs(self.writer.problem)]

    def _sweep(
        self, made: Sweeps, number: int, held: Collection[str], kept: Collection[str]
    ) -> RowSweepText:
        sweep, text = self.program.passes[number], made.text(number)
        used = list(dict.fromkeys(x.operand.name for x in sweep.loads if x.operand.name in held))
        fresh = dict.fromkeys(
            x.operand.name
            for x in sweep.loads
            if self.last in x.operand.indices and x.operand.name not in held
        )
        recalled = [v.name for v in sweep.recalled if v.name in kept]
        left = [n for n in sweep.kept if n in kept]
        given = [f"const auto &{n}_pack" for n in used]
        given += [f"const auto &{n}_kept" for n in recalled] + [f"auto &{n}_kept" for n in left]
        name = f"pass_{number + 1}"
        parameters = ["auto width", f"{self.index} column", *given]
        packs, ends = self._given(used, [*recalled, *left])
        return RowSweepText(
            name=name,
            head=tuple(function_head(name, parameters)),
            at_step=wrapped([f"{name}({', '.join(['Width<kWidth>()', 'column', *packs])});"]),
            at_end=wrapped([f"{name}({', '.join(['Width<1>()', *ends])});"]),
            slot=tuple(x for x in self.slot if x.name in used),
            **vars(text)
            | {
                "loads": tuple(
                    self._access(p, name, "kElements") for p, name in zip(text.loads, fresh)
                )
            },
        )

    def _given(self, used: list[str], kept: list[str]) -> tuple[list[str], list[str]]:
        """What a pass is given of operands and kept values: of a pack, and of an end of the row with its column."""
        if self.mode == "ring":
            packs = [f"{n}_packs[step]" for n in used]
            bases = [self.base(self.writer.tensor(n)) for n in used]
            return packs, ["end_column", *(f"load<1>({base} + end_column)" for base in bases)]
        packs = [f"{n}_packs[step]" for n in (*used, *kept)]
        ends = [*(f"{n}_pack_ends[each]" for n in used), *(f"{n}_ends[each]" for n in kept)]
        return packs, ["end_column(each)", *ends]

    def all_lines(self) -> list[str]:
        """Every statement, for the headers that they need."""
        swept = [
            line for s in self.sweeps for line in (*s.pack_lines, *s.lines, *s.after, *s.row_stores)
        ]
        types = [f"{p.type} x;" for s in self.sweeps for p in (*s.loads, *s.stores)]
        return [*self.row_lines, *self.held_lines, *self.kept_lines, *swept, *types]

    def base(self, tensor: Tensor) -> str:
        """The start of an array's row."""
        return row_base(self.writer, tensor)

    def _held(self) -> list[str]:
        """Operands with elements of their own in every row, read ahead of the first pass."""
        rows = row_texts(self.writer.problem)
        found = {}
        for number, sweep in enumerate(self.program.passes):
            for load in sweep.loads:
                indices = load.operand.indices
                own = not rows or any(i in rows for i in indices)
                if own and self.last in indices and (number == 0 or load.kept):
                    found[load.operand.name] = None
        return list(found)
