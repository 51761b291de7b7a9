"""What a node of the ONNX backend tests becomes: kernels that run one after the other."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from math import prod

import numpy as np

from tilegen import formula as fl
from tilegen.emit.render import render
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.values import DTYPES

LETTERS = "abcdefghijk"
TYPES = {t.numpy: t.name for t in DTYPES.values() if t.name not in ("tf32",)}


class Outside(Exception):
    """The case is not what tilegen is for; the text says why."""


@dataclass
class Step:
    """One kernel.

    Attributes:
        operator: a formula, or `gemm`.
        arrays: inputs by name; one that is not there comes from the steps before.
        outputs: shape and type of each output, or the array that it is written to.
        scalars: by name; one that is not there is an output of a single element of the steps before.
        options: further options of the kernel.
    """

    operator: str
    arrays: dict[str, np.ndarray]
    outputs: dict[str, tuple[tuple[int, ...], np.dtype] | np.ndarray]
    scalars: dict[str, float] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class Work:
    """The kernels of a node, and the names of what they leave that are the node's outputs, in order."""

    steps: list[Step]
    results: tuple[str, ...] = ("y",)


def attributes(node) -> dict:
    """Attributes of a node as Python values."""
    from onnx import helper

    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}


def array(value) -> np.ndarray:
    """An input or output of a case as an array."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def typed(x: np.ndarray) -> np.ndarray:
    """The array, if its type is one of ours."""
    if x.dtype not in TYPES:
        raise Outside(f"element type {'string' if x.dtype == object else x.dtype}")
    return np.ascontiguousarray(x)


def broadcast(inputs: list[np.ndarray], shape: tuple[int, ...], text: str, kind) -> Work:
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
        arrays, scalars = {n: typed(x).reshape(1) for n, x in zip(words, inputs)}, {}
        words = [f"{w}[{names}]" for w in words]
    value = text.format(*words)
    return Work([Step(f"y[{','.join(names)}] = {value}", arrays, {"y": (dims, kind)}, scalars)])


def _only(word: str, names: str) -> str:
    name, bracket, inside = word.partition("[")
    kept = [i for i in inside.strip("]").split(",") if i in names]
    return f"{name}[{','.join(kept)}]" if bracket else word


def around(x: np.ndarray, axes: list[int]) -> tuple[np.ndarray, str, str]:
    """The array as [before, reduced, after], the indices that are there, and those of a result."""
    axes = sorted(a % x.ndim for a in axes)
    assert axes == list(range(axes[0], axes[-1] + 1)), "axes that are not neighbours"
    before, after = prod(x.shape[: axes[0]]), prod(x.shape[axes[-1] + 1 :])
    middle = prod(x.shape[axes[0] : axes[-1] + 1])
    index = "a" * (before != 1) + "r" + "b" * (after != 1)
    shape = [n for n, i in ((before, "a"), (middle, "r"), (after, "b")) if i in index]
    return typed(x).reshape(shape), index, index.replace("r", "")


@functools.cache
def _kernel(operator: str, options: tuple[tuple[str, str], ...]) -> cpu.CpuKernel:
    """A kernel built for this machine's C compiler."""
    rendered = render(KernelSpec.make(operator, "portable", dict(options)))
    return cpu.load(rendered.plan, build.library(rendered), rendered.symbol)


def _options(
    step: Step, arrays: dict[str, np.ndarray], scalars: dict[str, float]
) -> dict[str, str]:
    """The options of a step's kernel, with the types that differ from the first float's."""
    kinds = {name: TYPES[a.dtype] for name, a in arrays.items()}
    if step.operator == "gemm":
        shown = {n: k for n, k in kinds.items() if n not in ("a", "b", "c")}
        shown |= {n: "i32" for n, value in scalars.items() if isinstance(value, int)}
        chosen = {"dtype": kinds["a"], "out_dtype": kinds["c"]}
    else:
        for name, value in scalars.items():
            kinds[name] = "i64" if isinstance(value, int) else "f32"
        first = next((k for k in kinds.values() if k.startswith(("f", "bf"))), "f32")
        shown = {n: k for n, k in kinds.items() if k != first or n in step.outputs}
        chosen = {"dtype": first}
    operands = ",".join(f"{n}:{k}" for n, k in sorted(shown.items()))
    return chosen | step.options | ({"operands": operands} if operands else {})


def compute(step: Step, known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run one kernel and return its outputs; what it lacks comes from `known`, the outputs before."""
    parsed = fl.parse(step.options.get("epilogue", step.operator), ("m", "n"))
    names = {*parsed.operands, *(("a", "b") if step.operator == "gemm" else ())}
    taken = {n: known[n] for n in names - {*step.arrays} if n in known}
    scalars = step.scalars | {
        n: known[n].reshape(-1)[0].item()
        for n in parsed.scalars
        if n in known and n not in step.scalars
    }
    results = {
        name: made if isinstance(made, np.ndarray) else np.empty(*made)
        for name, made in step.outputs.items()
    }
    arrays = step.arrays | taken | results
    options = _options(step, arrays, scalars)
    _kernel(step.operator, tuple(sorted(options.items()))).run(arrays, scalars)
    return results
