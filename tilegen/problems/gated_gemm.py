"""Two products of the same left matrix, joined by a formula: the gated layers of transformers (SwiGLU and its kin)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tilegen import formula as fl
from tilegen.errors import FormulaError
from tilegen.fields import option
from tilegen.problems.base import Arrays, Expected, Problem, Scalar, Size, Sizes, Tensor
from tilegen.problems.gemm import Gemm
from tilegen.problems.gemm_rows import RowReduction, refuse_rows
from tilegen.values import F16, DType, Layout

# Shazeer, GLU Variants Improve Transformer, 2020.
SWIGLU = "silu(gate) * acc"


@dataclass(frozen=True)
class GatedGemm(Problem):
    """C[m,n] = a formula of acc, the sum over k of A[m,k] * B[n,k], and of gate, that of A[m,k] * G[n,k].

    Raises:
        UsageError, FormulaError: at construction, for types or a formula that cannot be.
    """

    dtype: DType = option(F16, "Type of A, B and the gate's matrix.", kind=DType)
    out_dtype: DType | None = option(
        None, "Type of the results; the type of A and B, bf16 for fp8.", kind=DType, derived=True
    )
    layout: Layout = option(
        Layout("t", "n"), "Storage of A, and of B and the gate's matrix.", kind=Layout
    )
    epilogue: str = option(SWIGLU, "A formula over acc and gate.", kind=str)
    operands: str = option("", "Types of epilogue operands, as bias:f32,scale:f32.", kind=str)

    row_reductions: ClassVar[tuple[RowReduction, ...]] = ()
    operator: ClassVar[str] = "gated_gemm"
    batched: ClassVar[bool] = False
    skips_sum_when_zero: ClassVar[str | None] = None
    # Arrays of the products themselves, which the epilogue does not see.
    product_arrays: ClassVar[tuple[str, ...]] = ("a", "b", "b_gate")
    indices: ClassVar[tuple[str, ...]] = ("m", "n")

    def __post_init__(self) -> None:
        plain = Gemm(self.dtype, self.out_dtype, self.layout)
        for name in ("dtype", "out_dtype", "layout"):
            object.__setattr__(self, name, getattr(plain, name))
        object.__setattr__(self, "epilogue", fl.parse(self.epilogue).text)
        _ = self.typed  # binds the formula, so that a wrong one fails here

    @functools.cached_property
    def one(self) -> Gemm:
        """One of the two products, with the epilogue's operands: gate is a scalar there."""
        given = ",".join(filter(None, [self.operands, "gate:f32"]))
        return Gemm(self.dtype, self.out_dtype, self.layout, self.epilogue, given)

    @property
    def accumulator(self) -> DType:
        """Type in which products are summed."""
        return self.one.accumulator

    @property
    def storage(self) -> DType:
        """Type of the elements of A, B and the gate's matrix in memory."""
        return self.one.storage

    @property
    def elements(self) -> fl.TypedFormula:
        """The epilogue for one element."""
        return self.typed

    @property
    def formula(self) -> fl.Formula:
        """The epilogue as parsed."""
        return self.one.formula

    @functools.cached_property
    def typed(self) -> fl.TypedFormula:
        """The epilogue bound to indices and types, acc and gate alike."""
        if "gate" not in self.formula_scalars:
            raise FormulaError(
                f"the epilogue '{self.epilogue}' does not mention gate, the second sum over k",
                f"One sum is a gemm; two are joined as in '{SWIGLU}'.",
            )
        typed = self.one.typed
        refuse_rows(self.one.row_reductions, "a gated product")
        return fl.bind(
            self.formula,
            indices=self.indices,
            specials={"acc": self.accumulator, "gate": self.accumulator},
            operands=dict(typed.operands),
            scalars={n: t for n, t in typed.scalars.items() if n != "gate"},
            outputs=dict(typed.outputs),
        )

    @property
    def formula_scalars(self) -> tuple[str, ...]:
        """Names of the formula that are neither operands nor results."""
        return tuple(fl.parse(self.epilogue).scalars)

    def title(self) -> str:
        a = "A[" + ",".join(self.layout.a_dims) + "]"
        where = ",".join(self.layout.b_dims)
        return f"{self.formula.text} where acc, gate = sums over k of {a} * B[{where}], {a} * G[{where}]"

    def tokens(self) -> list[str]:
        plain = Gemm(self.dtype, self.out_dtype, self.layout).tokens()
        words = ["gated", *plain]
        if self.epilogue != SWIGLU:
            words.append("e" + fl.digest(self.formula))
        if self.operands:
            words.append(self.operands.replace(":", "_").replace(",", "_"))
        return words

    def sizes(self) -> tuple[Size, ...]:
        return self.one.sizes()

    def tensors(self) -> tuple[Tensor, ...]:
        a, b, *others = self.one.tensors()
        gate = dataclasses.replace(
            b, name="b_gate", strides=("ld_b_gate",), doc="the right matrix of the gate"
        )
        return (a, b, gate, *others)

    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(s for s in self.one.scalars() if s.name != "gate")

    def flops(self, sizes: Sizes) -> int:
        return 2 * self.one.flops(sizes)

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """Float64 products and formula; each sum is bounded as a plain product's."""
        sums = {
            name: self.one.sum_with_bound(sizes, arrays["a"], arrays[right])
            for name, right in (("acc", "b"), ("gate", "b_gate"))
        }
        results = fl.evaluate_with_bound(
            self.typed, arrays=arrays, scalars=scalars, sizes=sizes, specials=sums
        )
        return {name: Expected(value, bound) for name, (value, bound) in results.items()}

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        return self.one.cases(tile)
