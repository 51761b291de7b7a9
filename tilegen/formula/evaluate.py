"""The meaning of a typed formula on NumPy arrays, in float64, broadcasting by index name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilegen.errors import ArgumentError
from tilegen.formula import numerics
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
from tilegen.values import DType

Array = np.ndarray

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "**": np.power,
}


def evaluate(
    typed: TypedFormula,
    env: Mapping[str, Array | float | int],
    sizes: Mapping[str, int] | None = None,
    offsets: Mapping[str, int] | None = None,
    *,
    store: bool = True,
) -> dict[str, Array]:
    """Compute the outputs with NumPy.

    Args:
        env: an array for each operand and each special value (`acc`), with one axis an index in the order
            of its indices; a number for each scalar, which is rounded to the scalar's type.
        sizes: extents of indices that no array carries.
        offsets: what the first element of an index counts from, 0 by default; for work in blocks.
        store: convert each output to its storage type. False leaves the float64 (or integer) values,
            against which an error bound is stated.

    Returns:
        An array an output, axes in the order of its indices.

    Float arithmetic is float64 throughout; casts round for real, integers stay integers with Python's
    // and %, NaN and Inf behave as NumPy's. min and max, and the reductions, propagate NaN.

    Raises:
        ArgumentError: an array is missing, or its rank or sizes disagree.
    """
    return Evaluator(typed, env, sizes, offsets).outputs(store)


class Evaluator:
    """Evaluates nodes of one formula on one set of arrays; every array has all indices as axes.

    Attributes:
        typed: the formula.
        axes: position of each index name.
        sizes: extent of each index.
    """

    def __init__(
        self,
        typed: TypedFormula,
        env: Mapping[str, Array | float | int],
        sizes: Mapping[str, int] | None = None,
        offsets: Mapping[str, int] | None = None,
    ) -> None:
        self.typed = typed
        self.axes = {name: position for position, name in enumerate(typed.index_names)}
        self.sizes = dict(sizes or {})
        self.offsets = dict(offsets or {})
        self.named: dict[str, Array] = {}
        self._known: dict[int, tuple[Node, Array]] = {}
        with np.errstate(all="ignore"):
            self._bind(env)
            for s in typed.statements:
                self.named[s.name] = self.value(s.value)

    def outputs(self, store: bool) -> dict[str, Array]:
        """The outputs, converted to their storage types or not."""
        result = {}
        with np.errstate(all="ignore"):
            for s in self.typed.statements:
                if s.store is None:
                    continue
                node = stored(s) if store else s.value
                full = self.spread(self.value(node), s.indices)
                result[s.name] = full.astype(s.store.numpy) if store else full
        return result

    def spread(self, x: Array, indices: Sequence[str]) -> Array:
        """`x` broadcast over `indices` and with its axes in their order."""
        shape = [1] * len(self.axes)
        for name in indices:
            shape[self.axes[name]] = self.size(name)
        full = np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
        rest = [axis for name, axis in self.axes.items() if name not in indices]
        order = [self.axes[name] for name in indices]
        return full.transpose([*order, *rest]).reshape([shape[axis] for axis in order])

    def size(self, index: str) -> int:
        """The extent of an index. Raises ArgumentError when nothing says it."""
        if index not in self.sizes:
            raise ArgumentError(f"the size of index '{index}' is not known", "Pass it in sizes.")
        return self.sizes[index]

    def align(self, name: str, array: Array | float, indices: Sequence[str], kind: DType) -> Array:
        """An array with axes `indices` as one with all axes, in the type it is computed in."""
        array = np.asarray(array)
        if array.ndim != len(indices):
            raise ArgumentError(
                f"'{name}' has {array.ndim} dimensions; [{','.join(indices)}] needs {len(indices)}"
            )
        for index, extent in zip(indices, array.shape, strict=True):
            if self.sizes.setdefault(index, extent) != extent:
                raise ArgumentError(
                    f"'{name}' has {extent} elements along {index}; another operand has "
                    f"{self.sizes[index]}"
                )
        order = sorted(range(len(indices)), key=lambda i: self.axes[indices[i]])
        shape = [1] * len(self.axes)
        for index, extent in zip(indices, array.shape, strict=True):
            shape[self.axes[index]] = extent
        return (
            array.transpose(order)
            .reshape(shape)
            .astype(np.float64 if kind.is_float else kind.numpy)
        )

    def _bind(self, env: Mapping[str, Array | float | int]) -> None:
        typed = self.typed
        wanted = {name: (v.indices, v.dtype) for name, v in typed.specials.items()}
        wanted |= {name: ((), kind) for name, kind in typed.scalars.items()}
        at = typed.formula.operands
        arrays = {name: (at[name], kind) for name, kind in typed.operands.items()}
        for group, mark in ((wanted, ""), (arrays, "[]")):
            for name, (indices, kind) in group.items():
                if name not in env:
                    raise ArgumentError(
                        f"no value for '{name}'", f"Needed: {' '.join([*wanted, *arrays])}"
                    )
                self.named[name + mark] = self.align(name, env[name], indices, kind)
        for name, kind in typed.scalars.items():
            self.named[name] = numerics.round_to(self.named[name], kind)

    def value(self, node: Node) -> Array:
        """The value of a node, computed once."""
        if id(node) not in self._known:
            self._known[id(node)] = node, self._compute(node)
        return self._known[id(node)][1]

    def _compute(self, node: Node) -> Array:
        match node:
            case Number(value):
                kind = np.float64 if node.dtype.is_float else node.dtype.numpy
                return np.full([1] * len(self.axes), value, kind)
            case Name(name):
                return self._named(name, node)
            case Operand(name):
                return self.named[f"{name}[]"]
            case Unary(op, a):
                return np.logical_not(self.value(a)) if op == "not" else -self.value(a)
            case Binary(op, a, b):
                return ARITHMETIC[op](self.value(a), self.value(b))
            case Compare(op, a, b):
                return COMPARE[op](self.value(a), self.value(b))
            case Logical(op, a, b):
                join = np.logical_and if op == "and" else np.logical_or
                return join(self.value(a), self.value(b))
            case Select(c, a, b):
                return np.where(self.value(c), self.value(a), self.value(b))
            case Call(function, args):
                return numerics.MEANINGS[function](*(self.value(arg) for arg in args))
            case Cast(_, a):
                return numerics.round_to(self.value(a), node.dtype)
            case Reduce(op, a, indices):
                shape = [self.size(i) if i in indices else 1 for i in self.axes]
                x = self.value(a)
                full = np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
                return numerics.reduce(op, full, tuple(self.axes[i] for i in indices))
        raise AssertionError(f"no meaning for {type(node).__name__}")

    def _named(self, name: str, node: Name) -> Array:
        if name in self.named:
            return self.named[name]
        if name in self.axes:
            start = self.offsets.get(name, 0)
            shape = [1] * len(self.axes)
            shape[self.axes[name]] = self.size(name)
            return np.arange(start, start + self.size(name), dtype=node.dtype.numpy).reshape(shape)
        raise AssertionError(f"nothing is called {name}")
