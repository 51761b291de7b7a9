"""Formula: parsed statements and what they mention, before any type is known."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tilegen.formula.diagnostics import fault
from tilegen.formula.nodes import Assign, Name, Node, Operand, Reduce, walk
from tilegen.formula.parser import read_statements
from tilegen.formula.text import statement_text


@dataclass(frozen=True)
class Formula:
    """A parsed formula. Two formulas are equal when their statements are, whatever the spacing.

    Attributes:
        statements: assignments in order; the last may be a bare expression (name None).
        source: the text as the user wrote it, which error messages show.
    """

    statements: tuple[Assign, ...]
    source: str = field(compare=False)

    @property
    def text(self) -> str:
        """The canonical text: stable, one line, statements joined by `; `."""
        return "; ".join(statement_text(s) for s in self.statements)

    def __str__(self) -> str:
        return self.text

    def with_output(self, name: str, indices: Sequence[str]) -> Formula:
        """The formula with its bare expression assigned to `name[indices]`; itself if it has none."""
        *others, last = self.statements
        if last.name is not None:
            return self
        named = replace(last, name=name, indices=tuple(indices))
        return check(Formula((*others, named), self.source))

    @functools.cached_property
    def operands(self) -> dict[str, tuple[str, ...]]:
        """Tensor operands that are read, in order of first mention, with their index names.

        An output that is read after its assignment is not among them; one that is read before it,
        or in it (`c[m,n] = acc + c[m,n]`), is.
        """
        found: dict[str, tuple[str, ...]] = {}
        assigned: set[str] = set()
        for statement in self.statements:
            for node in walk(statement.value):
                if isinstance(node, Operand) and node.name not in assigned:
                    found.setdefault(node.name, node.indices)
            if statement.name is not None:
                assigned.add(statement.name)
        return found

    @functools.cached_property
    def index_names(self) -> tuple[str, ...]:
        """Every index that a subscript mentions, in order of first mention, outputs included."""
        found: dict[str, None] = {}
        for statement in self.statements:
            for node in walk(statement.value):
                if isinstance(node, Operand):
                    found.update(dict.fromkeys(node.indices))
            found.update(dict.fromkeys(statement.indices or ()))
        return tuple(found)

    @functools.cached_property
    def intermediates(self) -> tuple[str, ...]:
        """Names assigned without indices and read later."""
        reads = self._reads
        return tuple(
            s.name
            for i, s in enumerate(self.statements)
            if s.name is not None and s.indices is None and any(s.name in r for r in reads[i + 1 :])
        )

    @functools.cached_property
    def outputs(self) -> dict[str | None, tuple[str, ...] | None]:
        """What the formula stores, in order: name to indices.

        The name is None for a bare expression, whose indices the caller supplies. A name without
        indices that nothing reads is an output of rank 0, indices ().
        """
        inner = set(self.intermediates)
        found: dict[str | None, tuple[str, ...] | None] = {}
        for s in self.statements:
            if s.name not in inner:
                found[s.name] = None if s.name is None else (s.indices or ())
        return found

    @functools.cached_property
    def scalars(self) -> tuple[str, ...]:
        """Bare names that are no index, output or intermediate, in order of first mention.

        Special names of a context (`acc`, `s`, index names that no operand carries) are among them
        until `bind` sorts them out.
        """
        indices, assigned = set(self.index_names), set()
        found: dict[str, None] = {}
        for statement in self.statements:
            for node in walk(statement.value):
                if isinstance(node, Name) and node.name not in indices | assigned:
                    found[node.name] = None
            if statement.name is not None:
                assigned.add(statement.name)
        return tuple(found)

    @functools.cached_property
    def in_out(self) -> tuple[str, ...]:
        """Outputs that are also read as operands."""
        return tuple(n for n in self.outputs if n in self.operands)

    @property
    def reductions(self) -> tuple[Reduce, ...]:
        """Every reduction, in order of the text, outer before inner."""
        return tuple(n for s in self.statements for n in walk(s.value) if isinstance(n, Reduce))

    @functools.cached_property
    def free_indices(self) -> tuple[tuple[str, ...], ...]:
        """For each statement, the indices its value depends on, in the order of `index_names`."""
        known: dict[str, frozenset[str]] = {}
        result = []
        for s in self.statements:
            free = free_indices(s.value, frozenset(self.index_names), known)
            result.append(tuple(i for i in self.index_names if i in free))
            if s.name is not None:
                known[s.name] = free
        return tuple(result)

    @functools.cached_property
    def _reads(self) -> tuple[frozenset[str], ...]:
        return tuple(
            frozenset(n.name for n in walk(s.value) if isinstance(n, Name | Operand))
            for s in self.statements
        )


def free_indices(
    node: Node, index_names: frozenset[str], known: dict[str, frozenset[str]]
) -> frozenset[str]:
    """The indices that the value of `node` depends on.

    Args:
        index_names: names that count as an index when they stand alone.
        known: the free indices of names that have some (intermediates, `acc`).
    """
    match node:
        case Operand(_, indices):
            return frozenset(indices)
        case Name(name) if name in known:
            return known[name]
        case Name(name) if name in index_names:
            return frozenset((name,))
        case Reduce(_, a, indices):
            return free_indices(a, index_names, known) - set(indices)
    parts = (free_indices(child, index_names, known) for child in node.children())
    return frozenset().union(*parts)


def parse(text: str, indices: Collection[str] = ()) -> Formula:
    """Read a formula.

    Args:
        indices: names that are indices even where none stands in a subscript, so that `max(acc, n)` is a
            reduction.
        text: statements separated by `;` or new lines: `name = e`, `name[m,n] = e`, or `e`.

    Returns:
        The formula, untyped; `bind` gives it types.

    Raises:
        FormulaError: not of the language; the message has a caret under the column.
    """
    return check(Formula(read_statements(text, indices), text))


def digest(formula: Formula) -> str:
    """Six hexadecimal digits of the SHA-256 of the canonical text: a name for an unnamed formula."""
    return hashlib.sha256(formula.text.encode()).hexdigest()[:6]


def check(formula: Formula) -> Formula:
    """Refuse what is wrong in any context: double assignment, inconsistent ranks, use before."""
    ranks: dict[str, int] = {}
    first_line: dict[str, Assign] = {}
    later = [s.name for s in formula.statements]
    for position, s in enumerate(formula.statements):
        for node in walk(s.value):
            if isinstance(node, Operand):
                _rank(formula, node, ranks)
            elif isinstance(node, Name) and node.name in later[position:]:
                _before(formula, node, s)
        if s.name in first_line:
            raise fault(
                formula.source, s.span, f"'{s.name}' is assigned twice", "Use a second name."
            )
        if s.name is not None:
            first_line[s.name] = s
        if s.indices is not None and ranks.setdefault(s.name, len(s.indices)) != len(s.indices):
            raise fault(
                formula.source,
                s.span,
                f"'{s.name}' has {ranks[s.name]} indices where it is read and {len(s.indices)} here",
                "An operand that is updated in place has the same indices on both sides.",
            )
    return formula


def _rank(formula: Formula, node: Operand, ranks: dict[str, int]) -> None:
    if ranks.setdefault(node.name, len(node.indices)) != len(node.indices):
        raise fault(
            formula.source,
            node.span,
            f"'{node.name}' has {ranks[node.name]} indices elsewhere and {len(node.indices)} here",
            "An operand has one rank.",
        )
    if formula.operands.get(node.name, node.indices) != node.indices:
        raise fault(
            formula.source,
            node.span,
            f"'{node.name}' is read as [{','.join(formula.operands[node.name])}] elsewhere",
            "An operand has the same indices wherever it stands.",
        )
    for s in formula.statements:
        if s.name == node.name and s.indices is None:
            raise fault(
                formula.source,
                node.span,
                f"'{node.name}' is an intermediate and carries no indices",
                f"Write {node.name}.",
            )
        if s.name == node.name and s.indices != node.indices:
            raise fault(
                formula.source,
                node.span,
                f"'{node.name}' is written as [{','.join(s.indices)}]",
                "An operand that is updated in place is read at the element that is written.",
            )


def _before(formula: Formula, node: Name, statement: Assign) -> None:
    same = statement.name == node.name
    where = "in its own assignment" if same else "before its assignment"
    raise fault(
        formula.source,
        node.span,
        f"'{node.name}' is used {where}",
        "Assign it first; an operand that is updated in place carries indices: "
        "c[m,n] = acc + c[m,n].",
    )
