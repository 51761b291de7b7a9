"""The few calls of the CUDA driver that PyCUDA does not wrap: clusters, tensor maps, raw parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tilegen.errors import ArgumentError, ToolMissing
from tilegen.simulate.launch import TensorMap

# CUtensorMapDataType, CUtensorMapSwizzle and the like, by the names that recordings use (cuda.h).
_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32")
_TYPES += ("tf32_ftz",)
_INTERLEAVES = ("none", "16b", "32b")
_SWIZZLES = ("none", "32b", "64b", "128b")
_PROMOTIONS = ("none", "64b", "128b", "256b")
_FILLS = ("zeros", "nan")
_CLUSTER_ATTRIBUTE = 4
_SHARED_ATTRIBUTE = 8


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


class Driver:
    """libcuda.so.1 in the current context."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise ToolMissing(f"no CUDA driver: {error}", "Install the NVIDIA driver.") from None

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(text))
            raise ArgumentError(f"{name}: {(text.value or b'unknown error').decode()} ({status})")

    def load_module(self, image: bytes) -> ctypes.c_void_p:
        """Load a cubin."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module by its name in the cubin."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int],
        shared_bytes: int,
        params: Sequence[bytes],
    ) -> None:
        """Launch on the default stream; `params` holds each parameter's bytes."""
        self._call("cuFuncSetAttribute", function, _SHARED_ATTRIBUTE, ctypes.c_int(shared_bytes))
        buffers = [_aligned(data) for data in params]
        pointers = (ctypes.c_void_p * max(1, len(buffers)))(*[address for _, address in buffers])
        attribute = _Attribute(_CLUSTER_ATTRIBUTE, 0, (ctypes.c_uint * 16)(*cluster))
        several = tuple(cluster) != (1, 1, 1)
        config = _Config(
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*block),
            shared_bytes,
            None,
            ctypes.pointer(attribute),
            int(several),
        )
        self._call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)

    def fill(self, address: int, value: int, width: int, height: int, pitch: int) -> None:
        """Set bytes: `height` rows of `width`, `pitch` apart."""
        for row in range(height):
            start = ctypes.c_uint64(address + row * pitch)
            self._call("cuMemsetD8_v2", start, ctypes.c_ubyte(value), ctypes.c_size_t(width))

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes from device to device."""
        self._call(
            "cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size)
        )

    def tensor_map(self, m: TensorMap) -> bytes:
        """Encode a tiled tensor map; its 128 bytes are a kernel parameter."""
        _, address = buffer = _aligned(bytes(128))
        rank = len(m.dims)
        words = (ctypes.c_uint64 * rank)(*m.dims)
        strides = (ctypes.c_uint64 * max(1, rank - 1))(*m.strides)
        box = (ctypes.c_uint32 * rank)(*m.box)
        steps = (ctypes.c_uint32 * rank)(*m.element_strides)
        self._call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(address),
            _TYPES.index(m.dtype),
            rank,
            ctypes.c_void_p(m.address),
            words,
            strides,
            box,
            steps,
            _INTERLEAVES.index(m.interleave),
            _SWIZZLES.index(m.swizzle),
            _PROMOTIONS.index(m.l2_promotion),
            _FILLS.index(m.oob_fill),
        )
        return ctypes.string_at(address, 128) if buffer else b""


def _aligned(data: bytes, alignment: int = 128) -> tuple[ctypes.Array, int]:
    """A copy of the bytes at an aligned address; the first element keeps it alive."""
    space = ctypes.create_string_buffer(len(data) + alignment)
    address = ctypes.addressof(space)
    address += -address % alignment
    ctypes.memmove(address, data, len(data))
    return space, address
