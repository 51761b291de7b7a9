"""From a node of the ONNX backend tests to formulas of ours; what is outside, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from tilegen.values import DTYPES

LETTERS = "abcdefghijk"
TYPES = {t.numpy: t.name for t in DTYPES.values() if t.name not in ("tf32",)}


class Outside(Exception):
    """The case is not what the memory-bound families are for; the text says why."""


@dataclass
class Step:
    """One formula: its text, arrays and scalars by name, and the shape of each output."""

    formula: str
    arrays: dict[str, np.ndarray]
    outputs: dict[str, tuple[tuple[int, ...], np.dtype]]
    scalars: dict[str, float] = field(default_factory=dict)


def attributes(node) -> dict:
    """Attributes of a node as Python values."""
    from onnx import helper

    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}


def typed(x: np.ndarray) -> np.ndarray:
    """The array, if its type is one of ours."""
    if x.dtype not in TYPES:
        raise Outside(f"element type {x.dtype}")
    return np.ascontiguousarray(x)


def broadcast(inputs: list[np.ndarray], shape: tuple[int, ...], text: str, kind) -> Step:
    """An elementwise formula over inputs that broadcast to `shape`; `{0}` is the first input."""
    dims = shape or (1,)
    names = LETTERS[: len(dims)]
    arrays, scalars, words = {}, {}, []
    for number, x in enumerate(inputs):
        x = typed(x)
        name = f"x{number}"
        padded = (1,) * (len(dims) - x.ndim) + x.shape
        kept = [
            i for i, (p, d) in enumerate(zip(padded, dims)) if p == d and (d != 1 or len(dims) == 1)
        ]
        if not kept:
            scalars[name] = x.reshape(-1)[0].item()
            words.append(name)
            continue
        arrays[name] = x.reshape([padded[i] for i in kept])
        words.append(f"{name}[{','.join(names[i] for i in kept)}]")
    carried = {i for w in words for i in w.partition("[")[2].strip("]").split(",")}
    if not set(names) <= carried:
        names = "".join(i for i, d in zip(names, dims) if d != 1) or names[:1]
        dims = tuple(d for d in dims if d != 1) or (1,)
        words = [_only(w, names) for w in words]
        if not arrays:
            raise Outside("a single element, all of it scalars")
    value = text.format(*words)
    return Step(f"y[{','.join(names)}] = {value}", arrays, {"y": (dims, kind)}, scalars)


def _only(word: str, names: str) -> str:
    name, bracket, inside = word.partition("[")
    kept = [i for i in inside.strip("]").split(",") if i in names]
    return f"{name}[{','.join(kept)}]" if bracket else word


UNARY = {
    "Abs": "abs({0})",
    "Ceil": "ceil({0})",
    "Cos": "cos({0})",
    "Cosh": "(exp({0}) + exp(-{0})) / 2",
    "Erf": "erf({0})",
    "Exp": "exp({0})",
    "Floor": "floor({0})",
    "HardSwish": "hardswish({0})",
    "Identity": "{0}",
    "IsNaN": "isnan({0})",
    "Log": "log({0})",
    "Mish": "mish({0})",
    "Neg": "-{0}",
    "Not": "not {0}",
    "Reciprocal": "1 / {0}",
    "Relu": "relu({0})",
    "Round": "round({0})",
    "Sigmoid": "sigmoid({0})",
    "Sign": "where({0} > 0, 1, where({0} < 0, -1, 0))",
    "Sin": "sin({0})",
    "Sinh": "(exp({0}) - exp(-{0})) / 2",
    "Softplus": "softplus({0})",
    "Softsign": "{0} / (1 + abs({0}))",
    "Sqrt": "sqrt({0})",
    "Tan": "sin({0}) / cos({0})",
    "Tanh": "tanh({0})",
}
BINARY = {
    "Add": "{0} + {1}",
    "And": "{0} and {1}",
    "Div": "{0} / {1}",
    "Equal": "{0} == {1}",
    "Greater": "{0} > {1}",
    "GreaterOrEqual": "{0} >= {1}",
    "Less": "{0} < {1}",
    "LessOrEqual": "{0} <= {1}",
    "Mod": "{0} % {1}",
    "Mul": "{0} * {1}",
    "Or": "{0} or {1}",
    "PRelu": "where({0} < 0, {0} * {1}, {0})",
    "Pow": "{0} ** {1}",
    "Sub": "{0} - {1}",
    "Where": "where({0}, {1}, {2})",
    "Xor": "({0} and not {1}) or ({1} and not {0})",
}
REDUCE = {
    "ReduceL1": "sum(abs({x}), {r})",
    "ReduceL2": "sqrt(sum({x} * {x}, {r}))",
    "ReduceLogSum": "log(sum({x}, {r}))",
    "ReduceLogSumExp": "logsumexp({x}, {r})",
    "ReduceMax": "max({x}, {r})",
    "ReduceMean": "mean({x}, {r})",
    "ReduceMin": "min({x}, {r})",
    "ReduceProd": "prod({x}, {r})",
    "ReduceSum": "sum({x}, {r})",
    "ReduceSumSquare": "sum({x} * {x}, {r})",
}


def parametric(op: str, at: dict) -> str | None:
    """The formula of an activation with attributes, or None."""
    alpha = at.get("alpha")
    match op:
        case "Celu":
            a = alpha or 1.0
            return f"max(0, {{0}}) + min(0, {a} * (exp({{0}} / {a}) - 1))"
        case "Elu":
            return f"elu({{0}}, {1.0 if alpha is None else alpha})"
        case "Gelu":
            return "gelu_tanh({0})" if at.get("approximate") == "tanh" else "gelu({0})"
        case "HardSigmoid":
            return f"clamp({0.2 if alpha is None else alpha} * {{0}} + {at.get('beta', 0.5)}, 0, 1)"
        case "LeakyRelu":
            return f"leaky_relu({{0}}, {0.01 if alpha is None else alpha})"
        case "Selu":
            a, g = at.get("alpha", 1.67326319217681884765625), at.get(
                "gamma", 1.05070102214813232421875
            )
            return f"{g} * where({{0}} <= 0, {a} * (exp({{0}}) - 1), {{0}})"
        case "Shrink":
            low, bias = at.get("lambd", 0.5), at.get("bias", 0.0)
            return f"where({{0}} < -{low}, {{0}} + {bias}, where({{0}} > {low}, {{0}} - {bias}, 0))"
        case "Swish":
            return f"{{0}} * sigmoid({1.0 if alpha is None else alpha} * {{0}})"
        case "ThresholdedRelu":
            return f"where({{0}} > {1.0 if alpha is None else alpha}, {{0}}, 0)"
    return None


def around(x: np.ndarray, axes: list[int]) -> tuple[np.ndarray, str, str]:
    """The array as [before, reduced, after], the indices that are there, and those of a result."""
    axes = sorted(a % x.ndim for a in axes)
    if axes != list(range(axes[0], axes[-1] + 1)):
        raise Outside("reduces over axes that are not neighbours")
    before, after = prod(x.shape[: axes[0]]), prod(x.shape[axes[-1] + 1 :])
    middle = prod(x.shape[axes[0] : axes[-1] + 1])
    index = "a" * (before != 1) + "r" + "b" * (after != 1)
    shape = [n for n, i in ((before, "a"), (middle, "r"), (after, "b")) if i in index]
    return typed(x).reshape(shape), index, index.replace("r", "")


def reduce_node(node, inputs, at, out) -> list[Step]:
    """Reduce*, with axes as an attribute or an input."""
    x, op = inputs[0], node.op_type
    axes = list(inputs[1]) if len(inputs) > 1 else at.get("axes")
    if axes is None or not len(axes):
        if at.get("noop_with_empty_axes"):
            text = {"ReduceL1": "abs({0})", "ReduceSumSquare": "{0} * {0}", "ReduceL2": "abs({0})"}
            return [broadcast([x], x.shape, text.get(op, "{0}"), out.dtype)]
        axes = list(range(x.ndim))
    if not x.ndim:
        raise Outside("a reduction over no axis of a single element")
    if x.dtype == np.bool_:
        REDUCE_BOOL = {"ReduceMax": "any({x}, {r})", "ReduceMin": "all({x}, {r})"}
        text = REDUCE_BOOL[op]
    else:
        text = REDUCE[op]
    x, index, kept = around(x, [int(a) for a in axes])
    if not kept:
        x, index, kept = x.reshape(1, -1), "ar", "a"
    value = text.format(x=f"x[{','.join(index)}]", r="r")
    shape = tuple(n for n, i in zip(x.shape, index) if i != "r")
    return [Step(f"y[{','.join(kept)}] = {value}", {"x": x}, {"y": (shape, out.dtype)})]


def arg_node(node, inputs, at, out) -> list[Step]:
    if at.get("select_last_index"):
        raise Outside("asks for the last of equal elements")
    op = node.op_type.lower()
    x, index, kept = around(inputs[0], [at.get("axis", 0)])
    if not kept:
        x, index, kept = x.reshape(1, -1), "ar", "a"
    shape = tuple(n for n, i in zip(x.shape, index) if i != "r")
    text = f"y[{','.join(kept)}] = {op}(x[{','.join(index)}], r)"
    return [Step(text, {"x": x}, {"y": (shape, out.dtype)})]


def softmax_node(node, inputs, at, out) -> list[Step]:
    x, index, kept = around(inputs[0], [at.get("axis", -1)])
    if not kept:
        x, index = x.reshape(1, -1), "ar"
    e = f"[{','.join(index)}]"
    text = {
        "Softmax": f"e = exp(x{e} - max(x{e}, r)); y{e} = e * (1 / sum(e, r))",
        "LogSoftmax": f"d = x{e} - max(x{e}, r); y{e} = d - log(sum(exp(d), r))",
        "LpNormalization": f"s = sum(abs(x{e}), r); y{e} = x{e} / where(s == 0, 1, s)",
    }[node.op_type]
    if node.op_type == "LpNormalization" and at.get("p", 2) == 2:
        text = f"s = sqrt(sum(x{e} * x{e}, r)); y{e} = x{e} / where(s == 0, 1, s)"
    return [Step(text, {"x": x}, {"y": (x.shape, out.dtype)})]


def layer_norm(node, inputs, at, outs) -> list[Step]:
    x = inputs[0]
    axis = at.get("axis", -1) % x.ndim
    rows, columns = prod(x.shape[:axis]), prod(x.shape[axis:])
    eps = at.get("epsilon", 1e-5)
    if any(v.size != columns for v in inputs[1:]):
        raise Outside("a scale that does not cover the normalised axes")
    arrays = {"x": typed(x).reshape(rows, columns), "w": typed(inputs[1]).reshape(-1)}
    bias = ""
    if len(inputs) > 2:
        arrays["b"], bias = typed(inputs[2]).reshape(-1), " + b[n]"
    shapes = {"y": ((rows, columns), outs[0].dtype)}
    if node.op_type == "RMSNormalization":
        text = f"y[m,n] = x[m,n] * rsqrt(mean(x[m,n] * x[m,n], n) + {eps}) * w[n]{bias}"
        return [Step(text, arrays, shapes)]
    text = f"mu = mean(x[m,n], n); d = x[m,n] - mu; inv = rsqrt(mean(d * d, n) + {eps}); "
    text += f"y[m,n] = d * inv * w[n]{bias}"
    for name, value, array in zip(("mean", "inv_std"), ("mu", "inv"), outs[1:]):
        text += f"; {name}_[m] = {value}"
        shapes[f"{name}_"] = ((rows,), array.dtype)
    return [Step(text, arrays, shapes)]


def group_norm(node, inputs, at, out) -> list[Step]:
    x, w, b = (typed(v) for v in inputs)
    count, channels = x.shape[:2]
    groups = at.get("num_groups", channels)
    eps = at.get("epsilon", 1e-5)
    shape = (count, groups, channels // groups, prod(x.shape[2:]))
    arrays = {"x": x.reshape(shape), "w": w.reshape(groups, -1), "b": b.reshape(groups, -1)}
    value = "x[i,g,c,s]"
    text = (
        f"mu = mean({value}, (c, s)); d = {value} - mu; "
        f"y[i,g,c,s] = d * rsqrt(mean(d * d, (c, s)) + {eps}) * w[g,c] + b[g,c]"
    )
    return [Step(text, arrays, {"y": (shape, out.dtype)})]


def batch_norm(node, inputs, at, out) -> list[Step]:
    if at.get("training_mode"):
        raise Outside("statistics over axes that are not neighbours")
    x, w, b, mu, var = (typed(v) for v in inputs)
    shape = (*x.shape[:2], prod(x.shape[2:]))
    text = (
        f"y[i,c,s] = (x[i,c,s] - mu[c]) * rsqrt(var[c] + {at.get('epsilon', 1e-5)}) * w[c] + b[c]"
    )
    arrays = {"x": x.reshape(shape), "w": w, "b": b, "mu": mu, "var": var}
    return [Step(text, arrays, {"y": (shape, out.dtype)})]


def transpose(node, inputs, at, out) -> list[Step]:
    x = typed(inputs[0])
    perm = at.get("perm", list(range(x.ndim))[::-1])
    read = ",".join(LETTERS[: x.ndim])
    written = ",".join(LETTERS[i] for i in perm)
    return [Step(f"y[{written}] = x[{read}]", {"x": x}, {"y": (out.shape, out.dtype)})]


def clip(node, inputs, at, out) -> list[Step]:
    low, high = [v if v is not None and v.size else None for v in (*inputs[1:], None, None)[:2]]
    words, given = "{0}", [inputs[0]]
    if low is not None:
        given.append(low)
        words = f"max({words}, {{{len(given) - 1}}})"
    if high is not None:
        given.append(high)
        words = f"min({words}, {{{len(given) - 1}}})"
    return [broadcast(given, inputs[0].shape, words, out.dtype)]


def quantize(node, inputs, at, out) -> list[Step]:
    x, scale = inputs[0], inputs[1]
    zero = inputs[2] if len(inputs) > 2 else None
    if at.get("block_size"):
        raise Outside("a scale for each block of an axis")
    axis = at.get("axis", 1)
    given = [x] + [_along(v, axis, x.ndim) for v in (scale, zero) if v is not None]
    if node.op_type == "DequantizeLinear":
        text = "({0} - {2}) * {1}" if zero is not None else "{0} * {1}"
        return [broadcast(given, x.shape, text, out.dtype)]
    if out.dtype.kind not in "iu":
        raise Outside(f"quantises to {out.dtype}")
    low, high = np.iinfo(out.dtype).min, np.iinfo(out.dtype).max
    shift = " + {2}" if zero is not None else ""
    text = f"clamp(round({{0}} / {{1}}){shift}, {low}, {high})"
    return [broadcast(given, x.shape, text, out.dtype)]


def _along(v: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return v if v.ndim != 1 else v.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def variadic(node, inputs, at, out) -> list[Step]:
    words = [f"{{{i}}}" for i in range(len(inputs))]
    text = {
        "Max": f"max({', '.join(words)})" if len(words) > 1 else words[0],
        "Min": f"min({', '.join(words)})" if len(words) > 1 else words[0],
        "Sum": " + ".join(words),
        "Mean": f"({' + '.join(words)}) / {len(words)}",
    }[node.op_type]
    return [broadcast(inputs, out.shape, text, out.dtype)]


def cross_entropy(node, inputs, at, outs) -> list[Step]:
    """The loss of each sample, then its sum or mean by a second formula."""
    x, t = typed(inputs[0]), typed(inputs[1])
    shape = (x.shape[0], x.shape[1], prod(x.shape[2:]))
    arrays = {"x": x.reshape(shape), "t": t.reshape(shape[0], shape[2])}
    weight = "1"
    if len(inputs) > 2:
        arrays["w"], weight = typed(inputs[2]), "w[c]"
    here = "c == t[i,s]"
    if at.get("ignore_index") is not None:
        here = f"c == t[i,s] and t[i,s] != {at['ignore_index']}"
    if node.op_type == "NegativeLogLikelihoodLoss":
        value, extra = "-x[i,c,s]", ""
    else:
        value, extra = "total - x[i,c,s]", "total = logsumexp(x[i,c,s], c); "
    outputs = {"loss": ((shape[0], shape[2]), x.dtype), "k": ((shape[0], shape[2]), x.dtype)}
    text = extra + f"loss[i,s] = sum(where({here}, ({value}) * {weight}, 0), c); "
    text += f"k[i,s] = sum(where({here}, {weight}, 0.0), c)"
    if len(outs) > 1:
        text += "; logp[i,c,s] = x[i,c,s] - total"
        outputs["logp"] = (shape, outs[1].dtype)
    steps = [Step(text, arrays, outputs)]
    how = at.get("reduction", "mean")
    if how != "none":
        divisor = " / sum(k[i,s], (i, s))" if how == "mean" else ""
        steps.append(Step(f"y = sum(loss[i,s], (i, s)){divisor}", {}, {"y": ((), outs[0].dtype)}))
    return steps


NODES = {
    **dict.fromkeys(REDUCE, reduce_node),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_node),
    **dict.fromkeys(("Softmax", "LogSoftmax", "LpNormalization"), softmax_node),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), variadic),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantize),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), group_norm),
    "BatchNormalization": batch_norm,
    "Clip": clip,
    "Transpose": transpose,
}
WHOLE = {
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_norm),
    **dict.fromkeys(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), cross_entropy),
}
ACTIVATIONS = "Celu Elu Gelu HardSigmoid LeakyRelu Selu Shrink Swish ThresholdedRelu".split()
NEVER = {
    "MeanVarianceNormalization": "statistics over axes that are not neighbours",
    "DynamicQuantizeLinear": "a scale of the whole array before its elements: three formulas",
    "RotaryEmbedding": "positions gathered from a cache; the formula takes cosines and sines by position",
    "IsInf": "asks for the sign of infinities",
    "Hardmax": "the first of equal elements, as ones and zeros",
}
OPERATORS = {*UNARY, *BINARY, *NODES, *WHOLE, *ACTIVATIONS, *NEVER}


def adapt(node, inputs: list[np.ndarray], outs: list[np.ndarray]) -> list[Step]:
    """The formulas that compute a node.

    Raises:
        Outside: it is not what these families are for.
    """
    op, at = node.op_type, attributes(node)
    if op in NEVER:
        raise Outside(NEVER[op])
    for x in outs:
        typed(x)
    if op in WHOLE:
        return WHOLE[op](node, inputs, at, outs)
    if op in NODES:
        return NODES[op](node, inputs, at, outs[0])
    text = parametric(op, at) or UNARY.get(op) or BINARY[op]
    if op == "Mod" and outs[0].dtype.kind == "f":
        if not all(np.isfinite(x).all() for x in (*inputs, *outs)):
            raise Outside("the remainder of infinities and by zero")
        text = "{0} - {1} * floor({0} / {1})"
    if op == "Mod" and at.get("fmod"):
        raise Outside("the remainder with the sign of the dividend")
    if op == "Div" and outs[0].dtype.kind in "iu":
        raise Outside("integer division that rounds towards zero")
    if op == "Pow" and not (inputs[0].dtype == inputs[1].dtype and inputs[0].dtype.kind == "f"):
        raise Outside("powers of integers")
    return [broadcast(inputs, outs[0].shape, text, outs[0].dtype)]
