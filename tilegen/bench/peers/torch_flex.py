"""FlexAttention through torch.compile: the peer of scores and masks that are formulas."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from tilegen import formula as fl
from tilegen.bench.peers.base import GpuPeer
from tilegen.bench.peers.torch_math import compiled_for_sizes
from tilegen.problems.attention import Attention
from tilegen.problems.attention_formulas import AttentionFormula
from tilegen.problems.base import Problem
from tilegen.values import F32

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "softcap": lambda s, cap: cap * (s / cap).tanh(),
    "tanh": lambda x: x.tanh(),
    "abs": abs,
    "exp": lambda x: x.exp(),
}
_NODES = (fl.Number, fl.Name, fl.Operand, fl.Cast)


class FlexAttention(GpuPeer):
    """`flex_attention` under torch.compile, with the formula as its `score_mod` and the mask as blocks."""

    def knows(self, problem: Problem) -> bool:
        if not isinstance(problem, Attention) or problem.operator != "attention":
            return False
        if problem.dtype is F32 or problem.lse or problem.sinks or problem.page:
            return False
        return bool(problem.formulas) and all(map(_expressible, problem.formulas))

    def prepare(self, spec, sizes, sets, scalars) -> Callable[[int], Any]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        problem: Attention = spec.problem
        shift = sizes["seq_k"] - sizes["seq_q"] if problem.shifted else 0
        mask = next((f for f in problem.formulas if f.role == "mask"), None)
        score = problem.score_formula()
        compiled = compiled_for_sizes(flex_attention)

        def sees(arrays: Mapping[str, Any]) -> Callable[..., Any] | None:
            if problem.causal:
                return lambda b, h, i, j: j <= i + shift
            if mask is None:
                return None
            return lambda b, h, i, j: _value(mask, arrays, scalars, shift, b, h, i, j)

        def modify(arrays: Mapping[str, Any]) -> Callable[..., Any] | None:
            if score is None:
                return None
            return lambda s, b, h, i, j: _value(score, arrays, scalars, shift, b, h, i, j, s)

        def launch(arrays: Mapping[str, Any]) -> Callable[[], Any]:
            q, k, v = (arrays[name].transpose(1, 2) for name in "qkv")
            seen = sees(arrays)
            extents = (sizes["batch"], sizes["heads"]) if mask else (None, None)
            blocks = seen and create_block_mask(seen, *extents, q.shape[2], k.shape[2])
            options = {"scale": scalars["scale"], "enable_gqa": q.shape[1] != k.shape[1]}
            score_mod = modify(arrays)
            return lambda: compiled(q, k, v, score_mod=score_mod, block_mask=blocks, **options)

        calls = [launch(arrays) for arrays in sets]
        return lambda i: calls[i]()


def _expressible(f: AttentionFormula) -> bool:
    nodes = [n for s in f.typed.statements for n in fl.walk(s.value)]
    return len(f.typed.statements) == 1 and all(
        isinstance(n, _NODES)
        or (isinstance(n, fl.Call) and n.function in _CALLS)
        or (isinstance(n, (fl.Binary, fl.Compare, fl.Logical)) and n.op in _BINARY)
        for n in nodes
    )


def _value(
    f: AttentionFormula,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, float],
    shift: int,
    b: Any,
    h: Any,
    i: Any,
    j: Any,
    s: Any = None,
) -> Any:
    """The formula at one pair of query and key, in PyTorch's operations on what FlexAttention gives."""
    names = {"b": b, "h": h, "i": i + shift, "j": j, "s": s, **scalars}
    places = {"b": b, "h": h, "i": i, "j": j}

    def at(node: fl.Node) -> Any:
        if isinstance(node, fl.Number):
            return node.value
        if isinstance(node, fl.Name):
            return names[node.name]
        if isinstance(node, fl.Operand):
            return reduce(lambda a, x: a[x], (places[x] for x in node.indices), arrays[node.name])
        if isinstance(node, fl.Cast):
            return at(node.a)  # integers become floats where they meet one
        if isinstance(node, fl.Call):
            return _CALLS[node.function](*map(at, node.args))
        return _BINARY[node.op](at(node.a), at(node.b))

    return at(f.typed.statements[0].value)
