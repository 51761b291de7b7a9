"""Scaled dot-product attention, forward, with the score and the mask as formulas."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilegen import formula as fl
from tilegen.errors import FormulaError, UsageError
from tilegen.fields import option
from tilegen.names import c_ident
from tilegen.problems.attention_formulas import (
    CAUSAL,
    AttentionFormula,
    bind_mask,
    bind_score,
    canonical,
)
from tilegen.problems.base import Arrays, Expected, Problem, Scalar, Size, Sizes, Tensor
from tilegen.values import BF16, F16, F32, I32, DType, dtype, nearest

DTYPES = (F16, BF16, F32)
ALIGNMENTS = ("bottom_right", "top_left")

_RESERVED = (
    "q",
    "k",
    "v",
    "o",
    "lse",
    "sink",
    "table",
    "d_o",
    "dq",
    "dk",
    "dv",
    "s",
    "scale",
    "batch",
    "heads",
    "kv_heads",
    "seq_q",
    "seq_k",
)
_RESERVED += ("stream", "workspace", "workspace_bytes", "num_threads", "b", "h", "i", "j")

# Names that emitted text has for itself where the names of formulas stand too.
_TAKEN = frozenset(
    """batch_heads batch_head blocks call device error first_row heads_per_kv i_read is_few j_read
    k_map kernel number o_map position processors q_map refusal row_tiles shared_bytes task tasks
    threads tile tiles tile_counter v_map whole""".split()
)
_STRIDE = re.compile(r"(d?[qkvo]|d_o|lse)_stride_\w+|distance_\d+")


def _alignment(text: str) -> str:
    word = str(text).replace("-", "_")
    if word not in ALIGNMENTS:
        raise UsageError(
            f"'{text}' is no alignment{nearest(word, ALIGNMENTS)}",
            "Write bottom_right or top_left.",
        )
    return word


def _operand_types(text: str) -> str:
    items = sorted(filter(None, str(text).split(",")))
    for item in items:
        name, colon, type_name = item.partition(":")
        if not colon or not name:
            raise UsageError(f"'{item}' is not NAME:DTYPE", "Example: slope:f32,window:i32")
        dtype(type_name)
    return ",".join(items)


def _names(text: str) -> str:
    return ",".join(sorted(filter(None, (word.strip() for word in str(text).split(",")))))


@dataclass(frozen=True)
class Attention(Problem):
    """o[b,i,h,:] = sum over j of softmax_j(score(scale * q[b,i,h,:] . k[b,j,g,:])) * v[b,j,g,:].

    Query head h reads key/value head g = h // (heads / kv_heads). Scores are float32; the weights are
    rounded to the type of v before they are multiplied with it. A query that sees no key gives zeros,
    and -inf as its log-sum-exp.

    In formulas `s` is the scaled score, `b` the batch, `h` the query head, `j` the key, and `i` the
    query. As an index of an operand, `i` counts the rows of q; as a value it is the query's position
    among the keys: i + seq_k - seq_q when the sequences are aligned at the bottom right.

    Raises:
        UsageError, FormulaError: at construction, for types or formulas that cannot be.
    """

    dtype: DType = option(F16, "Type of q, k, v and o.", kind=DType)
    head_dim: int = option(128, "Elements of a query and of a key.", kind=int)
    value_dim: int | None = option(
        None, "Elements of a value and of an output; head_dim.", kind=int, derived=True
    )
    causal: bool = option(False, "A query sees no later key: the mask j <= i.", kind=bool)
    mask: str = option("", "Which keys a query sees, a formula over i, j, b, h.", parse=canonical)
    score: str = option("", "A formula over s, i, j, b, h that replaces s.", parse=canonical)
    align: str = option(
        "bottom_right",
        "Where sequences of different length meet: bottom_right (the last query is the last key) or "
        "top_left.",
        parse=_alignment,
    )
    operands: str = option(
        "", "Types of the formulas' operands, as slope:f32,window:i32.", parse=_operand_types
    )
    rising: str = option(
        "",
        "Integer operands of i that do not fall with i, as begin,end: as bounds of j they skip blocks.",
        parse=_names,
    )
    sinks: bool = option(
        False, "A score sink[h] more in every softmax of head h, which has no value.", kind=bool
    )
    page: int = option(
        0,
        "Keys of a page: k and v are a cache of pages, which table[b,n] names for sequence b; 0: no pages.",
        kind=int,
        unit="keys",
    )
    lse: bool = option(False, "Also write the log-sum-exp of every row of scores.", kind=bool)

    operator: ClassVar[str] = "attention"

    def __post_init__(self) -> None:
        set_ = functools.partial(object.__setattr__, self)
        set_("dtype", dtype(self.dtype))
        if self.dtype not in DTYPES:
            known = ", ".join(t.name for t in DTYPES)
            raise UsageError(
                f"--dtype: attention has no inputs of type {self.dtype}", f"Types: {known}"
            )
        set_("mask", canonical(self.mask))
        set_("score", canonical(self.score))
        set_("align", _alignment(self.align))
        set_("operands", _operand_types(self.operands))
        set_("rising", _names(self.rising))
        if self.mask == CAUSAL:
            set_("mask", "")
            set_("causal", True)
        if self.causal and self.mask:
            raise UsageError(
                "--causal and --mask are both given", f"Write one mask: --mask '{CAUSAL} and ...'"
            )
        if self.value_dim is None:
            set_("value_dim", self.head_dim)
        for name, extent in (("head_dim", self.head_dim), ("value_dim", self.value_dim)):
            if not 8 <= extent <= 1024 or extent % 8:
                flag = name.replace("_", "-")
                raise UsageError(
                    f"--{flag}: {extent} is not a multiple of 8 from 8 to 1024",
                    "Common: 64, 80, 96, 128, 192, 256.",
                )
        if self.page < 0 or self.page % 16:
            raise UsageError(
                f"--page: {self.page} keys are no multiple of 16", "Common: 16, 64, 128, 256."
            )
        _ = self.formulas  # binds them, so that a wrong one fails here

    @functools.cached_property
    def formulas(self) -> tuple[AttentionFormula, ...]:
        """The mask and the score, those that there are, bound to their types."""
        given = dict(item.split(":") for item in self.operands.split(",") if item)
        found = []
        if self.mask:
            found.append(bind_mask(self.mask, given, self.shifted))
        if self.score:
            found.append(bind_score(self.score, given, self.shifted))
        names = [n for f in found for n in (*f.typed.operands, *f.typed.scalars)]
        for name in given:
            if name not in names:
                raise UsageError(
                    f"--operands: the formulas have no operand '{name}'{nearest(name, names)}",
                    f"Their operands: {', '.join(names) or 'none'}",
                )
        read = {n: (f, f.formula.operands[n]) for f in found for n in f.typed.operands}
        for name in filter(None, self.rising.split(",")):
            f, indices = read.get(name, (None, ()))
            if f is None or indices not in (("i",), ("b", "i")) or f.typed.operands[name].is_float:
                raise UsageError(
                    f"--rising: '{name}' is no integer operand of i",
                    "Example: --mask 'j >= begin[i] and j < end[i]' --operands begin:i32,end:i32.",
                )
        for tensor in (t for f in found for t in f.tensors()):
            if self.page and "seq_k" in tensor.dims:
                raise FormulaError(
                    f"'{tensor.name}' is read by key, and the keys of a paged cache have no such array",
                    "Operands of b, h and i are read; keys in use: --mask 'j < length[b]'.",
                )
        for name in [*names, *(n for f in found for n in f.formula.intermediates)]:
            c_ident(name)
            if name in _RESERVED:
                raise FormulaError(
                    f"'{name}' names an argument of attention itself",
                    f"Choose a name other than {', '.join(_RESERVED)}.",
                )
            if name in _TAKEN or _STRIDE.fullmatch(name):
                raise FormulaError(
                    f"emitted kernels use the name '{name}' for something of their own",
                    f"Choose another, such as {name}_of_mine.",
                )
        return tuple(found)

    @property
    def shifted(self) -> bool:
        """Whether a query's position is its row plus seq_k - seq_q."""
        return self.align == "bottom_right"

    def mask_formula(self) -> AttentionFormula | None:
        """The mask, if it is a formula."""
        return next((f for f in self.formulas if f.role == "mask"), None)

    def score_formula(self) -> AttentionFormula | None:
        """The score, if it is a formula."""
        return next((f for f in self.formulas if f.role == "score"), None)

    def title(self) -> str:
        text = self.score or "s"
        seen = CAUSAL if self.causal else self.mask
        weighed = f"({text} where {seen})" if seen else f"({text})" if self.score else "s"
        return f"o = softmax over j of {weighed} times v, s = scale * q . k"

    def tokens(self) -> list[str]:
        words = ["attention", self.dtype.name, f"d{self.head_dim}"]
        if self.value_dim != self.head_dim:
            words[-1] += f"x{self.value_dim}"
        if self.causal:
            words.append("causal")
        if self.formulas:
            text = "|".join((self.mask, self.score, self.operands))
            text += f"|{self.rising}" if self.rising else ""
            words.append("f" + hashlib.sha256(text.encode()).hexdigest()[:6])
        if self.align == "top_left":
            words.append("tl")
        if self.sinks:
            words.append("sinks")
        if self.page:
            words.append(f"p{self.page}")
        if self.lse:
            words.append("lse")
        return words

    def sizes(self) -> tuple[Size, ...]:
        keys = [Size("seq_k", "keys of a sequence")]
        if self.page:
            keys = [Size("pages", "pages of the cache")]
            keys += [Size("seq_pages", f"pages of a sequence, of {self.page} keys each")]
        return (
            Size("batch", "number of sequences"),
            Size("heads", "heads of q and o"),
            Size("kv_heads", "heads of k and v, a divisor of heads"),
            Size("seq_q", "queries of a sequence"),
            *keys,
        )

    def keys(self, sizes: Sizes) -> int:
        """Keys of a sequence."""
        return sizes["seq_pages"] * self.page if self.page else sizes["seq_k"]

    def tensors(self) -> tuple[Tensor, ...]:
        found = []
        for name, seq, heads, dim, text in (
            ("q", "seq_q", "heads", self.head_dim, "the queries"),
            ("k", "seq_k", "kv_heads", self.head_dim, "the keys"),
            ("v", "seq_k", "kv_heads", self.value_dim, "the values"),
        ):
            strides = tuple(f"{name}_stride_{d}" for d in ("batch", "seq", "head"))
            dims = ("batch", seq, heads, str(dim))
            if self.page and name != "q":
                strides = (f"{name}_stride_page", *strides[1:])
                dims = ("pages", str(self.page), heads, str(dim))
            found.append(Tensor(name, "input", self.dtype, dims, strides, text, any_order=True))
        for f in self.formulas:
            found += f.tensors()
        if self.page:
            text = "the pages of every sequence, in order, each below pages"
            dims, strides = ("batch", "seq_pages"), ("table_stride_batch",)
            found.append(Tensor("table", "input", I32, dims, strides, text))
        if self.sinks:
            text = "a score a head that takes weight and gives no value"
            found.append(Tensor("sink", "input", F32, ("heads",), (), text))
        strides = ("o_stride_batch", "o_stride_seq", "o_stride_head")
        dims = ("batch", "seq_q", "heads", str(self.value_dim))
        found.append(Tensor("o", "output", self.dtype, dims, strides, "the result", any_order=True))
        if self.lse:
            strides = ("lse_stride_batch", "lse_stride_head")
            text = "natural logarithm of the sum of the exponentials of a row's scores"
            dims = ("batch", "heads", "seq_q")
            found.append(Tensor("lse", "output", F32, dims, strides, text, any_order=True))
        return tuple(found)

    def scalars(self) -> tuple[Scalar, ...]:
        own = Scalar("scale", F32, "factor of every score, above 0; 1 / sqrt(head_dim) as a rule")
        found = {s.name: s for f in self.formulas for s in f.scalars()}
        return (own, *found.values())

    def requirements(self) -> list[str]:
        found = ["heads is a multiple of kv_heads.", "scale is finite and above 0."]
        if self.rising:
            found.append(f"{self.rising.replace(',', ' and ')}: not falling with i.")
        return found

    def flops(self, sizes: Sizes) -> int:
        pairs = sizes["batch"] * sizes["heads"] * self._pairs(sizes["seq_q"], self.keys(sizes))
        return 2 * pairs * (self.head_dim + self.value_dim)

    def _pairs(self, seq_q: int, seq_k: int) -> int:
        """Pairs of query and key that the causal mask leaves; all of them for other masks."""
        if not self.causal:
            return seq_q * seq_k
        rows = np.arange(seq_q, dtype=np.int64) + 1 + (seq_k - seq_q if self.shifted else 0)
        return int(np.clip(rows, 0, seq_k).sum())

    def places(self, sizes: Sizes, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Integers of the batch are numbers of keys, rising ones rise, a table names any pages."""
        drawn = {}
        tensors = {t.name: t for t in self.tensors()}
        for tensor in (t for f in self.formulas for t in f.tensors()):
            if tensor.dims == ("batch",) and not tensor.dtype.is_float:
                counts = rng.integers(0, self.keys(sizes) + 1, sizes["batch"])
                drawn[tensor.name] = counts.astype(tensor.dtype.numpy)
        for name in filter(None, self.rising.split(",")):
            shape, kind = tensors[name].shape(sizes), tensors[name].dtype.numpy
            drawn[name] = np.sort(rng.integers(0, self.keys(sizes) + 1, shape), axis=-1).astype(
                kind
            )
        if self.page:
            shape = (sizes["batch"], sizes["seq_pages"])
            drawn["table"] = rng.integers(0, max(1, sizes["pages"]), shape).astype(np.int32)
        return drawn

    def draw_scalars(self, rng: np.random.Generator) -> dict[str, float]:
        drawn = super().draw_scalars(rng)
        drawn["scale"] = float(np.float32(rng.uniform(0.5, 1.5) * self.head_dim**-0.5))
        for scalar in self.scalars():
            if not scalar.dtype.is_float:
                drawn[scalar.name] = int(rng.integers(1, 200))
        return drawn

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """Softmax attention in float64, a head at a time, with the rounding that a right kernel may show.

        Errors that reach the result: of a score (its sum, the formula, the exponential), as a relative
        error of its weight; of a weight's rounding to the type of v; of both sums; of the store. The
        rounding of weights is independent from key to key: 4 sqrt(sum (p v)^2) half-units bound it.
        """
        from tilegen.problems.attention_reference import attend

        return attend(self, sizes, arrays, scalars)

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        bm, bn = tile
        shapes = [
            (1, 1, 1, 1, 1),
            (2, 4, 2, bm, bn),
            (1, 2, 2, bm - 1, bn + 1),
            (1, 3, 1, bm + 1, bn - 1),
            (1, 2, 1, 3, 2 * bn + 5),
            (1, 1, 1, 1, 8),
            (0, 2, 1, 4, 4),
            (1, 2, 1, 0, 4),
            (1, 2, 2, 4, 0),
            (2, 2, 2, 2 * bm + 7, 67),
            (1, 6, 2, bm + 59, 3 * bn + 1),
        ]
        names = ("batch", "heads", "kv_heads", "seq_q", "seq_k")
        found = [dict(zip(names, shape)) for shape in shapes]
        for sizes in found if self.page else ():
            sizes["seq_pages"] = -(-sizes.pop("seq_k") // self.page)
            sizes["pages"] = sizes["batch"] * sizes["seq_pages"] + 1
        return found
