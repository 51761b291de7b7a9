"""A formula alone: a memory-bound operator."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tilegen import formula as fl
from tilegen.errors import UsageError
from tilegen.fields import option
from tilegen.formula.diagnostics import fault
from tilegen.problems.base import Arrays, Expected, Problem, Scalar, Size, Sizes, Tensor
from tilegen.problems.families import FULL, ROWWISE, Family, classify
from tilegen.problems.lowering import lower
from tilegen.problems.named import NAMED, Named
from tilegen.problems.passes import Program, arrange
from tilegen.problems.reserved import check_names
from tilegen.problems.rewrites import in_rows
from tilegen.values import F32, F64, DType, dtype, nearest


def _types(text: str) -> str:
    items = [item for item in str(text).replace(" ", "").split(",") if item]
    for item in items:
        name, colon, kind = item.partition(":")
        if not colon or not name.isidentifier():
            raise UsageError(f"'{item}' is not NAME:DTYPE", "Example: w:f32,t:i64")
        dtype(kind)
    return ",".join(sorted(items))


def _names(text: str) -> str:
    return ",".join(name.strip() for name in str(text).split(",") if name.strip())


def _text(text: str) -> str:
    if text in NAMED:
        return text
    if text.isidentifier():
        raise UsageError(
            f"unknown operator '{text}'{nearest(text, NAMED)}",
            f"Named formulas: {', '.join(NAMED)}; or write one, such as 'y[m,n] = gelu(x[m,n])'.",
        )
    canonical = fl.parse(text).text
    return next(
        (name for name, row in NAMED.items() if fl.parse(row.text).text == canonical), canonical
    )


def _tensor(name: str, indices: tuple[str, ...], kind: DType, role: str) -> Tensor:
    strides = tuple(f"{name}_stride_{i}" for i in indices[:-1])
    return Tensor(name, role, kind, indices, strides, f"{name}[{','.join(indices)}] of the formula")


@dataclass(frozen=True)
class FormulaProblem(Problem):
    """What a formula computes, element by element or with reductions over some of its indices.

    Every operand and output is an array with its indices as dimensions, the last one contiguous, the others
    with a stride each. Floats are computed in float32, in float64 where an operand is.

    Raises:
        UsageError, FormulaError: at construction, for types or a formula that cannot be.
    """

    formula: str = option("", "A formula, or the name of one.", parse=_text)
    dtype: DType = option(F32, "Type of every array that `operands` does not name.", kind=DType)
    operands: str = option("", "Types of single arrays and scalars, as w:f32,t:i64.", parse=_types)
    out: str = option(
        "", "Outputs to store, as h,y; all that carry indices if empty.", parse=_names
    )
    name: str = option("", "First word of the kernel's name.", parse=str)

    operator: ClassVar[str] = "formula"

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("formula", _text(self.formula))
        put("dtype", dtype(self.dtype))
        put("operands", _types(self.operands))
        put("out", _names(self.out))
        carried = [s.name for s in fl.parse(self.text).statements if s.indices is not None]
        if set(self.out.split(",")) == set(carried):
            put("out", "")
        self._check_passes()  # binds and classifies, so that a wrong formula fails here

    def _check_passes(self) -> None:
        """A reduction over every index leaves nothing to a second pass, which would depend on it."""
        if self.family.name != FULL or len(self.program().passes) == 1:
            return
        several = [r for r in self.parsed.reductions if r.op in ("argmax", "argmin", "logsumexp")]
        nodes = several or list(self.parsed.reductions)[-1:]
        what = (
            f"{nodes[0].op} over every index" if several else "a reduction that depends on another"
        )
        raise fault(
            self.parsed.source,
            nodes[0].span,
            f"{what} takes several passes, and a reduction to one number has one",
            in_rows(self.parsed),
        )

    @property
    def row(self) -> Named | None:
        """The row of the table of named formulas, or None for a formula of the user's own."""
        return NAMED.get(self.formula)

    @property
    def text(self) -> str:
        """The formula itself, where it was given by name too."""
        return self.row.text if self.row else self.formula

    @functools.cached_property
    def parsed(self) -> fl.Formula:
        """The formula, with outputs that are not asked for turned into intermediates."""
        parsed = fl.parse(self.text)
        if not self.out:
            return parsed
        wanted = self.out.split(",")
        known = [s.name for s in parsed.statements if s.name]
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"--out: the formula assigns no '{name}'{nearest(name, known)}",
                    f"It assigns: {', '.join(known)}",
                )
        text = "; ".join(
            fl.statement_text(s if s.name in wanted else replace(s, indices=None))
            for s in parsed.statements
        )
        return fl.parse(text)

    @functools.cached_property
    def types(self) -> dict[str, DType]:
        """Element types that were given by name."""
        row = self.row.operands if self.row else ""
        given = ",".join(filter(None, (row, self.operands)))
        return {n: dtype(k) for n, k in (item.split(":") for item in given.split(",") if item)}

    @functools.cached_property
    def typed(self) -> fl.TypedFormula:
        """The formula bound to its types."""
        parsed, given = self.parsed, self.types
        names = [*parsed.operands, *parsed.scalars, *(n for n in parsed.outputs if n)]
        for name in given:
            if name not in names:
                raise UsageError(
                    f"--operands: the formula has no '{name}'{nearest(name, names)}",
                    f"It has: {', '.join(names)}",
                )
        assigned = [s.name for s in parsed.statements if s.name]
        check_names(parsed, (*names, *assigned, *parsed.index_names))
        operands = {n: given.get(n, self.dtype) for n in parsed.operands}
        wide = F64 if F64 in operands.values() else F32
        scalars = {n: given.get(n, wide) for n in parsed.scalars}
        bind = functools.partial(
            fl.bind, parsed, operands=operands, scalars=scalars, reductions=True, output="y"
        )
        computed = {s.name: s.store for s in bind().statements if s.store is not None}
        outputs = {
            n: given.get(n, self.dtype if kind.is_float and self.dtype.is_float else kind)
            for n, kind in computed.items()
        }
        return bind(outputs={n: operands.get(n, kind) for n, kind in outputs.items()})

    @functools.cached_property
    def family(self) -> Family:
        """What its indices make of it."""
        return classify(self.typed)

    @property
    def along(self) -> tuple[str, ...]:
        """The indices that a pass runs over: the reduced ones, or the last where nothing is reduced."""
        return self.family.reduced or self.family.order[-1:]

    @property
    def is_short(self) -> bool:
        """Whether every result is a float of at most 16 bits, computed in float32."""
        return self.typed.is_short

    @property
    def needs_elements(self) -> tuple[str, ...]:
        """Reduced indices of which there must be at least one: argmax over nothing has no answer."""
        finds = any(r.op in ("argmax", "argmin") for r in self.parsed.reductions)
        return self.family.reduced if finds else ()

    def program(self, keep: str = "costly") -> Program:
        """The formula as passes; `keep` as for `arrange`."""
        return arrange(lower(self.typed, self.along), keep)

    def title(self) -> str:
        return self.typed.text

    def head(self) -> tuple[str, frozenset[str]]:
        return self.formula, frozenset({"formula"})

    def tokens(self) -> list[str]:
        if self.name:
            word = self.name
        elif self.row:
            word = self.formula
        else:
            word = f"{self.family.name}_{fl.digest(self.parsed)[:6]}"
        extra = [item.replace(":", "") for item in self.operands.split(",") if item]
        if self.out and self.row:
            extra.append("out_" + self.out.replace(",", "_"))
        return [word, self.dtype.name, *extra]

    def sizes(self) -> tuple[Size, ...]:
        return tuple(Size(i, f"extent of the index {i}") for i in self.family.order)

    @functools.cached_property
    def _tensors(self) -> tuple[Tensor, ...]:
        typed, indices = self.typed, self.parsed.operands
        made = [
            _tensor(name, indices[name], kind, "input")
            for name, kind in typed.operands.items()
            if name not in typed.outputs
        ]
        for s in typed.statements:
            if s.store is not None:
                role = "inout" if s.name in typed.operands else "output"
                made.append(_tensor(s.name, s.indices, s.store, role))
        return tuple(made)

    def tensors(self) -> tuple[Tensor, ...]:
        return self._tensors

    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(
            Scalar(n, kind, f"{n} of the formula") for n, kind in self.typed.scalars.items()
        )

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        found = fl.evaluate_with_bound(self.typed, arrays=arrays, scalars=scalars, sizes=sizes)
        return {name: Expected(value, bound) for name, (value, bound) in found.items()}

    def flops(self, sizes: Sizes) -> int:
        """One for each operation of the formula at each point of the indices it varies with."""
        total = 0
        for s, free in zip(self.typed.statements, self.parsed.free_indices, strict=True):
            operations = sum(
                1 for n in fl.walk(s.value) if n.children() and not isinstance(n, fl.Cast)
            )
            reduced = {i for n in fl.walk(s.value) if isinstance(n, fl.Reduce) for i in n.indices}
            total += operations * int(
                np.prod([sizes[i] for i in {*free, *reduced}], dtype=np.int64)
            )
        return total

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        order = self.family.order
        edge = tile[-1]
        rows = [1, 2, 5, 7, 3]
        lasts = [1, 7, edge - 1, edge, edge + 1, 2 * edge + 3, 257]
        found = [dict.fromkeys(order, 1)]
        if not self.needs_elements:
            found.append(dict.fromkeys(order, 0))
            found += [
                {i: 3 for i in order} | {gone: 0} for gone in dict.fromkeys((order[0], order[-1]))
            ]
        for number, last in enumerate(lasts):
            sizes = {i: rows[(number + at) % len(rows)] for at, i in enumerate(order)}
            sizes[order[-1]] = max(1, last)
            found.append(sizes)
        if len(order) > 1:
            found.append({i: 2 for i in order} | {order[0]: 67, order[-1]: 33})
        if self.family.name == ROWWISE:
            # More threads share a row, then blocks do, then it is read again in every pass.
            long = ((3, 1031), (2, 4099), (1, 17001))
            found += [dict.fromkeys(order, 1) | {order[0]: m, order[-1]: n} for m, n in long]
        return found
