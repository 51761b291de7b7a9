"""The score and the mask of attention: parsing, types, and what a query's position means in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen import formula as fl
from tilegen.errors import FormulaError
from tilegen.problems.base import Scalar, Tensor
from tilegen.values import BOOL, DTYPES, F32, I32, DType

CAUSAL = "j <= i"
INDICES = ("b", "h", "i", "j")
# Size that bounds each index.
EXTENTS = {"b": "batch", "h": "heads", "i": "seq_q", "j": "seq_k"}


def canonical(text: str) -> str:
    """The stable text of a formula; empty stays empty. Raises FormulaError."""
    return fl.parse(text).text if str(text).strip() else ""


@dataclass(frozen=True)
class AttentionFormula:
    """A bound formula.

    Attributes:
        role: `mask` or `score`.
        formula: as parsed.
        typed: bound over b, h, i, j, with `i` as written; the score stores f32, the mask a bool.
        placed: the same with the position of the query, i + seq_k - seq_q if so aligned, in place of
            `i` as a value: what is evaluated.
    """

    role: str
    formula: fl.Formula
    typed: fl.TypedFormula
    placed: fl.TypedFormula

    def tensors(self) -> list[Tensor]:
        """Its operands as array arguments."""
        found = []
        for name, kind in self.typed.operands.items():
            indices = self.typed.formula.operands[name]
            dims = tuple(EXTENTS[i] for i in indices)
            strides = tuple(f"{name}_stride_{i}" for i in indices[:-1])
            text = f"an operand of the {self.role}, {name}[{','.join(indices)}]"
            found.append(Tensor(name, "input", kind, dims, strides, text, any_order=True))
        return found

    def scalars(self) -> list[Scalar]:
        """Its run-time scalars."""
        return [Scalar(n, k, f"a scalar of the {self.role}") for n, k in self.typed.scalars.items()]


def _positions(formula: fl.Formula) -> fl.Formula:
    """The formula with `i + seq_k - seq_q` in place of `i` as a value."""

    def change(node: fl.Node) -> fl.Node:
        if isinstance(node, fl.Name) and node.name == "i":
            shift = fl.Binary("-", fl.Name("seq_k"), fl.Name("seq_q"), span=node.span)
            return fl.Binary("+", node, shift, span=node.span)
        return node

    statements = tuple(replace(s, value=fl.transform(s.value, change)) for s in formula.statements)
    return fl.Formula(statements, formula.source)


def _bind(
    role: str, text: str, given: Mapping[str, str], shifted: bool, out: DType, scalar: DType
) -> AttentionFormula:
    parsed = fl.parse(text)
    if role in (*parsed.operands, *parsed.scalars):
        raise FormulaError(
            f"'{role}' is what this formula gives, and names no operand of it",
            f"Choose another name, such as {role}_of_mine.",
        )
    typed = _bound(role, parsed, given, out, scalar)
    placed = _bound(role, _positions(parsed), given, out, scalar) if shifted else typed
    return AttentionFormula(role, parsed, typed, placed)


def _bound(
    role: str, parsed: fl.Formula, given: Mapping[str, str], out: DType, scalar: DType
) -> fl.TypedFormula:
    formula = parsed.with_output(role, INDICES)
    specials = {"seq_q": I32, "seq_k": I32}
    if role == "score":
        specials["s"] = fl.Special(F32, INDICES)
    names = [n for n in formula.scalars if n not in specials and n not in INDICES]
    return fl.bind(
        formula,
        indices=INDICES,
        specials={
            n: k if isinstance(k, fl.Special) else fl.Special(k) for n, k in specials.items()
        },
        operands={n: DTYPES[given.get(n, "f32")] for n in formula.operands},
        scalars={n: DTYPES[given[n]] if n in given else scalar for n in names},
        outputs={role: out},
        index_dtype=I32,
    )


def bind_score(text: str, given: Mapping[str, str], shifted: bool) -> AttentionFormula:
    """The score over s: operands and scalars are f32 unless `given` says otherwise."""
    return _bind("score", text, given, shifted, F32, F32)


def bind_mask(text: str, given: Mapping[str, str], shifted: bool) -> AttentionFormula:
    """The mask: scalars are i32 unless `given` says otherwise, operands f32."""
    return _bind("mask", text, given, shifted, BOOL, I32)
