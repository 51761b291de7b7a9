"""Nodes with reductions as formulas: Reduce*, ArgMax, softmaxes, normalisations and losses."""

from __future__ import annotations

from math import prod

import numpy as np

from .onnx_steps import Step, Work, around, broadcast, typed

REDUCE = {
    "GlobalAveragePool": "mean({x}, {r})",
    "GlobalMaxPool": "max({x}, {r})",
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
REDUCE_BOOL = {"ReduceMax": "any({x}, {r})", "ReduceMin": "all({x}, {r})"}
# Over no axis at all.
UNREDUCED = {"ReduceL1": "abs({0})", "ReduceSumSquare": "{0} * {0}", "ReduceL2": "abs({0})"}
UNREDUCED |= {"ReduceLogSum": "log({0})", "ReduceLogSumExp": "{0}"}


def _reduced(inputs: np.ndarray, axes: list[int], text: str, kind) -> Work:
    """A formula with `{x}`, the array, and `{r}`, what it is reduced over."""
    x, index, kept = around(inputs, axes)
    if not kept:
        x, index, kept = x.reshape(1, -1), "ar", "a"
    value = text.format(x=f"x[{','.join(index)}]", r="r")
    shape = tuple(n for n, i in zip(x.shape, index) if i != "r")
    return Work([Step(f"y[{','.join(kept)}] = {value}", {"x": x}, {"y": (shape, kind)})])


def reduce_node(node, inputs, at, outs) -> Work:
    """Reduce*, with axes as an attribute or an input, and pooling of all that follows the channels."""
    x, op = inputs[0], node.op_type
    axes = list(inputs[1]) if len(inputs) > 1 else at.get("axes")
    if op.startswith("Global"):
        axes = list(range(2, x.ndim))
    if axes is None or not len(axes):
        if at.get("noop_with_empty_axes") or not x.ndim:
            return broadcast([x], x.shape, UNREDUCED.get(op, "{0}"), outs[0].dtype)
        axes = list(range(x.ndim))
    text = (REDUCE_BOOL if x.dtype == np.bool_ else REDUCE)[op]
    return _reduced(x, [int(a) for a in axes], text, outs[0].dtype)


def arg_node(node, inputs, at, outs) -> Work:
    """ArgMax and ArgMin; the last of equal elements is the largest index of one."""
    text = f"{node.op_type.lower()}({{x}}, {{r}})"
    if at.get("select_last_index"):
        extreme = node.op_type.lower().removeprefix("arg")
        text = f"max(where({{x}} == {extreme}({{x}}, {{r}}), {{r}}, -1), {{r}})"
    return _reduced(inputs[0], [at.get("axis", 0)], text, outs[0].dtype)


def softmax_node(node, inputs, at, outs) -> Work:
    """Softmax, LogSoftmax, Hardmax and LpNormalization along one axis."""
    x, index, kept = around(inputs[0], [at.get("axis", -1)])
    if not kept:
        x, index = x.reshape(1, -1), "ar"
    e = f"[{','.join(index)}]"
    text = {
        "Softmax": f"e = exp(x{e} - max(x{e}, r)); y{e} = e * (1 / sum(e, r))",
        "LogSoftmax": f"d = x{e} - max(x{e}, r); y{e} = d - log(sum(exp(d), r))",
        "Hardmax": f"k = argmax(x{e}, r); y{e} = where(r == k, 1, 0)",
        "LpNormalization": f"s = sum(abs(x{e}), r); y{e} = x{e} / where(s == 0, 1, s)",
    }[node.op_type]
    if node.op_type == "LpNormalization" and at.get("p", 2) == 2:
        text = f"s = sqrt(sum(x{e} * x{e}, r)); y{e} = x{e} / where(s == 0, 1, s)"
    return Work([Step(text, {"x": x}, {"y": (x.shape, outs[0].dtype)})])


def layer_norm(node, inputs, at, outs) -> Work:
    """LayerNormalization with its statistics, and RMSNormalization."""
    x = inputs[0]
    axis = at.get("axis", -1) % x.ndim
    rows, columns = prod(x.shape[:axis]), prod(x.shape[axis:])
    eps = at.get("epsilon", 1e-5)
    over = [np.broadcast_to(v, x.shape[axis:]) for v in inputs[1:]]
    arrays = {"x": typed(x).reshape(rows, columns), "w": typed(over[0]).reshape(-1)}
    bias = ""
    if len(over) > 1:
        arrays["b"], bias = typed(over[1]).reshape(-1), " + b[n]"
    shapes = {"y": ((rows, columns), outs[0].dtype)}
    if node.op_type == "RMSNormalization":
        text = f"y[m,n] = x[m,n] * rsqrt(mean(x[m,n] * x[m,n], n) + {eps}) * w[n]{bias}"
        return Work([Step(text, arrays, shapes)])
    text = f"mu = mean(x[m,n], n); d = x[m,n] - mu; inv = rsqrt(mean(d * d, n) + {eps}); "
    text += f"y[m,n] = d * inv * w[n]{bias}"
    for name, value, result in zip(("mean", "inv_std"), ("mu", "inv"), outs[1:]):
        text += f"; {name}_[m] = {value}"
        shapes[f"{name}_"] = ((rows,), result.dtype)
    return Work([Step(text, arrays, shapes)], tuple(shapes))


def group_norm(node, inputs, at, outs) -> Work:
    """GroupNormalization, and InstanceNormalization as groups of one channel."""
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
    return Work([Step(text, arrays, {"y": (shape, outs[0].dtype)})])


def batch_norm(node, inputs, at, outs) -> Work:
    """BatchNormalization with given statistics, or those of the batch and their running means."""
    x, w, b, mu, var = (typed(v) for v in inputs)
    shape = (*x.shape[:2], prod(x.shape[2:]))
    eps, x = at.get("epsilon", 1e-5), x.reshape(shape)
    arrays = {"x": x, "w": w, "b": b, "mu": mu, "var": var}
    if not at.get("training_mode"):
        text = f"y[i,c,s] = (x[i,c,s] - mu[c]) * rsqrt(var[c] + {eps}) * w[c] + b[c]"
        return Work([Step(text, arrays, {"y": (shape, outs[0].dtype)})])
    old = at.get("momentum", 0.9)
    text = (
        f"{_CHANNELS}; z[c,i,s] = d * rsqrt(v + {eps}) * w[c] + b[c]; "
        f"mean_[c] = mu[c] * {old} + e * (1 - {old}); var_[c] = var[c] * {old} + v * (1 - {old})"
    )
    arrays["x"] = x.transpose(1, 0, 2)
    shapes = {"z": (arrays["x"].shape, x.dtype)}
    shapes |= {n: (mu.shape, mu.dtype) for n in ("mean_", "var_")}
    return Work([Step(text, arrays, shapes), _by_images(shape, x.dtype)], ("y", "mean_", "var_"))


# Statistics of a channel: over images and positions, of which the channels are seen as the rows.
_CHANNELS = "e = mean(x[c,i,s], (i, s)); d = x[c,i,s] - e; v = mean(d * d, (i, s))"


def _by_images(shape: tuple[int, ...], kind) -> Step:
    """Channels as rows go back to where they came from."""
    return Step("y[i,c,s] = z[c,i,s]", {}, {"y": (shape, kind)})


def mean_variance(node, inputs, at, outs) -> Work:
    """MeanVarianceNormalization over images and positions, its default."""
    assert at.get("axes", [0, 2, 3]) == [0, 2, 3]
    x = typed(inputs[0])
    shape = (*x.shape[:2], prod(x.shape[2:]))
    seen = x.reshape(shape).transpose(1, 0, 2)
    step = Step(f"{_CHANNELS}; z[c,i,s] = d / sqrt(v)", {"x": seen}, {"z": (seen.shape, x.dtype)})
    return Work([step, _by_images(shape, x.dtype)])


def cross_entropy(node, inputs, at, outs) -> Work:
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
    return Work(steps, ("loss" if how == "none" else "y", "logp")[: len(outs)])
