"""The accuracy that a formula's header states: what each operation may lose, as its verification allows."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.formula.bounds import (
    EXACT,
    LOG_SUM,
    SCALED_ULP,
    SCALES,
    SHORT_EXP_ULP,
    SHORT_GELU,
    SUM_BASE,
    SUM_GROWTH,
    ULP,
)
from tilegen.formula.nodes import Binary, Call, Node, Reduce, walk
from tilegen.formula.typed import TypedFormula


def accuracy(typed: TypedFormula) -> str:
    """How far results may be from exact ones: the terms of `formula.bounds` that the formula meets.

    An ulp is the compute type's epsilon (2^-23, 2^-52) times a result, or what is named in its place.
    """
    nodes = [n for s in typed.statements for n in walk(s.value) if n.dtype.is_float]
    losses = [*_operations(nodes), *_functions(nodes, typed.is_short), *_reductions(nodes)]
    stores = _stores(typed, bool(losses))
    if losses:
        rounded = f"; then {stores}" if stores else ""
        return (
            f"Accuracy: in {typed.compute}, with {'; '.join(losses)}{rounded}. "
            "No result is further off than these errors together."
        )
    return f"Accuracy: exact, but that {stores}." if stores else "Accuracy: exact."


def _stores(typed: TypedFormula, inexact: bool) -> str:
    """Which outputs a store may round, and to what; empty if none."""
    widest = max((k.bytes for k in [*typed.operands.values(), *typed.scalars.values()]), default=8)
    by_kind: dict[str, list[str]] = {}
    for name, kind in typed.outputs.items():
        if kind.is_float and kind.bytes < (typed.compute.bytes if inexact else widest):
            by_kind.setdefault(kind.name, []).append(name)
    words = [
        f"{_listed(names)} {'are' if names[1:] else 'is'} rounded to {kind}"
        for kind, names in by_kind.items()
    ]
    return f"{_listed(words)}, to nearest even" if words else ""


def _operations(nodes: Iterable[Node]) -> list[str]:
    used = {n.op for n in nodes if isinstance(n, Binary)}
    ranked = [op for op in ("+", "-", "*", "/") if op in used]
    return [f"{' '.join(ranked)} within {ULP['rounded']:g} ulp"] if ranked else []


def _functions(nodes: Iterable[Node], short: bool) -> list[str]:
    used = {n.function for n in nodes if isinstance(n, Call)} - set(EXACT)
    used |= {"**" for n in nodes if isinstance(n, Binary) and n.op == "**"}
    most = f"{ULP['function']:g} ulp"
    losses = []
    plain = sorted(used - SCALES.keys() - ({"exp"} if short else set()))
    if plain:
        losses.append(f"{_listed(plain)} within {most}")
    if short and "exp" in used:
        losses.append(f"exp(x) within {ULP['function']:g} + {SHORT_EXP_ULP:g} |x| ulp")
    for name in sorted(used & SCALES.keys()):
        of = "1" if name == "hardsigmoid" else "x"
        part = f", {SHORT_GELU:g} of the result" if short and name == "gelu" else ""
        losses.append(f"{name}(x) within {most}{part} and {SCALED_ULP:g} ulp of {of}")
    return losses


def _reductions(nodes: Iterable[Node]) -> list[str]:
    losses = []
    for op, indices in dict.fromkeys((n.op, n.indices) for n in nodes if isinstance(n, Reduce)):
        count = " * ".join(indices)
        root = f"{SUM_GROWTH:g} sqrt({count})"
        match op:
            case "sum" | "mean":
                most = f"min({count}, {SUM_BASE:g} + {root}) ulp"
                losses.append(
                    f"{op} over {', '.join(indices)} within {most} of the {op} of magnitudes"
                )
            case "prod":
                losses.append(f"prod over {', '.join(indices)} within {count} ulp")
            case "logsumexp":
                most = f"{ULP['function']:g} ulp and {LOG_SUM:g} + {root} ulp of 1"
                losses.append(f"logsumexp over {', '.join(indices)} within {most}")
    return losses


def _listed(words: list[str]) -> str:
    """Words in a row, the last two joined by `and`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
