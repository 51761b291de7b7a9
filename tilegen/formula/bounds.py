"""How far a kernel's result may honestly be from the float64 meaning: a running error analysis.

Every node carries a bound on |computed - exact|, pushed through the tree by the rules of forward error
analysis (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 to 4): each float operation
adds one rounding of its result in the compute type, a function a few, and the bounds of its arguments
are amplified by what the node does to them. For + - * / that is exact interval arithmetic of first and
second order; for a function it is the largest change over five samples of each argument's interval, which
sees both slopes and steps. A comparison whose sides are closer than their bounds is taken to go either way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilegen.formula import numerics
from tilegen.formula.evaluate import Array, Evaluator
from tilegen.formula.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Logical,
    Name,
    Node,
    Number,
    Operand,
    Reduce,
    Select,
    Unary,
)
from tilegen.formula.typed import TypedFormula, stored
from tilegen.values import F64, DType

ULP = {"exact": 0.0, "rounded": 0.5, "function": 6.0}
EXACT = (
    "abs",
    "min",
    "max",
    "clamp",
    "relu",
    "floor",
    "ceil",
    "round",
    "trunc",
    "isnan",
    "hardtanh",
)

# A sum of n elements may be off by min(n, SUM_BASE + SUM_GROWTH sqrt(n)) ulp of the sum of their magnitudes,
# the logarithm of one by LOG_SUM + SUM_GROWTH sqrt(n) ulp of 1 and a function's own.
SUM_BASE, SUM_GROWTH, LOG_SUM = 2.0, 4.0, 8.0

# Functions that round something larger than their result: x times a sum that cancels, a sum that cancels.
SCALES = {
    "gelu": lambda x: np.abs(x),
    "gelu_tanh": lambda x: np.abs(x),
    "hardswish": lambda x: np.abs(x),
    "hardsigmoid": lambda x: np.ones_like(x),
}
SCALED_ULP = 2.0

# CUDA's shorter functions for 16-bit results, `cuda/parts/short_math.cuh.j2`, lose besides: exp(x) so many ulp
# for each unit of |x|, gelu that part of its result.
SHORT_EXP_ULP = 2.0
SHORT_GELU = 8e-6

SAMPLES = (-1.0, -0.5, 0.5, 1.0)


def error_bound(
    typed: TypedFormula,
    env: Mapping[str, Array | float | int],
    errors: Mapping[str, Array | float],
    sizes: Mapping[str, int] | None = None,
    offsets: Mapping[str, int] | None = None,
    *,
    store: bool = True,
) -> dict[str, Array]:
    """A bound on |kernel - evaluate(..., store=False)| for each element of each output.

    Args:
        env, sizes, offsets: as for `evaluate`.
        errors: for a value of the context (`acc`) or an operand, a bound on its own error: a number, or an
            array with the axes of the name. What is not mentioned is exact.
        store: add the rounding of the store to the output's type.

    Returns:
        A float64 array an output. An element may be inf, where the exact value is inf or NaN, or where
        the errors given are so large that nothing can be said (a divisor that may be zero).
    """
    return _Bounds(Evaluator(typed, env, sizes, offsets), errors).outputs(store)


def evaluate_with_bound(
    typed: TypedFormula,
    *,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float | int],
    sizes: Mapping[str, int] | None = None,
    specials: Mapping[str, tuple[Array, Array | float]] | None = None,
    offsets: Mapping[str, int] | None = None,
) -> dict[str, tuple[Array, Array]]:
    """The float64 value and the error bound of every output, the rounding of its store included.

    Args:
        arrays: operands by name, scalars likewise; more than the formula reads is allowed.
        specials: for `acc` and its like, the value and a bound on its error.
    """
    special = specials or {}
    env = {**arrays, **scalars, **{name: value for name, (value, _) in special.items()}}
    values = Evaluator(typed, env, sizes, offsets)
    bounds = _Bounds(values, {name: error for name, (_, error) in special.items()}).outputs(True)
    return {name: (value, bounds[name]) for name, value in values.outputs(False).items()}


class _Bounds:
    def __init__(self, values: Evaluator, errors: Mapping[str, Array | float]) -> None:
        self.values = values
        self.typed = values.typed
        # The float64 meaning of a float64 kernel is rounded as often as the kernel itself.
        both = 2.0 if self.typed.compute is F64 else 1.0
        self.unit = both * self.typed.compute.epsilon
        self.tiny = both * float(np.finfo(self.typed.compute.numpy).smallest_subnormal)
        self.largest = float(np.finfo(self.typed.compute.numpy).max)
        self.named: dict[str, Array] = {}
        self._known: dict[int, tuple[Node, Array]] = {}
        at = {name: special.indices for name, special in self.typed.specials.items()}
        at |= {f"{name}[]": indices for name, indices in self.typed.formula.operands.items()}
        for name, indices in at.items():
            error = errors.get(name.removesuffix("[]"), 0.0)
            self.named[name] = values.align(name, error, indices if np.ndim(error) else (), F64)
        with np.errstate(all="ignore"):
            for s in self.typed.statements:
                self.named[s.name] = self.bound(s.value)

    def outputs(self, store: bool) -> dict[str, Array]:
        result = {}
        with np.errstate(all="ignore"):
            for s in self.typed.statements:
                if s.store is not None:
                    bound = self.bound(stored(s) if store else s.value)
                    result[s.name] = self.values.spread(bound, s.indices)
        return result

    def bound(self, node: Node) -> Array:
        """The error bound of a node; NaN, what overflows and an infinity that is not sure have the bound inf."""
        if id(node) not in self._known:
            error = np.asarray(self._compute(node), dtype=np.float64)
            value = self.values.value(node)
            size = np.abs(value) if value.dtype.kind == "f" else np.float64(0.0)
            odd = np.isnan(size) | (size > self.largest) & (size < np.inf)
            self._known[id(node)] = node, np.where(np.isnan(error) | odd, np.inf, error)
        return self._known[id(node)][1]

    def _rounding(self, node: Node, how: str) -> Array:
        """The rounding that the node itself adds."""
        if not node.dtype.is_float:
            return np.float64(0.0)
        size = np.abs(self.values.value(node))
        return ULP[how] * (self.unit * np.where(np.isinf(size), 0.0, size) + self.tiny)

    def _sure(self, node: Node, a: Node, b: Node, error: Array) -> Array:
        """No error where a product or quotient is infinite whatever its operands' errors: both keep their signs."""
        far = [np.abs(self.values.value(x)) > self.bound(x) for x in (a, b)]
        infinite = np.isinf(self.values.value(a)) & np.isinf(self.values.value(node))
        return np.where(infinite & far[0] & far[1], 0.0, error)

    def _compute(self, node: Node) -> Array | float:
        value, bound = self.values.value, self.bound
        match node:
            case Number(v) if node.dtype.is_float:
                return abs(float(node.dtype.numpy.type(v)) - v) if np.isfinite(v) else 0.0
            case Name(name):
                return self.named.get(name, 0.0)
            case Operand(name):
                return self.named.get(f"{name}[]", 0.0)
            case Unary(_, a):
                return bound(a)
            case Binary("+" | "-", a, b):
                return bound(a) + bound(b) + self._rounding(node, "rounded")
            case Binary("*", a, b):
                both = _times(np.abs(value(a)), bound(b)) + _times(np.abs(value(b)), bound(a))
                both = both + _times(bound(a), bound(b))
                return self._sure(node, a, b, both) + self._rounding(node, "rounded")
            case Binary("/", a, b):
                divisor = np.maximum(np.abs(value(b)) - bound(b), 0.0)
                both = (bound(a) + _times(np.abs(value(node)), bound(b))) / divisor
                return self._sure(node, a, b, both) + self._rounding(node, "rounded")
            case Binary("**", a, b):
                return self._sampled(node, (a, b), np.power)
            case Binary(_, a, b):
                # // and % of integers: exact, or anything their operands' errors may make of them.
                unsure = bound(a) + bound(b) > 0
                whole = np.abs(value(node)) + bound(a) + np.abs(value(b)) + bound(b) + 1.0
                return np.where(unsure, whole, 0.0)
            case Compare(_, a, b):
                reach = bound(a) + bound(b)
                near = np.abs(value(a).astype(np.float64) - value(b)) <= reach
                return np.where(near & (reach > 0), 1.0, 0.0)
            case Logical(_, a, b):
                return np.maximum(bound(a), bound(b))
            case Select(c, a, b):
                chosen = np.where(value(c), bound(a), bound(b))
                either = np.maximum(bound(a), bound(b))
                step = np.abs(value(a).astype(np.float64) - value(b)) + either
                return np.where(bound(c) > 0, step, chosen)
            case Call(function, args):
                return self._sampled(node, args, numerics.MEANINGS[function])
            case Cast(_, a):
                return self._cast(node, a)
            case Reduce():
                return self._reduce(node)
        return 0.0

    def _sampled(self, node: Node, args: tuple[Node, ...], meaning) -> Array:
        """The largest change of the function over samples of each argument's interval, summed."""
        centre = self.values.value(node)
        points = [self.values.value(arg) for arg in args]
        total = np.float64(0.0)
        for position, arg in enumerate(args):
            reach = self.bound(arg)
            if not np.any(reach):
                continue
            worst = np.float64(0.0)
            for step in SAMPLES:
                moved = list(points)
                moved[position] = points[position] + step * reach
                worst = np.maximum(worst, _change(meaning(*moved), centre))
            total = total + worst
        exact = isinstance(node, Call) and node.function in EXACT
        rounding = self._rounding(node, "exact" if exact else "function")
        if isinstance(node, Call) and not exact and node.dtype.is_float:
            # What underflows inside is multiplied by the argument afterwards.
            at = np.where(np.isinf(points[0]), 0.0, points[0])
            rounding = rounding + 2.0 * self.tiny * np.abs(at)
            if self.typed.is_short:
                rounding = rounding + self._short(node.function, centre, at)
            if node.function in SCALES:
                rounding = rounding + SCALED_ULP * self.unit * SCALES[node.function](at)
        return total + rounding

    def _short(self, function: str, result: Array, x: Array) -> Array | float:
        """What the shorter functions lose besides."""
        if function == "exp":
            tiny = float(np.finfo(np.float32).tiny)
            return SHORT_EXP_ULP * self.unit * np.abs(x) * result + tiny
        return SHORT_GELU * np.abs(result) if function == "gelu" else 0.0

    def _cast(self, node: Cast, a: Node) -> Array:
        error, exact = self.bound(a), self.values.value(a)
        if not node.dtype.is_float:
            steps = np.ceil(error) if exact.dtype.kind == "f" else error
            return np.where(error > 0, np.maximum(steps, 1.0), 0.0)
        rounded = _change(self.values.value(node), exact.astype(np.float64))
        return error + rounded + np.where(error > 0, spacing(exact, error, node.dtype), 0.0)

    def _reduce(self, node: Reduce) -> Array:
        axes = tuple(self.values.axes[i] for i in node.indices)
        shape = [self.values.size(i) if i in node.indices else 1 for i in self.values.axes]
        x, error = self.values.value(node.a), self.bound(node.a)
        full = np.broadcast_shapes(x.shape, error.shape, tuple(shape))
        x, error = np.broadcast_to(x, full), np.broadcast_to(error, full)
        count = int(np.prod([full[axis] for axis in axes]))
        size = np.abs(x.astype(np.float64))
        match node.op:
            case "max" | "min":
                return np.max(error, axis=axes, keepdims=True, initial=0.0)
            case "sum" | "mean":
                grown = error + self.unit * roundings(count) * size
                total = np.sum(grown, axis=axes, keepdims=True)
                total = total / count if node.op == "mean" and count else total
                return total + self.tiny
            case "prod":
                own = self.unit if node.dtype.is_float else 0.0
                grown = np.where(error == 0, 0.0, error / size) + own  # a sure 0 stays one
                relative = np.sum(grown, axis=axes, keepdims=True)
                return _times(np.expm1(relative), np.abs(self.values.value(node)))
            case "logsumexp":
                worst = np.max(error, axis=axes, keepdims=True, initial=0.0)
                grown = (LOG_SUM + SUM_GROWTH * count**0.5) * self.unit
                return worst + grown + self._rounding(node, "function")
            case "argmax" | "argmin":
                # Others whose errors reach the best one's may be taken for it.
                height = x.astype(np.float64) * (1.0 if node.op == "argmax" else -1.0)
                best = np.max(height - error, axis=axes, keepdims=True, initial=-np.inf)
                near = np.sum(height + error >= best, axis=axes, keepdims=True) != 1
                unsure = near & np.any(error > 0, axis=axes, keepdims=True)
                return np.where(unsure, float(count), 0.0)
        unsure = np.any(error > 0, axis=axes, keepdims=True)
        return np.where(unsure, float(count), 0.0)


def roundings(count: int) -> float:
    """Ulps of the sum of magnitudes that a sum or mean of `count` elements, in any order, may be off by."""
    return min(count, SUM_BASE + SUM_GROWTH * count**0.5)


def spacing(x: Array, error: Array, kind: DType) -> Array:
    """The distance between neighbours of `kind` around |x| + error: what a rounding may move by."""
    tiny = {"f16": 2.0**-24, "bf16": 2.0**-133, "e4m3": 2.0**-9, "e5m2": 2.0**-16}
    least = tiny.get(kind.name, float(np.finfo(np.float32).smallest_subnormal))
    return np.maximum(kind.epsilon * (np.abs(x) + error), least)


def _times(a: Array, b: Array) -> Array:
    """a * b with 0 * inf = 0: an exact zero hides what the other side may be."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def _change(moved: Array, centre: Array) -> Array:
    """|moved - centre|; equal infinities are no change, a NaN is an unbounded one."""
    same = (moved == centre) | (np.isnan(moved) & np.isnan(centre))
    change = np.abs(moved - centre)
    return np.where(same, 0.0, np.where(np.isnan(change), np.inf, change))
