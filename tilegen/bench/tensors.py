"""Inputs on the GPU as PyTorch tensors, in as many sets as are rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilegen import formula as fl
from tilegen.problems.attention import Attention
from tilegen.problems.attention_score import SlopedScore, short_score
from tilegen.problems.base import Problem
from tilegen.spec import KernelSpec


def slopes(problem: Problem, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The slopes of a score that is linear in the distance, 2^(-8 (h + 1) / heads), by which keys count
    less the farther they are from their query: those that models with ALiBi have (Press et al. 2022).
    """
    score = short_score(problem) if isinstance(problem, Attention) else None
    if not isinstance(score, SlopedScore) or not isinstance(score.slope, fl.Operand):
        return {}
    if score.slope.indices != ("h",):
        return {}
    sign = 1.0 if score.rises != score.negative else -1.0
    exponents = -8.0 * np.arange(1, sizes["heads"] + 1) / max(1, sizes["heads"])
    return {score.slope.name: (sign * np.exp2(exponents)).astype(np.float32)}


def device_tensors(
    spec: KernelSpec, sizes: Mapping[str, int], count: int
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Sets of tensors on the device, each with values of its own, outputs zero; and the scalars."""
    import torch

    from tilegen.bench.peers.torch_cpu import tensor

    problem = spec.problem
    rng = np.random.default_rng(0)
    scalars = problem.draw_scalars(rng)
    sets = []
    for _ in range(count):
        fixed = problem.places(sizes, rng) | slopes(problem, sizes)
        made = {n: torch.from_numpy(v).cuda() for n, v in fixed.items()}
        for t in problem.tensors():
            if t.name in made:
                continue
            shape = t.shape(sizes)
            kind = tensor(np.zeros(1, t.dtype.numpy)).dtype
            if t.is_read and t.dtype.is_float:
                made[t.name] = torch.randn(shape, device="cuda").to(kind)
            elif t.is_read:
                made[t.name] = torch.randint(0, 8, shape, device="cuda").to(kind)
            else:
                made[t.name] = torch.zeros(shape, dtype=kind, device="cuda")
        sets.append(made)
    return sets, scalars
