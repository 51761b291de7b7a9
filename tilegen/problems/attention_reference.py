"""The float64 meaning of attention, with an error bound for every element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilegen import formula as fl
from tilegen.problems.base import Arrays, Expected, Sizes
from tilegen.values import F32

if TYPE_CHECKING:
    from tilegen.problems.attention import Attention

# Relative error of the exponential, its argument's rounding included, per unit of the argument.
_EXP = 2.0**-21


class Head(NamedTuple):
    """One query head: scores [seq_q][seq_k], -inf where masked, with an error bound; its arrays in float64."""

    s: np.ndarray
    error: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


def attend(
    problem: Attention, sizes: Sizes, arrays: Arrays, scalars: Mapping[str, float]
) -> dict[str, Expected]:
    """Every output of the problem; see `Attention.reference`."""
    batch, heads, seq_q = (sizes[n] for n in ("batch", "heads", "seq_q"))
    o, o_bound = (np.zeros((batch, seq_q, heads, problem.value_dim)) for _ in range(2))
    lse, lse_bound = (np.zeros((batch, heads, seq_q)) for _ in range(2))
    ratio = max(1, heads // max(1, sizes["kv_heads"]))
    for b in range(batch):
        for h in range(heads):
            head = weigh(problem, sizes, arrays, scalars, b, h, h // ratio)
            sink = float(arrays["sink"][h]) if problem.sinks else -np.inf
            result = _softmax(problem, head.s, head.error, head.v, sink)
            o[b, :, h], o_bound[b, :, h], lse[b, h], lse_bound[b, h] = result
    found = {"o": Expected(o, o_bound)}
    if problem.lse:
        found["lse"] = Expected(lse, lse_bound)
    return found


def weigh(
    problem: Attention,
    sizes: Sizes,
    arrays: Arrays,
    scalars: Mapping[str, float],
    b: int,
    h: int,
    kv_head: int,
) -> Head:
    """The scores of a query head, in float64."""
    q = np.asarray(arrays["q"][b, :, h], np.float64)
    k, v = (_keys(problem, arrays, n, b, kv_head) for n in "kv")
    seq_q, seq_k = len(q), len(k)
    s = (q @ k.T) * scalars["scale"]
    sums = F32.epsilon * (4 * problem.head_dim**0.5 + 8)
    error = (np.abs(q) @ np.abs(k).T) * scalars["scale"] * sums
    at = {"b": 1, "h": 1, "i": seq_q, "j": seq_k}
    offsets = {"b": b, "h": h}
    lengths = {"seq_q": (np.int32(seq_q), 0.0), "seq_k": (np.int32(seq_k), 0.0)}
    operands = {n: a for n, a in arrays.items() if n not in "qkv"}
    rest = {n: x for n, x in scalars.items() if n != "scale"}
    seen = np.ones((seq_q, seq_k), bool)
    if problem.causal:
        shift = seq_k - seq_q if problem.shifted else 0
        seen = np.arange(seq_k) <= np.arange(seq_q)[:, None] + shift
    for f in problem.formulas:
        own = {n: _own(operands[n], f, n, b, h) for n in f.placed.operands}
        special = dict(lengths)
        if f.role == "score":
            special["s"] = (s[None, None], error[None, None])
        special = {n: x for n, x in special.items() if n in f.placed.specials}
        result = fl.evaluate_with_bound(
            f.placed, arrays=own, scalars=rest, sizes=at, specials=special, offsets=offsets
        )
        value, bound = result[f.role]
        value = np.broadcast_to(value, (1, 1, seq_q, seq_k))[0, 0]
        if f.role == "score":
            s, error = value, np.broadcast_to(bound, (1, 1, seq_q, seq_k))[0, 0]
            error = error + _approximation(problem) * np.abs(s)
        else:
            seen = seen & value.astype(bool)
    return Head(np.where(seen, s, -np.inf), np.where(seen, error, 0.0), q, k, v)


def _approximation(problem: Attention) -> float:
    """Relative error of a score that kernels for half precision take from an approximate instruction."""
    from tilegen.problems.attention_score import CappedScore, short_score

    capped = problem.dtype is not F32 and isinstance(short_score(problem), CappedScore)
    return 2.0**-11 if capped else 0.0


def _keys(problem: Attention, arrays: Arrays, name: str, b: int, kv_head: int) -> np.ndarray:
    """Keys, or values, of a sequence and head in float64, from its pages where there are pages."""
    if not problem.page:
        return np.asarray(arrays[name][b, :, kv_head], np.float64)
    pages = arrays[name][arrays["table"][b], :, kv_head]
    return np.asarray(pages, np.float64).reshape(-1, pages.shape[-1])


def _own(array: np.ndarray, f, name: str, b: int, h: int) -> np.ndarray:
    """The operand at one batch and head, those axes kept with one element."""
    for axis, index in enumerate(f.typed.formula.operands[name]):
        if index in "bh":
            at = b if index == "b" else h
            array = np.take(array, [at], axis=axis)
    return array


def _softmax(problem, s, error, v, sink):
    half = problem.dtype.epsilon / 2
    top = s.max(axis=1, initial=sink, keepdims=True)
    base = np.where(np.isinf(top), 0.0, top)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weight = np.exp(s - base)
        total = weight.sum(axis=1, keepdims=True) + np.exp(sink - base)
        p = weight / np.where(total == 0, 1.0, total)
        lse = (base + np.log(total))[:, 0]
        # A weight's relative error: of its score, and of the exponential of its distance to the top.
        distance = np.where(np.isfinite(s), np.abs(s - base) + np.abs(base) + 1, 0.0)
        relative = error + _EXP * distance
        mean = (p * relative).sum(axis=1, keepdims=True)
        exact = p @ v
        magnitude = p @ np.abs(v)
        spread = np.minimum(magnitude, 4 * np.sqrt((p**2) @ (v**2)))
        sums = F32.epsilon * (4 * max(1, s.shape[1]) ** 0.5 + 8)
        bound = (p * (relative + mean)) @ np.abs(v) + (sums + mean * mean) * magnitude
        bound += (half if problem.dtype is not F32 else 0.0) * spread + half * np.abs(exact)
        bound += np.finfo(np.float32).tiny if problem.dtype is F32 else 2.0**-24
        lse_bound = (
            mean[:, 0] + F32.epsilon * 4 * np.abs(np.where(np.isinf(lse), 0, lse)) + 2.0**-20
        )
    if problem.score and problem.dtype is not F32:
        # Half-precision kernels take a soft cap from the hardware's exponential.
        lse_bound += 2.0**-16
    return exact, bound, lse, lse_bound
