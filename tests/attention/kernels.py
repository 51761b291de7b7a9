"""Attention on NumPy arrays through an emitted kernel, run in C or simulated in CUDA."""

from __future__ import annotations

import functools

import numpy as np

from tilegen.emit.render import render
from tilegen.errors import ToolMissing
from tilegen.runtime import cpu
from tilegen.spec import KernelSpec
from tilegen.toolchain import build
from tilegen.toolchain.find import find_cxx, find_nvcc

C = "portable"
GPUS = ("sm_80", "sm_90a")


def simulates() -> bool:
    """Whether CUDA kernels can be simulated here."""
    try:
        find_nvcc(), find_cxx()
    except ToolMissing:
        return False
    return True


def spec(target: str, **options: object) -> KernelSpec:
    """A kernel from options as on the command line."""
    texts = {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in options.items()}
    return KernelSpec.make("attention", target, texts)


@functools.cache
def _loaded(target: str, options: tuple[tuple[str, object], ...]):
    kernel = render(spec(target, **dict(options)))
    if target not in GPUS:
        return kernel, cpu.load(kernel.plan, build.library(kernel), kernel.symbol)
    from tilegen.runtime.simulated import SimulatedKernel

    return kernel, SimulatedKernel(kernel, multiprocessors=2)


def attend(target: str, q, k, v, *, scale: float, arrays=None, scalars=None, **options):
    """o, or (o, lse), of a kernel for these options; arrays are [batch][seq][head][dim] in any type.

    Asserts that the simulator found nothing.
    """
    kernel, loaded = _loaded(target, tuple(sorted(options.items())))
    problem = kernel.plan.problem
    kind = problem.dtype.numpy
    batch, seq_q, heads, _ = q.shape
    given = {"q": q.astype(kind), "k": k.astype(kind), "v": v.astype(kind), **(arrays or {})}
    given["o"] = np.full((batch, seq_q, heads, problem.value_dim), np.nan).astype(kind)
    if problem.lse:
        given["lse"] = np.full((batch, heads, seq_q), np.nan, np.float32)
    loaded.run(given, {"scale": scale, **(scalars or {})})
    assert not getattr(loaded, "findings", []), loaded.findings
    o = given["o"].astype(np.float64)
    return (o, given["lse"].astype(np.float64)) if problem.lse else o


def reference(q, k, v, seen, scale: float, cap: float = 0):
    """Softmax attention written down once more, in float64, for a boolean mask [seq_q][seq_k]; scores capped if > 0."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    ratio = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, ratio, axis=2), np.repeat(v, ratio, axis=2)
    s = np.einsum("bihd,bjhd->bhij", q, k) * scale
    s = np.where(seen, cap * np.tanh(s / cap) if cap else s, -np.inf)
    top = np.max(s, axis=-1, keepdims=True, initial=-1e300)
    weights = np.exp(s - top)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(total == 0, -np.inf, top + np.log(total))[..., 0]
    o = np.einsum("bhij,bjhd->bihd", weights / np.where(total == 0, 1, total), v)
    return o, lse


def causal(seq_q: int, seq_k: int, align: str = "bottom_right") -> np.ndarray:
    """Which keys a query sees, [seq_q][seq_k]."""
    shift = seq_k - seq_q if align == "bottom_right" else 0
    return np.arange(seq_k) <= np.arange(seq_q)[:, None] + shift
