"""Inputs on the GPU as PyTorch tensors, in as many sets as are rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilegen.spec import KernelSpec


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
        made = {n: torch.from_numpy(v).cuda() for n, v in problem.places(sizes, rng).items()}
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
