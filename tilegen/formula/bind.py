"""Binding: a formula, and what its names are in a context, to a typed formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilegen.errors import FormulaError
from tilegen.formula.diagnostics import fault, index_span, listing, nearest
from tilegen.formula.parsed import Formula, free_indices
from tilegen.formula.nodes import Assign, Cast, Name, Node, Operand, Reduce, transform, walk
from tilegen.formula.text import node_text
from tilegen.formula.typed import Special, TypedFormula
from tilegen.formula.typing import Typer
from tilegen.values import F32, F64, I64, DType, dtype


def bind(
    formula: Formula,
    *,
    indices: Sequence[str] = (),
    specials: Mapping[str, Special | DType | str] | None = None,
    operands: Mapping[str, DType | str] | DType | str = F32,
    scalars: Mapping[str, DType | str] | DType | str | None = None,
    outputs: Mapping[str, DType | str] | DType | str | None = None,
    output: str = "out",
    output_indices: Sequence[str] | None = None,
    reductions: bool = False,
    index_dtype: DType | str = I64,
) -> TypedFormula:
    """Give every name of `formula` its meaning and every node its type.

    Args:
        indices: index names of the context, outer first, such as ("m", "n") for a GEMM epilogue. Empty:
            the formula's own indices, in order of first mention, are allowed.
        specials: names the context computes, such as {"acc": F32}; a Special says which indices it varies
            by, a type alone is at every index of the context.
        operands: storage type of each tensor operand by name, or one type for all. With a mapping,
            an operand that is not in it is unknown.
        scalars: types of the run-time scalars, likewise; None is the compute type for any name.
        outputs: storage type of each output, likewise; None keeps the type it is computed in.
        output, output_indices: name and indices of a bare expression's output; the context's indices
            when left out.
        reductions: whether the context allows reductions.
        index_dtype: the type of an index used as a value, i32 or i64.

    Returns:
        The typed formula: float arithmetic in f32, or in f64 when an operand, a value or a cast is f64.

    Raises:
        FormulaError: an unknown name, a wrong index or rank, a type that does not fit, an intermediate
            that nothing reads, a reduction where there is none; with a caret under the column.
    """
    at = tuple(indices) or formula.index_names
    if formula.statements[-1].name is None:
        formula = formula.with_output(output, at if output_indices is None else output_indices)
    binder = _Binder(
        formula=formula,
        indices=at,
        specials={n: _special(s, at) for n, s in (specials or {}).items()},
        operands=_types(operands),
        scalars=_types(scalars),
        outputs=_types(outputs),
        reductions=reductions,
        index_dtype=dtype(index_dtype),
    )
    return binder.run()


def _special(given: Special | DType | str, indices: tuple[str, ...]) -> Special:
    return given if isinstance(given, Special) else Special(dtype(given), indices)


def _types(
    given: Mapping[str, DType | str] | DType | str | None,
) -> dict[str, DType] | DType | None:
    if given is None or isinstance(given, DType):
        return given
    if isinstance(given, str):
        return dtype(given)
    return {name: dtype(kind) for name, kind in given.items()}


def _elementwise(op: str, a: Node, indices: tuple[str, ...]) -> str:
    """How to write min and max of an index, which as the last argument makes a reduction."""
    if op not in ("min", "max"):
        return ""
    return f" For the {op} of two values put the index first: {op}({indices[0]}, {node_text(a)})."


class _Binder:
    def __init__(
        self, formula, indices, specials, operands, scalars, outputs, reductions, index_dtype
    ):
        self.formula: Formula = formula
        self.indices: tuple[str, ...] = indices
        self.specials: dict[str, Value] = specials
        self.operands = operands
        self.scalars = scalars
        self.outputs = outputs
        self.reductions: bool = reductions
        self.index_dtype: DType = index_dtype
        self.assigned: dict[str, DType] = {}
        self.free: dict[str, frozenset[str]] = {
            n: frozenset(v.indices) for n, v in specials.items()
        }
        self.found_scalars: dict[str, DType] = {}

    def fault(self, node: Node | Assign, problem: str, allowed: str = "") -> FormulaError:
        return fault(self.formula.source, node.span, problem, allowed)

    def run(self) -> TypedFormula:
        self._check_names()
        self._check_uses()
        self.compute = self._compute_type()
        typer = Typer(self.compute, self._name_type, lambda n: self._storage(n.name), self.fault)
        statements = []
        for s in self.formula.statements:
            if s.indices is None and s.name in self.formula.outputs:
                s = replace(s, indices=())
            statements.append(self._statement(s, typer))
        return TypedFormula(
            formula=self.formula,
            statements=tuple(statements),
            compute=self.compute,
            operands={name: self._storage(name) for name in self.formula.operands},
            scalars=dict(self.found_scalars),
            specials={n: v for n, v in self.specials.items() if n in self._names_read()},
            outputs={s.name: s.store for s in statements if s.store is not None},
            index_dtype=self.index_dtype,
            index_names=self.indices,
        )

    def _statement(self, s: Assign, typer: Typer) -> Assign:
        free = free_indices(s.value, frozenset(self.indices), self.free)
        value = typer.value(transform(s.value, self._assigned_by_name))
        self.free[s.name] = free
        self.assigned[s.name] = value.dtype
        if s.indices is None:
            return replace(s, value=value)
        self._check_output(s, free)
        return self._stored(s, value)

    def _assigned_by_name(self, node: Node) -> Node:
        """An output that is read after its assignment is the value just computed."""
        if isinstance(node, Operand) and node.name in self.assigned:
            return Name(node.name, span=node.span)
        return node

    def _stored(self, s: Assign, value: Node) -> Assign:
        kind = self.outputs.get(s.name) if isinstance(self.outputs, dict) else self.outputs
        if isinstance(self.outputs, dict) and kind is None:
            raise self.fault(
                s,
                f"'{s.name}' is no output here",
                nearest(s.name, self.outputs) + f"Outputs: {listing(self.outputs)}.",
            )
        return replace(s, value=value, store=kind or value.dtype)

    def _check_output(self, s: Assign, free: frozenset[str]) -> None:
        missing = [i for i in self.indices if i in free and i not in s.indices]
        if missing:
            shown = f"{s.name}[{','.join(s.indices)}]" if s.indices else f"'{s.name}'"
            raise self.fault(
                s.value,
                f"this varies with {listing(missing)}, and {shown} does not",
                f"Reduce over {missing[0]}, sum(e, {missing[0]}), or store it with its indices: "
                f"{s.name}[{','.join((*s.indices, *missing))}].",
            )

    def _check_names(self) -> None:
        """Indices and operands: each index is one of the context, each operand is declared."""
        for s in self.formula.statements:
            if s.name in self.specials or s.name in self.indices:
                raise self.fault(
                    s, f"'{s.name}' has a meaning here and cannot be assigned to", "Rename it."
                )
            self._check_indices(s, s.indices or ())
            for node in walk(s.value):
                self._check_node(node)

    def _check_node(self, node: Node) -> None:
        if isinstance(node, Reduce):
            if not self.reductions:
                raise self.fault(
                    node,
                    f"a reduction cannot be computed here: {node_text(node)}",
                    "This formula is applied to one element at a time."
                    + _elementwise(node.op, node.a, node.indices),
                )
            self._check_indices(node, node.indices)
        if not isinstance(node, Operand):
            return
        if node.name in self.specials:
            at = ",".join(self.specials[node.name].indices)
            raise self.fault(
                node,
                f"'{node.name}' carries no indices here",
                f"Write {node.name}: it is at [{at}].",
            )
        if isinstance(self.operands, dict) and node.name not in self.operands:
            written = self.formula.outputs.get(node.name)
            if written is None:
                raise self.fault(
                    node,
                    f"unknown operand '{node.name}'",
                    nearest(node.name, self.operands) + f"Operands: {listing(self.operands)}.",
                )
        self._check_indices(node, node.indices)

    def _check_indices(self, node: Node | Assign, names: tuple[str, ...]) -> None:
        for index in names:
            if index not in self.indices:
                raise fault(
                    self.formula.source,
                    index_span(self.formula.source, node.span, index),
                    f"'{index}' is no index here",
                    nearest(index, self.indices) + f"Indices: {listing(self.indices)}.",
                )

    def _names_read(self) -> frozenset[str]:
        nodes = (n for s in self.formula.statements for n in walk(s.value))
        return frozenset(n.name for n in nodes if isinstance(n, Name))

    def _check_uses(self) -> None:
        read = self._names_read()
        for s in self.formula.statements:
            if s.name is None or s.indices is not None or s.name in self.formula.intermediates:
                continue
            if not free_indices(s.value, frozenset(self.indices), self.free | self._all_free()):
                continue
            raise self.fault(
                s,
                f"nothing reads '{s.name}'",
                f"An output carries its indices: {s.name}[{','.join(self.indices)}] = ...",
            )
        # A value of the context that nothing reads, beside an unknown name much like it, is a slip.
        for name in self.specials:
            for node in self._scalar_nodes() if name not in read and len(name) > 2 else ():
                if nearest(name, [node.name]):
                    raise self.fault(node, f"unknown name '{node.name}'", f"Did you mean '{name}'?")

    def _scalar_nodes(self) -> list[Name]:
        wanted = set(self.formula.scalars) - set(self.specials) - set(self.indices)
        nodes = (n for s in self.formula.statements for n in walk(s.value))
        return [n for n in nodes if isinstance(n, Name) and n.name in wanted]

    def _all_free(self) -> dict[str, frozenset[str]]:
        known = dict(self.free)
        for s in self.formula.statements:
            if s.name is not None:
                known[s.name] = free_indices(s.value, frozenset(self.indices), known)
        return known

    def _compute_type(self) -> DType:
        kinds = [self._storage(name) for name in self.formula.operands]
        kinds += [value.dtype for value in self.specials.values()]
        nodes = [n for s in self.formula.statements for n in walk(s.value)]
        casts = [n for n in nodes if isinstance(n, Cast) and n.to == "f64"]
        return F64 if F64 in kinds or casts else F32

    def _storage(self, name: str) -> DType:
        """The storage type of an operand; an in-out operand has its output's."""
        for kinds in (self.operands, self.outputs):
            if isinstance(kinds, dict) and name in kinds:
                return kinds[name]
        if name in self.formula.outputs and isinstance(self.outputs, DType):
            return self.outputs
        return self.operands if isinstance(self.operands, DType) else F32

    def _name_type(self, node: Name) -> DType:
        name = node.name
        if name in self.assigned:
            return self.assigned[name]
        if name in self.specials:
            return self.specials[name].dtype
        if name in self.indices:
            return self.index_dtype
        if name in self.formula.operands:
            at = ",".join(self.formula.operands[name])
            raise self.fault(node, f"'{name}' lacks its indices", f"Write {name}[{at}].")
        if isinstance(self.scalars, dict):
            if name not in self.scalars:
                raise self.fault(node, f"unknown name '{name}'", self._known(name))
            self.found_scalars[name] = self.scalars[name]
        else:
            self.found_scalars[name] = self.scalars or self.compute
        return self.found_scalars[name]

    def _known(self, name: str) -> str:
        operands = self.operands if isinstance(self.operands, dict) else self.formula.operands
        known = [*self.specials, *self.indices, *self.scalars, *self.assigned]
        shown = [*known, *(f"{operand}[...]" for operand in operands)]
        return nearest(name, [*known, *operands]) + f"Known here: {listing(shown)}."
