"""The structures that Python and the core exchange; they mirror core/api.cpp."""

from __future__ import annotations

import ctypes

import numpy as np

from tilegen.simulate.build import load_core
from tilegen.simulate.launch import SWIZZLE_BYTES, TENSOR_MAP_TYPES, SimulationError, TensorMap
from tilegen.simulate.lower.program import ROW

_INTERLEAVE = {"none": 0, "16b": 1, "32b": 2}
_DTYPES = {name: k for k, name in enumerate(TENSOR_MAP_TYPES)}


class BufferIn(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("guard", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("writable", ctypes.c_int32),
        ("initialised", ctypes.c_int32),
    ]


class MapIn(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32) for name in ("im2col", "dtype", "element_bytes", "rank", "swizzle")
    ]
    _fields_ += [
        (name, ctypes.c_int32) for name in ("interleave", "nan_fill", "channels", "pixels")
    ]
    _fields_ += [
        ("address", ctypes.c_uint64),
        ("dims", ctypes.c_uint64 * 5),
        ("strides", ctypes.c_uint64 * 5),
    ]
    _fields_ += [("box", ctypes.c_uint32 * 5), ("element_strides", ctypes.c_uint32 * 5)]
    _fields_ += [("lower", ctypes.c_int32 * 3), ("upper", ctypes.c_int32 * 3)]


_POINTERS = (
    "program",
    "pool",
    "consts",
    "params",
    "constant_memory",
    "buffers",
    "maps",
    "counters",
)
_SIZES = (
    "instructions",
    "pool_count",
    "const_bytes",
    "param_bytes",
    "constant_bytes",
    "buffer_count",
    "map_count",
)
_NUMBERS = (
    "static_shared",
    "dynamic_shared",
    "register_bytes",
    "predicates",
    "local_bytes",
    "wgmma_registers",
)
_FLAGS = ("registers_per_thread", "lazy", "random", "detect", "adversarial", "strict")


class RunIn(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in _POINTERS]
    _fields_ += [(name, ctypes.c_int64) for name in _SIZES]
    _fields_ += [(name, ctypes.c_uint64) for name in ("seed", "max_steps", "max_findings")]
    _fields_ += [(name, ctypes.c_uint32 * 3) for name in ("grid", "block", "cluster")]
    _fields_ += [(name, ctypes.c_uint32) for name in _NUMBERS + _FLAGS]


class FindingOut(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char_p), ("message", ctypes.c_char_p)]
    _fields_ += [(name, ctypes.c_int32) for name in ("inst", "other", "block", "warp", "lane")]
    _fields_ += [("count", ctypes.c_uint64)]


def map_struct(tensor: TensorMap) -> MapIn:
    m = MapIn()
    m.im2col, m.dtype = int(tensor.kind == "im2col"), _DTYPES[tensor.dtype]
    m.element_bytes, m.rank = tensor.element_bytes, tensor.rank
    m.swizzle, m.interleave = SWIZZLE_BYTES[tensor.swizzle], _INTERLEAVE[tensor.interleave]
    m.nan_fill, m.channels, m.pixels = (
        int(tensor.oob_fill == "nan"),
        tensor.channels_per_pixel,
        tensor.pixels_per_column,
    )
    m.address = tensor.address
    m.dims[: tensor.rank] = tensor.dims
    m.strides[: tensor.rank] = (tensor.element_bytes, *tensor.strides)
    m.box[: len(tensor.box)] = tensor.box
    m.element_strides[: tensor.rank] = tensor.element_strides
    m.lower[: len(tensor.lower_corner)] = tensor.lower_corner
    m.upper[: len(tensor.upper_corner)] = tensor.upper_corner
    return m


def pointer(array) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else ctypes.addressof(array)


def check_layouts() -> None:
    """Raise where the structures here and in core/api.cpp disagree (a fault of ours)."""
    core = load_core()
    sizes = [ROW.itemsize] + [ctypes.sizeof(t) for t in (BufferIn, RunIn, FindingOut, MapIn)]
    for which, size in enumerate(sizes):
        there = core.sim_struct_bytes(ctypes.c_int32(which))
        if there != size:
            raise SimulationError(
                f"structure {which} has {size} bytes here and {there} in the core"
            )
