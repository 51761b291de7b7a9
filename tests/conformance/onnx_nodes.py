"""From a node of the ONNX backend tests to kernels of ours; what is outside, with the reason."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from . import onnx_gemm as products
from . import onnx_rows as rows
from .onnx_steps import LETTERS, Step, Work, attributes, broadcast, typed

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
        case "IsInf":
            signs = ["{0} == inf"] * at.get("detect_positive", 1)
            return " or ".join(signs + ["{0} == -inf"] * at.get("detect_negative", 1))
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
        case "SwiGLU":
            return f"{{0}} * sigmoid({1.0 if alpha is None else alpha} * {{0}}) * {{1}}"
        case "Swish":
            return f"{{0}} * sigmoid({1.0 if alpha is None else alpha} * {{0}})"
        case "ThresholdedRelu":
            return f"where({{0}} > {1.0 if alpha is None else alpha}, {{0}}, 0)"
    return None


def transpose(node, inputs, at, outs) -> Work:
    x = typed(inputs[0])
    perm = at.get("perm", list(range(x.ndim))[::-1])
    read = ",".join(LETTERS[: x.ndim])
    written = ",".join(LETTERS[i] for i in perm)
    shape = {"y": (outs[0].shape, outs[0].dtype)}
    return Work([Step(f"y[{written}] = x[{read}]", {"x": x}, shape)])


def clip(node, inputs, at, outs) -> Work:
    low, high = [v if v is not None and v.size else None for v in (*inputs[1:], None, None)[:2]]
    words, given = "{0}", [inputs[0]]
    if low is not None:
        given.append(low)
        words = f"max({words}, {{{len(given) - 1}}})"
    if high is not None:
        given.append(high)
        words = f"min({words}, {{{len(given) - 1}}})"
    return broadcast(given, inputs[0].shape, words, outs[0].dtype)


def quantize(node, inputs, at, outs) -> Work:
    """QuantizeLinear and DequantizeLinear: a scale for all, for each part of an axis, or for blocks of one."""
    x, kind = inputs[0], typed(outs[0]).dtype
    axis, block = at.get("axis", 1) % max(1, x.ndim), at.get("block_size", 0)
    shape = x.shape
    if block:
        shape = (*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :])
        given = [x.reshape(shape), *(np.expand_dims(v, axis + 1) for v in inputs[1:])]
    else:
        given = [x, *(_along(v, axis, x.ndim) for v in inputs[1:])]
    zero = len(inputs) > 2
    if node.op_type == "DequantizeLinear":
        return broadcast(given, shape, "({0} - {2}) * {1}" if zero else "{0} * {1}", kind)
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return broadcast(
            given, shape, f"clamp(round({{0}} / {{1}}){zero * ' + {2}'}, {low}, {high})", kind
        )
    largest = float(ml_dtypes.finfo(kind).max)
    text = f"clamp({{0}} / {{1}}{zero * ' + {2}'}, -{largest}, {largest})"
    return broadcast(given, shape, text, kind)


def _along(v: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return v if v.ndim != 1 else v.reshape([-1 if i == axis else 1 for i in range(rank)])


def dynamic_quantize(node, inputs, at, outs) -> Work:
    """The scale and zero point of the whole array, then its elements."""
    x = typed(inputs[0]).reshape(-1)
    text = (
        "low = min(0, min(x[r,i], i)); high = max(0, max(x[r,i], i)); s[r] = (high - low) / 255; "
        "z[r] = clamp(round(-low / s), 0, 255)"
    )
    shapes = {"s": ((1,), outs[1].dtype), "z": ((1,), outs[2].dtype)}
    scale = Step(text, {"x": x.reshape(1, -1)}, shapes)
    text = "y[i] = clamp(round(x[i] / s) + z, 0, 255)"
    return Work([scale, Step(text, {"x": x}, {"y": (x.shape, outs[0].dtype)})], ("y", "s", "z"))


def variadic(node, inputs, at, outs) -> Work:
    words = [f"{{{i}}}" for i in range(len(inputs))]
    text = {
        "Max": f"max({', '.join(words)})" if len(words) > 1 else words[0],
        "Min": f"min({', '.join(words)})" if len(words) > 1 else words[0],
        "Sum": " + ".join(words),
        "Mean": f"({' + '.join(words)}) / {len(words)}",
    }[node.op_type]
    return broadcast(inputs, outs[0].shape, text, outs[0].dtype)


def rotary(node, inputs, at, outs) -> Work:
    """Halves of heads, or even and odd elements, turned by angles whose rows the positions choose.

    The rows of the cache are laid out by position before the call; the arithmetic, and the permutations that part
    interleaved elements and put them together again, are formulas.
    """
    x, order = typed(inputs[0]), "b,h,t"
    if x.ndim == 3:
        x, order = x.reshape(*x.shape[:2], at["num_heads"], -1), "b,t,h"
    cos, sin = (typed(v if len(inputs) < 4 else v[inputs[3]]) for v in inputs[1:3])
    y = np.empty(x.shape, x.dtype)
    turned = at.get("rotary_embedding_dim") or x.shape[-1]
    half = turned // 2
    before, after = x[..., :turned], y[..., :turned]
    steps = []
    if at.get("interleaved"):
        pairs = (*x.shape[:-1], half, 2)
        parted, joined = before.reshape(pairs), after.reshape(pairs)
        before, after = (np.empty((2, *pairs[:-1]), x.dtype) for _ in range(2))
        steps.append(Step(f"s[p,{order},d] = x[{order},d,p]", {"x": parted}, {"s": before}))
        (u, v), (p, q) = before, after
    else:
        u, v, p, q = before[..., :half], before[..., half:], after[..., :half], after[..., half:]
    at_u, at_v = f"u[{order},d]", f"v[{order},d]"
    text = f"p[{order},d] = {at_u} * c[b,t,d] - {at_v} * s[b,t,d]; "
    text += f"q[{order},d] = {at_v} * c[b,t,d] + {at_u} * s[b,t,d]"
    steps.append(Step(text, {"u": u, "v": v, "c": cos, "s": sin}, {"p": p, "q": q}))
    if at.get("interleaved"):
        steps.append(Step(f"y[{order},d,p] = s[p,{order},d]", {"s": after}, {"y": joined}))
    if turned < x.shape[-1]:
        rest = Step(f"z[{order},d] = x[{order},d]", {"x": x[..., turned:]}, {"z": y[..., turned:]})
        steps.append(rest)
    # What the steps wrote lies in parts of one array.
    return Work([*steps, Step(f"y[{order},d] = x[{order},d]", {"x": y}, {"y": (y.shape, y.dtype)})])


NODES = {
    **dict.fromkeys(rows.REDUCE, rows.reduce_node),
    **dict.fromkeys(("ArgMax", "ArgMin"), rows.arg_node),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), rows.softmax_node),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), rows.layer_norm),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), rows.group_norm),
    **dict.fromkeys(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), rows.cross_entropy),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), variadic),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantize),
    **dict.fromkeys(("MatMulInteger", "QLinearMatMul"), products.quantized),
    "BatchNormalization": rows.batch_norm,
    "Clip": clip,
    "DynamicQuantizeLinear": dynamic_quantize,
    "Gemm": products.gemm,
    "MatMul": products.matmul,
    "MeanVarianceNormalization": rows.mean_variance,
    "RotaryEmbedding": rotary,
    "Transpose": transpose,
}
ACTIVATIONS = (
    "Celu Elu Gelu HardSigmoid IsInf LeakyRelu Selu Shrink SwiGLU Swish ThresholdedRelu".split()
)
OPERATORS = {*UNARY, *BINARY, *NODES, *ACTIVATIONS}

# Of integers: rounded towards zero, and with the sign of the dividend.
DIVIDE = "where(({0} < 0) == ({1} < 0), abs({0}) // abs({1}), -(abs({0}) // abs({1})))"
REMAINDER = "where({0} < 0, -(abs({0}) % abs({1})), abs({0}) % abs({1}))"
# Of floats: with the sign of the divisor, by which infinity leaves what has its sign.
FLOAT_MOD = (
    "where(abs({1}) == inf and abs({0}) < inf, "
    "where(({0} < 0 and {1} > 0) or ({0} > 0 and {1} < 0), {1}, {0}), {0} - {1} * floor({0} / {1}))"
)


def binary(op: str, at: dict, integers: bool) -> str:
    """The formula of two arguments, which differs between integers and floats for some."""
    if op == "Div" and integers:
        return DIVIDE
    if op == "Mod" and at.get("fmod"):
        return REMAINDER if integers else "{0} - {1} * trunc({0} / {1})"
    if op == "Mod" and not integers:
        return FLOAT_MOD
    if op == "Pow" and integers:
        return "f64({0}) ** f64({1})"
    return BINARY[op]


def adapt(node, inputs: list[np.ndarray | None], outs: list[np.ndarray]) -> Work:
    """The kernels that compute a node.

    Raises:
        Outside: it is not what tilegen is for.
    """
    op, at = node.op_type, attributes(node)
    for x in (*inputs, *outs):
        if x is not None:
            typed(x)
    if op in NODES:
        return NODES[op](node, inputs, at, outs)
    kind = inputs[0].dtype.kind
    text = parametric(op, at) or UNARY.get(op) or binary(op, at, kind in "iu")
    return broadcast(inputs, outs[0].shape, text, outs[0].dtype)
