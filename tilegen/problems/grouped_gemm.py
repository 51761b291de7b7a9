"""Matrix products of groups of rows, each group with a right matrix of its own: a mixture of experts in one launch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilegen import formula as fl
from tilegen.errors import FormulaError
from tilegen.fields import option
from tilegen.problems.base import Arrays, Expected, Problem, Scalar, Size, Sizes, Tensor
from tilegen.problems.gemm import Gemm
from tilegen.problems.gemm_rows import RowReduction
from tilegen.values import F16, I32, DType, Layout

# Names of the arguments that a product of groups has besides those of a plain one.
_OWN = ("groups", "ends")


@dataclass(frozen=True)
class GroupedGemm(Problem):
    """C[m,n] = epilogue(sum over k of A[m,k] * B[g,n,k]) for every row m of group g.

    Group g holds the rows from ends[g-1] (0 for the first) to ends[g], exclusive; it may be empty.

    Raises:
        UsageError, FormulaError: at construction, for types or a formula that cannot be.
    """

    dtype: DType = option(F16, "Type of A and B.", kind=DType)
    out_dtype: DType | None = option(
        None, "Type of the results; the type of A and B, i32 for int8.", kind=DType, derived=True
    )
    layout: Layout = option(Layout("t", "n"), "Storage of A and B: tn or tt.", kind=Layout)
    epilogue: str = option("none", "Named epilogue or a formula over acc.", kind=str)
    operands: str = option("", "Types of epilogue operands, as bias:f32,scale:f32.", kind=str)

    operator: ClassVar[str] = "grouped_gemm"
    batched: ClassVar[bool] = False
    # Arrays of the product itself, which the epilogue does not see.
    product_arrays: ClassVar[tuple[str, ...]] = ("a", "b", "ends")
    indices: ClassVar[tuple[str, ...]] = ("m", "n")

    def __post_init__(self) -> None:
        for name in ("dtype", "out_dtype", "layout", "epilogue", "operands"):
            object.__setattr__(self, name, getattr(self.one, name))
        taken = [n for n in (*self.typed.operands, *self.typed.scalars) if n in _OWN]
        if taken:
            raise FormulaError(
                f"'{taken[0]}' names an argument of the grouped gemm itself",
                f"Choose a name other than {' and '.join(_OWN)}.",
            )

    @functools.cached_property
    def one(self) -> Gemm:
        """The product of one group."""
        return Gemm(self.dtype, self.out_dtype, self.layout, self.epilogue, self.operands)

    @property
    def row_reductions(self) -> tuple[RowReduction, ...]:
        """Outputs that reduce rows of the result."""
        return self.one.row_reductions

    @property
    def accumulator(self) -> DType:
        """Type in which products are summed."""
        return self.one.accumulator

    @property
    def storage(self) -> DType:
        """Type of A's and B's elements in memory."""
        return self.one.storage

    @property
    def elements(self) -> fl.TypedFormula:
        """The epilogue for one element."""
        return self.one.elements

    @property
    def formula(self) -> fl.Formula:
        """The epilogue as parsed."""
        return self.one.formula

    @property
    def typed(self) -> fl.TypedFormula:
        """The epilogue bound to indices and types."""
        return self.one.typed

    @property
    def skips_sum_when_zero(self) -> str | None:
        """The scalar that, being 0, leaves `acc` unread, so that neither A nor B is read."""
        return self.one.skips_sum_when_zero

    def title(self) -> str:
        b = "B[g," + ",".join(self.layout.b_dims) + "]"
        return f"{self.formula.text} where acc = sum over k of A[m,k] * {b}, row m of group g"

    def tokens(self) -> list[str]:
        return ["grouped", *self.one.tokens()]

    def sizes(self) -> tuple[Size, ...]:
        return (Size("groups", "number of groups of rows"), *self.one.sizes())

    def tensors(self) -> tuple[Tensor, ...]:
        a, b, *others = self.one.tensors()
        b = dataclasses.replace(
            b, dims=("groups", *b.dims), strides=("stride_b", *b.strides), doc="a matrix a group"
        )
        ends = Tensor("ends", "input", I32, ("groups",), (), "the row after the last of each group")
        return (a, b, ends, *others)

    def scalars(self) -> tuple[Scalar, ...]:
        return self.one.scalars()

    def requirements(self) -> list[str]:
        return ["ends does not decrease, and its last element is m."]

    def flops(self, sizes: Sizes) -> int:
        return self.one.flops(sizes)

    def places(self, sizes: Sizes, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The ends of groups: rows are cut anywhere, so that some groups may be empty."""
        if not sizes["groups"]:
            return {}
        cuts = np.sort(rng.integers(0, sizes["m"] + 1, sizes["groups"] - 1))
        return {"ends": np.append(cuts, sizes["m"]).astype(np.int32)}

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """The reference of one product for the rows of each group, one below the other."""
        dims = {t.name: t.dims for t in self.one.tensors()}
        found: dict[str, list[Expected]] = {t.name: [] for t in self.tensors() if t.is_written}
        # What follows the last group has no rows; it stands in for a call without groups.
        nothing = np.zeros((1, *arrays["b"].shape[1:]), arrays["b"].dtype)
        begin = 0
        for end, b in zip([*arrays["ends"], sizes["m"]], [*arrays["b"], *nothing]):
            rows = {
                name: array[begin:end] if dims[name][:1] == ("m",) else array
                for name, array in arrays.items()
                if name in dims
            }
            part = {"m": int(end) - begin, "n": sizes["n"], "k": sizes["k"]}
            for name, expected in self.one.reference(part, {**rows, "b": b}, scalars).items():
                found[name].append(expected)
            begin = int(end)
        return {
            name: Expected(
                np.concatenate([p.value for p in parts]), np.concatenate([p.bound for p in parts])
            )
            for name, parts in found.items()
        }

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        bm, bn, bk = tile
        quadruples = [
            (1, 1, 1, 1),
            (3, 7, 5, 8),
            (2, bm, bn, bk),
            (5, bm + 1, bn + 1, bk + 1),
            (4, 0, 8, 8),
            (3, 8, 0, 8),
            (2, 13, 17, 0),
            (4, 2 * bm + 3, bn // 2 + 8, 5 * bk + 8),
        ]
        return [{"groups": g, "m": m, "n": n, "k": k} for g, m, n, k in quadruples]
