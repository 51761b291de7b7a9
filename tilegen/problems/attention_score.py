"""Scores of a form that kernels compute in fewer instructions than the formula has."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen import formula as fl
from tilegen.problems.attention import Attention
from tilegen.problems.attention_mask import is_distance


@dataclass(frozen=True)
class CappedScore:
    """`softcap(s, cap)` for a number above 0: the cap is a factor that the exponential can take.

    Attributes:
        cap: largest absolute score.
    """

    cap: float


@dataclass(frozen=True)
class SlopedScore:
    """`s + slope * distance`: along a row the term grows by the slope from key to key.

    Attributes:
        slope: factor of the distance, the same for all keys of a query.
        distance: the float of a sum of positions in which `j` has the factor 1 or -1.
        rises: whether the distance grows with j.
        negative: whether the term is subtracted.
    """

    slope: fl.Node
    distance: fl.Cast
    rises: bool
    negative: bool


def short_score(problem: Attention) -> CappedScore | SlopedScore | None:
    """How the problem's score can be computed shortly, or None."""
    score = problem.score_formula()
    if score is None or len(score.typed.statements) > 1:
        return None
    value = score.typed.statements[0].value
    match value:
        case fl.Call(function="softcap", args=(fl.Name(name="s"), fl.Number(value=cap))) if cap > 0:
            return CappedScore(float(cap))
        case fl.Binary(op="+" | "-" as op, a=fl.Name(name="s"), b=term):
            return _sloped(term, op == "-")
        case fl.Binary(op="+", a=term, b=fl.Name(name="s")):
            return _sloped(term, False)
    return None


def _sloped(term: fl.Node, negative: bool) -> SlopedScore | None:
    if not (isinstance(term, fl.Binary) and term.op == "*"):
        return None
    for slope, distance in ((term.a, term.b), (term.b, term.a)):
        factor = _factor_of_j(distance) if is_distance(distance) else 0
        if factor and not _reads(slope, "j") and not _reads(slope, "s"):
            return SlopedScore(slope, distance, factor > 0, negative)
    return None


def _factor_of_j(distance: fl.Cast) -> int:
    """The factor of j in a sum of positions."""

    def walk(node: fl.Node, sign: int) -> int:
        match node:
            case fl.Name(name="j"):
                return sign
            case fl.Unary(op="-", a=a):
                return walk(a, -sign)
            case fl.Binary(op="+" | "-" as op, a=a, b=b):
                return walk(a, sign) + walk(b, sign if op == "+" else -sign)
            case fl.Binary(op="*", a=a, b=b):
                numbers = [x.value for x in (a, b) if isinstance(x, fl.Number)]
                other = b if isinstance(a, fl.Number) else a
                return walk(other, sign) * (numbers[0] if numbers else 0)
        return 0

    return walk(distance.a, 1)


def _reads(node: fl.Node, name: str) -> bool:
    """Whether a name, or an array by that index, is read."""
    return any(
        (isinstance(n, fl.Name) and n.name == name)
        or (isinstance(n, fl.Operand) and name in n.indices)
        for n in fl.walk(node)
    )
