"""Run vectors on a simulator, and compare with what hardware wrote."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import Launch, Memory, TensorMap, pack_params, tensor_map_param
from vectors import clusters, conversions, floats, integers, memory, mma, tma, warps, wgmma
from vectors.model import Group, Map, Vector
from vectors.pools import pool

# A backend runs one launch of a parsed or textual module on a memory.
Backend = Callable[[Launch, Memory], None]

# An input array by its name in the pool.
Inputs = Callable[[str], np.ndarray]

MAKERS = (integers, floats, conversions, warps, memory, mma, wgmma, tma, clusters)


def groups() -> list[Group]:
    return [maker.group() for maker in MAKERS]


def fill(count: int) -> np.ndarray:
    """What the output holds before a launch."""
    return np.full(count, 0xCD, np.uint8)


def tensor_map(spec: Map, address: int) -> TensorMap:
    return TensorMap(
        kind="im2col" if spec.channels else "tiled",
        dtype=spec.dtype,
        address=address,
        dims=spec.dims,
        strides=spec.strides,
        box=spec.box,
        element_strides=spec.steps,
        interleave=spec.interleave,
        swizzle=spec.swizzle,
        oob_fill=spec.fill,
        lower_corner=spec.lower,
        upper_corner=spec.upper,
        channels_per_pixel=spec.channels,
        pixels_per_column=spec.pixels,
    )


def replay(vector: Vector, backend: Backend, inputs_of: Inputs = pool) -> np.ndarray:
    """The output that the backend computes from the named inputs, uint8 [vector.output]."""
    device = Memory()
    inputs = [device.allocate(name, inputs_of(name), writable=False) for name in vector.inputs]
    out = device.allocate("out", fill(vector.output))
    maps = [
        tensor_map(spec, (out if spec.buffer < 0 else inputs[spec.buffer]).address)
        for spec in vector.maps
    ]
    launch = Launch(
        kernel=vector.name,
        grid=vector.grid,
        block=vector.block,
        params=pack_params(*inputs, out) + tuple(tensor_map_param(i) for i in range(len(maps))),
        cluster=vector.cluster,
        shared_bytes=vector.shared,
        tensor_maps=tuple(maps),
    )
    backend(launch, device)
    return out.data
