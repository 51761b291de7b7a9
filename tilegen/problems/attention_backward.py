"""The gradients of scaled dot-product attention from its log-sum-exp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilegen.errors import UsageError
from tilegen.problems.attention import Attention
from tilegen.problems.attention_reference import Head, attend, weigh
from tilegen.problems.base import Arrays, Expected, Sizes, Tensor
from tilegen.values import F32


@dataclass(frozen=True)
class AttentionBackward(Attention):
    """dq, dk and dv of `Attention`, from d_o and what the forward pass left: o and its log-sum-exp.

    With p = exp(s - lse), dp = d_o . v and delta = sum over d of o * d_o, the gradient of a score is
    ds = p * (dp - delta); dv = p^T d_o, dk = scale * ds^T q, dq = scale * ds k. Weights and gradients of
    scores are rounded to the type of q before they are multiplied.

    Raises:
        UsageError, FormulaError: at construction, for types or formulas that cannot be.
    """

    operator: ClassVar[str] = "attention_backward"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("score", "sinks", "page", "lse"):
            if getattr(self, name):
                raise UsageError(
                    f"--{name}: the backward pass has no such option",
                    "It differentiates scale * q . k under a mask; its log-sum-exp is an input.",
                )

    def title(self) -> str:
        return f"dq, dk, dv of {super().title()}"

    def tokens(self) -> list[str]:
        return ["attention_backward", *super().tokens()[1:]]

    def tensors(self) -> tuple[Tensor, ...]:
        forward = {t.name: t for t in super().tensors()}
        o = forward.pop("o")
        found = list(forward.values())
        for name, text in (("o", "what the forward pass gave"), ("d_o", "the gradient of o")):
            found.append(_like(o, name, "input", text))
        strides = ("lse_stride_batch", "lse_stride_head")
        text = "natural logarithm of the sum of the exponentials of a row's scores"
        dims = ("batch", "heads", "seq_q")
        found.append(Tensor("lse", "input", F32, dims, strides, text, any_order=True))
        for name in "qkv":
            found.append(_like(forward[name], f"d{name}", "output", f"the gradient of {name}"))
        return tuple(found)

    def flops(self, sizes: Sizes) -> int:
        """Of the five products that the gradients need."""
        pairs = super().flops(sizes) // (2 * (self.head_dim + self.value_dim))
        return 2 * pairs * (3 * self.head_dim + 2 * self.value_dim)

    def draw(self, sizes: Sizes, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Random q, k, v and d_o; o and lse as the forward pass with the scale of `draw_scalars` gives them."""
        drawn = super().draw(sizes, rng)
        forward = Attention(
            self.dtype,
            self.head_dim,
            self.value_dim,
            self.causal,
            self.mask,
            align=self.align,
            operands=self.operands,
            rising=self.rising,
            lse=True,
        )
        found = attend(forward, sizes, drawn, self.draw_scalars(rng))
        drawn["o"] = found["o"].value.astype(self.dtype.numpy)
        drawn["lse"] = found["lse"].value.astype(np.float32)
        return drawn

    def draw_scalars(self, rng: np.random.Generator) -> dict[str, float]:
        # The inputs o and lse belong to one scale: the same for every seed.
        return super().draw_scalars(np.random.default_rng(0))

    def reference(
        self, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
    ) -> dict[str, Expected]:
        """The gradients in float64, a head at a time, with the rounding that a right kernel may show.

        Errors that reach a result: of a weight (its score, the exponential), of dp and delta, of the
        rounding of weights and of gradients of scores, of the sums, and of the store.
        """
        found = {}
        for t in self.tensors():
            if t.is_written:
                found[t.name] = [np.zeros(t.shape(sizes)) for _ in range(2)]
        ratio = max(1, sizes["heads"] // max(1, sizes["kv_heads"]))
        for b in range(sizes["batch"]):
            for h in range(sizes["heads"]):
                head = weigh(self, sizes, arrays, scalars, b, h, h // ratio)
                own = {n: np.asarray(arrays[n][b, :, h], np.float64) for n in ("o", "d_o")}
                lse = np.asarray(arrays["lse"][b, h], np.float64)
                for name, pair in self._head(head, own, lse, scalars["scale"]).items():
                    at = h if name == "dq" else h // ratio
                    for total, part in zip(found[name], pair):
                        total[b, :, at] += part
        half, tiny = self.dtype.epsilon / 2, 2.0**-24
        return {n: Expected(x, e + half * np.abs(x) + tiny) for n, (x, e) in found.items()}

    def _head(self, head: Head, own, lse, scale: float):
        half = self.dtype.epsilon / 2
        row = lse[:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            p = np.where(np.isfinite(head.s), np.exp(head.s - row), 0.0)
            distance = np.where(p > 0, np.abs(head.s) + np.abs(row) + 1, 0.0)
        relative = head.error + 2.0**-21 * distance
        d_o, o = own["d_o"], own["o"]
        dp = d_o @ head.v.T
        delta = (o * d_o).sum(axis=1, keepdims=True)
        sums = F32.epsilon * (4 * self.value_dim**0.5 + 8)
        error = sums * (np.abs(d_o) @ np.abs(head.v).T + (np.abs(o) * np.abs(d_o)).sum(1)[:, None])
        ds = p * (dp - delta)
        ds_error = np.abs(ds) * relative + p * error
        results = {}
        for name, weights, weights_error, right, factor in (
            ("dv", p.T, (p * relative).T, d_o, 1.0),
            ("dk", ds.T, ds_error.T, head.q, scale),
            ("dq", ds, ds_error, head.k, scale),
        ):
            magnitude = np.abs(weights) @ np.abs(right)
            spread = np.minimum(magnitude, 4 * np.sqrt(weights**2 @ right**2))
            sums = F32.epsilon * (4 * max(1, weights.shape[1]) ** 0.5 + 8)
            bound = weights_error @ np.abs(right) + half * spread + sums * magnitude
            results[name] = (factor * (weights @ right), factor * bound)
        return results

    def cases(self, tile: tuple[int, ...]) -> list[dict[str, int]]:
        # A tile of keys and one of queries have the same rows. Without heads of q, dk and dv are zeros.
        names = ("batch", "heads", "kv_heads", "seq_q", "seq_k")
        empty = [dict(zip(names, shape)) for shape in ((1, 0, 2, 4, 4), (1, 0, 0, 4, 4))]
        return empty + super().cases((tile[0], tile[0]))


def _like(tensor: Tensor, name: str, role: str, text: str) -> Tensor:
    strides = tuple(f"{name}_stride_{d}" for d in ("batch", "seq", "head"))
    return Tensor(name, role, tensor.dtype, tensor.dims, strides, text, any_order=True)
