"""A product of 8-bit matrices whose blocks have scales, as DeepSeek-V3 quantises them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilegen import formula as fl
from tilegen.errors import FormulaError, UsageError
from tilegen.fields import option
from tilegen.problems.base import Arrays, Expected, Problem, Scalar, Size, Sizes, Tensor, blocks
from tilegen.problems.gemm import Gemm
from tilegen.problems.gemm_rows import RowReduction, refuse_rows
from tilegen.values import E4M3, E5M2, F32, DType, Layout

# Elements along K, and columns of the result, that share a scale.
SCALE_BLOCK = 128

_OWN = ("a_scale", "b_scale")


@dataclass(frozen=True)
class ScaledGemm(Problem):
    """C[m,n] = epilogue(sum over k of A[m,k] * a_scale[m,k/128] * B[n,k] * b_scale[n/128,k/128]).

    A's scales belong to 1 x 128 elements, B's to 128 x 128; the last block of a dimension may be partial.
    DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.3.2.

    Raises:
        UsageError, FormulaError: at construction, for types or a formula that cannot be.
    """

    dtype: DType = option(E4M3, "Type of A and B: e4m3 or e5m2.", kind=DType)
    out_dtype: DType | None = option(None, "Type of the results; bf16.", kind=DType, derived=True)
    epilogue: str = option("none", "Named epilogue or a formula over acc.", kind=str)
    operands: str = option("", "Types of epilogue operands, as bias:f32,scale:f32.", kind=str)

    layout: ClassVar[Layout] = Layout("t", "n")
    row_reductions: ClassVar[tuple[RowReduction, ...]] = ()
    operator: ClassVar[str] = "scaled_gemm"
    batched: ClassVar[bool] = False
    # Arrays of the product itself, which the epilogue does not see.
    product_arrays: ClassVar[tuple[str, ...]] = ("a", "b", *_OWN)
    indices: ClassVar[tuple[str, ...]] = ("m", "n")

    def __post_init__(self) -> None:
        for name in ("dtype", "out_dtype", "epilogue", "operands"):
            object.__setattr__(self, name, getattr(self.one, name))
        if self.dtype not in (E4M3, E5M2):
            raise UsageError(
                f"--dtype: blocks of {self.dtype} have no scales",
                "Types: e4m3, e5m2. Scales of rows and columns are a gemm's epilogue: "
                "'acc * rows[m] * cols[n]'.",
            )
        refuse_rows(self.one.row_reductions, "a product of scaled blocks")
        taken = [n for n in (*self.typed.operands, *self.typed.scalars) if n in _OWN]
        if taken:
            raise FormulaError(
                f"'{taken[0]}' names an argument of the scaled gemm itself",
                f"Choose a name other than {' and '.join(_OWN)}.",
            )

    @functools.cached_property
    def one(self) -> Gemm:
        """The product without scales."""
        return Gemm(self.dtype, self.out_dtype, self.layout, self.epilogue, self.operands)

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
        return self.typed

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
        """The scalar that, being 0, leaves `acc` unread, so that no operand is read."""
        return self.one.skips_sum_when_zero

    def title(self) -> str:
        a, b = "A[m,k] * a_scale[m,k/128]", "B[n,k] * b_scale[n/128,k/128]"
        return f"{self.formula.text} where acc = sum over k of {a} * {b}"

    def tokens(self) -> list[str]:
        return ["scaled", *self.one.tokens()]

    def sizes(self) -> tuple[Size, ...]:
        return self.one.sizes()

    def tensors(self) -> tuple[Tensor, ...]:
        a, b, *others = self.one.tensors()
        deep, wide = blocks("k", SCALE_BLOCK), blocks("n", SCALE_BLOCK)
        scales = [
            Tensor(name, "input", F32, (rows, deep), (f"ld_{name}",), text)
            for name, rows, text in (
                ("a_scale", "m", "factors of 1 x 128 elements of A"),
                ("b_scale", wide, "factors of 128 x 128 elements of B"),
            )
        ]
        return (a, b, *scales, *others)

    def scalars(self) -> tuple[Scalar, ...]:
        return self.one.scalars()

    def flops(self, sizes: Sizes) -> int:
        return self.one.flops(sizes)

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """The float64 product of the scaled operands; the bound is a plain product's of these.

        Scaling a step's sum rounds twice, which is less than what the bound allows a step of the sum.
        """
        skip = self.skips_sum_when_zero
        scale = {name: np.asarray(arrays[name], np.float64) for name in _OWN}
        if skip is not None and scalars[skip] == 0:
            scale = {name: np.zeros_like(array) for name, array in scale.items()}
        deep = np.arange(sizes["k"]) // SCALE_BLOCK
        wide = np.arange(sizes["n"]) // SCALE_BLOCK
        left = arrays["a"].astype(np.float64) * scale["a_scale"][:, deep]
        right = arrays["b"].astype(np.float64) * scale["b_scale"][wide][:, deep]
        results = fl.evaluate_with_bound(
            self.typed,
            arrays=arrays,
            scalars=scalars,
            sizes=sizes,
            specials={"acc": self.one.sum_with_bound(sizes, left, right)},
        )
        return {name: Expected(value, bound) for name, (value, bound) in results.items()}

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        return self.one.cases(tile)
