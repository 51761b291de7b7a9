"""Nodes that are products of matrices: Gemm, MatMul, MatMulInteger and QLinearMatMul."""

from __future__ import annotations

from math import prod

import numpy as np

from .onnx_steps import Step, Work, typed

# A product of integers from which their zero points are taken off, by the sums of A's rows and B's columns.
CENTRED = "acc - zb * ra[{m}] - za * cb[{n}] + zz"


def gemm(node, inputs, at, outs) -> Work:
    """Gemm: alpha * A B + beta * C, C broadcast to the result."""
    a, b = (typed(v) for v in inputs[:2])
    layout = ("n" if at.get("transA") else "t") + ("n" if at.get("transB") else "t")
    epilogue, arrays = "alpha * acc", {"a": a, "b": b}
    scalars = {"alpha": at.get("alpha", 1.0)}
    if len(inputs) > 2:
        c = typed(inputs[2])
        padded = (1,) * (2 - c.ndim) + c.shape
        kept = [i for i in range(2) if padded[i] == outs[0].shape[i] and c.size > 1]
        scalars["beta"] = at.get("beta", 1.0)
        if kept:
            arrays["d"] = c.reshape([padded[i] for i in kept])
            epilogue += f" + beta * d[{','.join('mn'[i] for i in kept)}]"
        else:
            scalars["d"] = c.reshape(-1)[0].item()
            epilogue += " + beta * d"
    options = {"layout": layout, "epilogue": epilogue}
    return Work(
        [Step("gemm", arrays, {"c": (outs[0].shape, outs[0].dtype)}, scalars, options)], ("c",)
    )


def matmul(node, inputs, at, outs) -> Work:
    """MatMul as NumPy has it: vectors are matrices of one row or column, batches broadcast."""
    a, b, shape = _matrices(typed(inputs[0]), typed(inputs[1]))
    options = {"layout": "tt"} | ({"batched": "true"} if a.ndim == 3 else {})
    step = Step("gemm", {"a": a, "b": b}, {"c": (shape, outs[0].dtype)}, options=options)
    return Work([step], ("c",))


def _matrices(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Both as matrices, or as batches of them, and the shape of the product."""
    a = a.reshape(1, -1) if a.ndim == 1 else a
    b = b.reshape(-1, 1) if b.ndim == 1 else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = (prod(batch),) if batch else ()
    a, b = (
        np.ascontiguousarray(np.broadcast_to(v, batch + v.shape[-2:])).reshape(
            *count, *v.shape[-2:]
        )
        for v in (a, b)
    )
    return a, b, (*count, a.shape[-2], b.shape[-1])


def quantized(node, inputs, at, outs) -> Work:
    """MatMulInteger and QLinearMatMul, with one zero point and scale a matrix."""
    if node.op_type == "MatMulInteger":
        (x, y), zeros, scale, shift = inputs[:2], inputs[2:], None, 0
    else:
        x, y, zeros = inputs[0], inputs[3], (inputs[2], inputs[5])
        shift = inputs[7].item()
        scale = float(inputs[1].item()) * float(inputs[4].item()) / float(inputs[6].item())
    a, b, shape = _matrices(typed(x), typed(y))
    za, zb = (int(z.item()) for z in zeros)
    given, steps = {"a": a, "b": b}, []
    index = "batch," if a.ndim == 3 else ""
    if a.dtype == np.uint8:
        # Kernels in C multiply signed bytes: 128 less of an element and of its zero point is the same number.
        less = f"[{index}m,n]"
        for name, x in given.items():
            signed = {name: (x.shape, np.dtype(np.int8))}
            steps.append(Step(f"{name}{less} = x{less} - 128", {"x": x}, signed))
        given, za, zb = {}, za - 128, zb - 128
    rows, columns = shape[:-1], (*shape[:-2], shape[-1])
    left, right = ({n: x for n, x in given.items() if n == name} for name in "ab")
    steps.append(Step(f"ra[{index}m] = sum(a[{index}m,k], k)", left, {"ra": (rows, np.int32)}))
    steps.append(Step(f"cb[{index}n] = sum(b[{index}k,n], k)", right, {"cb": (columns, np.int32)}))
    epilogue = CENTRED.format(m=index + "m", n=index + "n")
    scalars: dict[str, float] = {"za": za, "zb": zb, "zz": za * zb * a.shape[-1]}
    if scale is not None:
        limits = np.iinfo(outs[0].dtype)
        scalars |= {"scale": scale, "zy": float(shift)}
        epilogue = f"clamp(round(({epilogue}) * scale) + zy, {limits.min}, {limits.max})"
    options = {"layout": "tt", "epilogue": epilogue} | ({"batched": "true"} if index else {})
    steps.append(Step("gemm", given, {"c": (shape, outs[0].dtype)}, scalars, options))
    return Work(steps, ("c",))
