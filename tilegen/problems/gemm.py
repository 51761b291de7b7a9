"""General matrix multiplication with a formula as its epilogue."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilegen import formula as fl
from tilegen.errors import FormulaError, UsageError
from tilegen.fields import option
from tilegen.names import c_ident
from tilegen.problems.base import Arrays, Expected, Problem, Scalar, Size, Sizes, Tensor
from tilegen.problems.gemm_rows import RowReduction, refuse_rows, split
from tilegen.values import BF16, DTYPES, E4M3, E5M2, F16, F32, F64, I8, I32, TF32, U8
from tilegen.values import DType, Layout, dtype, nearest

# Named epilogues. `blas` follows the BLAS: beta = 0 overwrites even NaN, alpha = 0 reads neither A nor B.
EPILOGUES: dict[str, str] = {
    "none": "acc",
    "bias": "acc + bias[n]",
    "relu": "relu(acc)",
    "bias_relu": "relu(acc + bias[n])",
    "bias_gelu": "gelu(acc + bias[n])",
    "bias_silu": "silu(acc + bias[n])",
    "residual": "acc + residual[m,n]",
    "blas": "where(alpha == 0, 0, alpha * acc) + where(beta == 0, 0, beta * c[m,n])",
}

# Type in which products are summed, by input type.
ACCUMULATOR = {F64: F64, F32: F32, TF32: F32, F16: F32, BF16: F32, E4M3: F32, E5M2: F32}
ACCUMULATOR |= {I8: I32, U8: I32}

# Error of a sum in units of (|a|.|b|) on tensor cores that keep about 13 bits beside the largest addend; estimated.
_COARSE_SUM = {E4M3: 2.0**-11, E5M2: 2.0**-11}

# Relative error of one input after conversion to the type that is multiplied.
_INPUT_ROUNDING = {TF32: 2.0**-11}

_RESERVED = ("a", "b", "acc", "m", "n", "k", "batch", "stream", "workspace", "num_threads")


def _operand_types(text: str) -> str:
    for item in filter(None, str(text).split(",")):
        name, colon, type_name = item.partition(":")
        if not colon or not name:
            raise UsageError(f"'{item}' is not NAME:DTYPE", "Example: bias:f32,scale:f32")
        dtype(type_name)
    return ",".join(sorted(filter(None, str(text).split(","))))


def _epilogue(text: str) -> str:
    if text in EPILOGUES:
        return text
    if text.isidentifier() and text not in ("acc",):
        raise UsageError(
            f"unknown epilogue '{text}'{nearest(text, EPILOGUES)}",
            f"Named: {', '.join(EPILOGUES)}; or a formula, such as 'gelu(acc + bias[n])'.",
        )
    canonical = fl.parse(text, ("m", "n")).text
    return next((name for name, body in EPILOGUES.items() if body == canonical), canonical)


@dataclass(frozen=True)
class Gemm(Problem):
    """C[m,n] = epilogue(sum over k of A[m,k] * B[n,k]), in any of the four layouts.

    Products are summed in float32 for half, tf32 and fp8 inputs, in the input's own type for f32 and
    f64, in int32 for int8. The result is rounded to nearest even once, when it is stored.

    Raises:
        UsageError, FormulaError: at construction, for types or a formula that cannot be.
    """

    dtype: DType = option(F16, "Type of A and B.", kind=DType)
    out_dtype: DType | None = option(
        None, "Type of the results; the type of A and B, i32 for int8.", kind=DType, derived=True
    )
    layout: Layout = option(
        Layout("t", "n"), "Storage of A and B: tn, tt, nn or nt (BLAS letters).", kind=Layout
    )
    epilogue: str = option("none", "Named epilogue or a formula over acc.", parse=_epilogue)
    operands: str = option(
        "", "Types of epilogue operands, as bias:f32,scale:f32.", parse=_operand_types
    )
    batched: bool = option(False, "A batch of products, one stride each.", kind=bool)

    operator: ClassVar[str] = "gemm"
    # Arrays of the product itself, which the epilogue does not see.
    product_arrays: ClassVar[tuple[str, ...]] = ("a", "b")

    def __post_init__(self) -> None:
        set_ = functools.partial(object.__setattr__, self)
        set_("dtype", dtype(self.dtype))
        if self.dtype not in ACCUMULATOR:
            known = ", ".join(t.name for t in ACCUMULATOR)
            raise UsageError(
                f"--dtype: a gemm has no inputs of type {self.dtype}", f"Types: {known}"
            )
        set_("layout", Layout.parse(self.layout))
        set_("epilogue", _epilogue(self.epilogue))
        set_("operands", _operand_types(self.operands))
        default_out = {I8: I32, U8: I32, TF32: F32, E4M3: BF16, E5M2: BF16}.get(
            self.dtype, self.dtype
        )
        set_("out_dtype", dtype(self.out_dtype) if self.out_dtype else default_out)
        rows = self.row_reductions  # binds the formula, so that a wrong one fails here
        refuse_rows(rows if self.batched else (), "a batch of products")

    @property
    def accumulator(self) -> DType:
        """Type in which products are summed."""
        return ACCUMULATOR[self.dtype]

    @property
    def storage(self) -> DType:
        """Type of A's and B's elements in memory."""
        return F32 if self.dtype is TF32 else self.dtype

    @property
    def indices(self) -> tuple[str, ...]:
        """Index names of a result."""
        return ("batch", "m", "n") if self.batched else ("m", "n")

    @functools.cached_property
    def formula(self) -> fl.Formula:
        """The epilogue as parsed; a named one takes the batch index where there are batches."""
        text = EPILOGUES.get(self.epilogue, self.epilogue)
        if self.batched and self.epilogue in EPILOGUES:
            text = text.replace("[m,n]", "[batch,m,n]")
        return fl.parse(text, ("m", "n")).with_output("c", self.indices)

    @functools.cached_property
    def typed(self) -> fl.TypedFormula:
        """The epilogue bound to this problem's indices and types; a bare expression is stored in `c`."""
        given = dict(item.split(":") for item in self.operands.split(",") if item)
        scalars = [n for n in self.formula.scalars if n != "acc" and n not in self.indices]
        outputs = list(self.formula.outputs)
        names = [*self.formula.operands, *scalars, *outputs]
        for name in given:
            if name not in names:
                raise UsageError(
                    f"--operands: the epilogue has no operand '{name}'{nearest(name, names)}",
                    f"Its operands: {', '.join(names) or 'none'}",
                )
        for name in names:
            c_ident(name)
            if name in _RESERVED:
                raise FormulaError(
                    f"'{name}' names an argument of the gemm itself",
                    f"Choose a name other than {', '.join(_RESERVED)}.",
                )
        scalar = F64 if self.accumulator is F64 else F32
        types = {n: self.out_dtype for n in [*self.formula.operands, *outputs]}
        # What has one value a row is small: it keeps the precision that it is computed in.
        types |= {n: scalar for n in outputs if "n" not in self.formula.outputs[n]}
        types |= {n: scalar for n in scalars}
        types |= {n: DTYPES[t] for n, t in given.items()}
        typed = fl.bind(
            self.formula,
            indices=self.indices,
            specials={"acc": self.accumulator},
            operands={n: types[n] for n in self.formula.operands},
            scalars={n: types[n] for n in scalars},
            outputs={n: types[n] for n in outputs},
            reductions=True,
        )
        if "acc" not in typed.specials:
            raise FormulaError(
                f"the epilogue '{self.formula.text}' does not mention acc, the sum over k",
                "An operator without a sum is a formula of its own: tilegen emit 'y[m,n] = ...'",
            )
        return typed

    @functools.cached_property
    def _split(self) -> tuple[fl.TypedFormula, tuple[RowReduction, ...]]:
        return split(self.typed)

    @property
    def elements(self) -> fl.TypedFormula:
        """The epilogue for one element: where it reduces rows, what the element adds to its row."""
        return self._split[0]

    @property
    def row_reductions(self) -> tuple[RowReduction, ...]:
        """Outputs that reduce the rows of the result."""
        return self._split[1]

    @functools.cached_property
    def skips_sum_when_zero(self) -> str | None:
        """The scalar that, being 0, leaves `acc` unread, so that neither A nor B is read."""
        return fl.unread_when_zero(self.typed, "acc")

    def title(self) -> str:
        a = "A[" + ",".join(self.layout.a_dims) + "]"
        b = "B[" + ",".join(self.layout.b_dims) + "]"
        return f"{self.formula.text} where acc = sum over k of {a} * {b}"

    def tokens(self) -> list[str]:
        words = ["gemm", self.dtype.name, str(self.layout)]
        default = type(self)(dtype=self.dtype).out_dtype
        if self.out_dtype is not default:
            words.append(f"o{self.out_dtype}")
        if self.batched:
            words.append("batched")
        if self.epilogue in EPILOGUES:
            words += [] if self.epilogue == "none" else [self.epilogue]
        else:
            words.append("e" + fl.digest(self.formula))
        if self.operands:
            words.append(self.operands.replace(":", "_").replace(",", "_"))
        return words

    def sizes(self) -> tuple[Size, ...]:
        batch = (Size("batch", "number of products"),) if self.batched else ()
        return (
            *batch,
            Size("m", "rows of the result"),
            Size("n", "columns of the result"),
            Size("k", "length of each sum"),
        )

    def _tensor(
        self, name: str, role: str, kind: DType, dims: tuple[str, ...], text: str
    ) -> Tensor:
        ld = f"ld{name}" if len(name) == 1 else f"ld_{name}"
        strides = {1: (), 2: (ld,), 3: (f"stride_{name}", ld)}[len(dims)]
        return Tensor(name, role, kind, dims, strides, text)

    def tensors(self) -> tuple[Tensor, ...]:
        batch = ("batch",) if self.batched else ()
        found = [
            self._tensor("a", "input", self.storage, batch + self.layout.a_dims, "the left matrix"),
            self._tensor(
                "b", "input", self.storage, batch + self.layout.b_dims, "the right matrix"
            ),
        ]
        formula, in_out = self.formula, self.formula.in_out
        for name, kind in self.typed.operands.items():
            if name not in in_out:
                text = "an operand of the epilogue"
                found.append(self._tensor(name, "input", kind, formula.operands[name], text))
        for name, kind in self.typed.outputs.items():
            role = "inout" if name in in_out else "output"
            found.append(self._tensor(name, role, kind, formula.outputs[name], "a result"))
        return tuple(found)

    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(
            Scalar(name, kind, "a scalar of the epilogue")
            for name, kind in self.typed.scalars.items()
        )

    def flops(self, sizes: Sizes) -> int:
        return 2 * sizes.get("batch", 1) * sizes["m"] * sizes["n"] * sizes["k"]

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """Float64 product and epilogue, with the bound of design: rounding of the sum and of the store.

        The sum of k products in the accumulator's precision differs from the exact one by at most
        about eps * sqrt(k) * (|a|.|b|) when rounding errors are independent (Higham, Accuracy and
        Stability of Numerical Algorithms, section 2.8); 4 covers the spread, and the tensor cores'
        truncation adds one eps per step of the sum.
        """
        a, b = arrays["a"], arrays["b"]
        skip = self.skips_sum_when_zero
        if skip is not None and scalars[skip] == 0:
            a, b = np.zeros_like(a), np.zeros_like(b)
        results = fl.evaluate_with_bound(
            self.typed,
            arrays=arrays,
            scalars=scalars,
            sizes=sizes,
            specials={"acc": self.sum_with_bound(sizes, a, b)},
        )
        return {name: Expected(value, bound) for name, (value, bound) in results.items()}

    def sum_with_bound(
        self, sizes: Sizes, left: np.ndarray, right: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The float64 product of stored A and B, and the error that a sum may have; see `reference`."""
        exact = self.accumulator is I32
        a = _matrix(left, self.layout.a == "t", exact)
        b = _matrix(right, self.layout.b == "t", exact)
        acc = np.matmul(a, b)
        if exact:
            return acc, np.zeros(acc.shape)
        step = self.accumulator.epsilon * (4 * max(1.0, sizes["k"]) ** 0.5 + 4)
        rounding = 2 * _INPUT_ROUNDING.get(self.dtype, 0.0) + _COARSE_SUM.get(self.dtype, 0.0)
        return acc, np.matmul(abs(a), abs(b)) * (step + rounding)

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        bm, bn, bk = tile
        triples = [
            (1, 1, 1),
            (7, 5, 3),
            (bm, bn, bk),
            (bm - 1, bn - 1, bk - 1),
            (bm + 1, bn + 1, bk + 1),
            (1, bn + 3, 2 * bk + 1),
            (bm + 5, 1, 67),
            (0, 8, 8),
            (8, 0, 8),
            (13, 17, 0),
            (2 * bm + 3, bn // 2 + 1, 5 * bk + 7),
        ]
        cases = [{"m": m, "n": n, "k": k} for m, n, k in triples]
        return [{"batch": 3, **c} for c in cases] if self.batched else cases


def _matrix(array: np.ndarray, plain: bool, exact: bool) -> np.ndarray:
    """The stored matrix as float64 (int64 where sums are exact), transposed unless `plain`."""
    wide = array.astype(np.int64 if exact else np.float64)
    return wide if plain else np.swapaxes(wide, -1, -2)
