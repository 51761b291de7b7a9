"""Special registers (PTX ISA 10) as arrays over all lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.machine import SHARED_START, Machine

Array = np.ndarray


def special_register(machine: Machine, name: str) -> Array | Callable[[], Array]:
    """The value of `%name` for each lane, or for a clock a function that reads it."""
    base, _, axis = name.partition(".")
    dim = "xyz".find(axis) if axis else 0
    block, grid, cluster = machine.launch.block, machine.launch.grid, machine.launch.cluster
    lane = np.arange(machine.lanes) % 32
    one = np.uint32(1)
    if base == "tid":
        t = machine.thread
        value = (t % block[0], t // block[0] % block[1], t // (block[0] * block[1]))[dim]
    elif base in ("ntid", "nctaid", "cluster_nctaid", "nclusterid"):
        shape = {"ntid": block, "nctaid": grid, "cluster_nctaid": cluster}.get(base)
        value = shape[dim] if shape else grid[dim] // cluster[dim]
    elif base in ("ctaid", "clusterid", "cluster_ctaid"):
        position = machine.coordinates[machine.block, dim]
        size = np.uint32(cluster[dim])
        value = {
            "ctaid": position,
            "clusterid": position // size,
            "cluster_ctaid": position % size,
        }[base]
    elif base.startswith("lanemask_"):
        bit = one << lane.astype(np.uint32)
        below = bit - one
        value = {"eq": bit, "lt": below, "le": below | bit, "gt": ~(below | bit), "ge": ~below}[
            base[9:]
        ]
    elif base in ("clock", "clock64", "clock_hi", "globaltimer"):
        return lambda: np.full(machine.lanes, machine.steps, np.uint64)
    else:
        simple = {
            "laneid": lane,
            "warpid": machine.thread // 32,
            "nwarpid": machine.warps_per_block,
            "cluster_ctarank": machine.rank,
            "cluster_nctarank": machine.cluster_size,
            "smid": machine.block,
            "nsmid": machine.blocks,
            "gridid": 0,
            "dynamic_smem_size": machine.launch.shared_bytes,
            "total_smem_size": machine.shared_limit - SHARED_START,
            "is_explicit_cluster": machine.cluster_size > 1,
        }
        if base not in simple:
            raise SimulationError(f"NumPy backend: special register %{name} is not modelled")
        value = simple[base]
    return np.broadcast_to(np.asarray(value).astype(np.uint32), (machine.lanes,)).copy()
