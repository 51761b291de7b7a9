"""Call an emitted launcher and read back what it asked the device to do."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.simulate.host.build import HostBuild
from tilegen.simulate.host.entries import entries
from tilegen.simulate.host.machine import machine
from tilegen.simulate.launch import (
    Buffer,
    Finding,
    Launch,
    Memory,
    Outcome,
    SimulationError,
    TensorMap,
)
from tilegen.targets import CudaTarget

_INTERLEAVES = ("none", "16b", "32b")
_SWIZZLES = ("none", "32b", "64b", "128b")
_PROMOTIONS = ("none", "64b", "128b", "256b")
_FILLS = ("zeros", "nan")


@dataclass(frozen=True)
class Fill:
    """A memset in stream order: `height` rows of `width` bytes, `pitch` bytes apart."""

    address: int
    value: int
    width: int
    height: int
    pitch: int


@dataclass(frozen=True)
class Copy:
    """A device-to-device copy in stream order."""

    to: int
    source: int
    size: int


@dataclass(frozen=True)
class Recording:
    """One call of a launcher.

    Attributes:
        status: the cudaError_t that it returned, 0 for success.
        steps: kernel launches, memsets and copies, in stream order; launches that the runtime refused are left out.
        findings: rules of the runtime or of the tensor-map encoder that the call broke.
        events: every recorded call, as the recorder's JSON has it.
    """

    status: int
    steps: tuple[Launch | Fill | Copy, ...]
    findings: tuple[Finding, ...]
    events: tuple[dict[str, Any], ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(step for step in self.steps if isinstance(step, Launch))


class Host:
    """The host side of one compiled .cu on one simulated machine.

    What a call sets on a kernel (opted-in shared memory) stays set until the next Host of that file, as in a process.
    """

    def __init__(
        self, build: HostBuild, target: CudaTarget, multiprocessors: int | None = None
    ) -> None:
        self.build = build
        # Local, and bound to its own symbols: a CUDA runtime that the process has loaded is not disturbed.
        self._library = ctypes.CDLL(str(build.library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self._library.tilegen_host_json.restype = ctypes.c_char_p
        self._machine = machine(target, multiprocessors)
        self.entries = {entry.name: entry for entry in entries(build.ptx)}
        for entry in self.entries.values():
            shape = (entry.static_shared, entry.max_threads, entry.required_threads, *entry.cluster)
            self._library.tilegen_host_kernel(
                entry.name.encode(),
                (ctypes.c_longlong * max(1, len(entry.parameters)))(*entry.parameters),
                len(entry.parameters),
                (ctypes.c_longlong * 6)(*shape),
            )

    def function(self, symbol: str) -> Any:
        """An `extern "C"` function of the file, to call at once and without recording (such as `_supports`).

        Raises:
            SimulationError: the file exports no such symbol.
        """
        # Two hosts of one library share its recorder, so each call says which machine it means.
        for name, value in self._machine.items():
            self._library.tilegen_host_limit(name.encode(), ctypes.c_longlong(value))
        try:
            return getattr(self._library, symbol)
        except AttributeError:
            raise SimulationError(
                f"{self.build.source.name} exports no function {symbol}"
            ) from None

    def record(
        self, symbol: str, arguments: Sequence[object], *, capturing: bool = False
    ) -> Recording:
        """Call `symbol` and return what it did.

        Args:
            arguments: in C order: Buffer or None for pointers (a stream is None), int for int64_t, float for float,
                NumPy scalars for the other types, or ctypes values.
            capturing: what cudaStreamIsCapturing answers.
        """
        function = self.function(symbol)
        function.restype = ctypes.c_int
        self._library.tilegen_host_reset(int(capturing))
        status = function(*(_argument(value) for value in arguments))
        events = json.loads(self._library.tilegen_host_json())
        return _recording(status, events)


def _argument(value: object) -> object:
    if isinstance(value, Buffer):
        return ctypes.c_void_p(value.address)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, np.generic):
        return np.ctypeslib.as_ctypes_type(value.dtype)(value.item())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_float(value)


def _tensor_map(event: dict[str, Any]) -> TensorMap:
    tiled = "box" in event
    return TensorMap(
        kind="tiled" if tiled else "im2col",
        dtype=event["type"],
        address=event["base"],
        dims=tuple(event["sizes"]),
        strides=tuple(event["strides"]),
        box=tuple(event["box"]) if tiled else (),
        element_strides=tuple(event["steps"]),
        interleave=_INTERLEAVES[event["interleave"]],
        swizzle=_SWIZZLES[event["swizzle"]],
        l2_promotion=_PROMOTIONS[event["promotion"]],
        oob_fill=_FILLS[event["fill"]],
        lower_corner=() if tiled else tuple(event["lower"]),
        upper_corner=() if tiled else tuple(event["upper"]),
        channels_per_pixel=0 if tiled else event["channels"],
        pixels_per_column=0 if tiled else event["pixels"],
    )


def _recording(status: int, events: list[dict[str, Any]]) -> Recording:
    steps: list[Launch | Fill | Copy] = []
    findings, maps = [], []
    for event in events:
        call = event["call"]
        for message in event["problems"]:
            where = f"launch of {event['kernel']}" if call == "launch" else call.replace("_", " ")
            findings.append(Finding("launch", f"{where}: {message}"))
        if event["status"] != 0:
            continue
        if call == "tensor_map":
            maps.append(_tensor_map(event))
        elif call == "memset":
            fields = (event[name] for name in ("to", "value", "width", "height", "pitch"))
            steps.append(Fill(*fields))
        elif call == "memcpy":
            steps.append(Copy(event["to"], event["from"], event["bytes"]))
        elif call == "launch":
            steps.append(
                Launch(
                    kernel=event["kernel"],
                    grid=tuple(event["grid"]),
                    block=tuple(event["block"]),
                    cluster=tuple(event["cluster"]),
                    shared_bytes=event["shared"],
                    params=tuple(bytes.fromhex(text) for text in event["parameters"]),
                    tensor_maps=tuple(maps),
                    attributes=tuple(event["attributes"]),
                )
            )
    return Recording(status, tuple(steps), tuple(findings), tuple(events))


def apply(step: Fill | Copy, memory: Memory) -> None:
    """Carry out a memset or a copy. A buffer that it touches counts as initialised from then on.

    Raises:
        SimulationError: bytes outside every buffer, or of a buffer that is not writable.
    """

    def span(address: int, size: int, write: bool) -> np.ndarray:
        buffer = memory.find(address)
        if buffer is None or address + size > buffer.address + buffer.size:
            raise SimulationError(f"{size} bytes at 0x{address:x} are in no buffer")
        if write and not buffer.writable:
            raise SimulationError(f"the launcher writes {buffer.name}, which is an input")
        buffer.initialised |= write
        start = address - buffer.address
        return buffer.data[start : start + size]

    if isinstance(step, Copy):
        if step.size:
            span(step.to, step.size, True)[:] = span(step.source, step.size, False)
        return
    for row in range(step.height if step.width else 0):
        span(step.address + row * step.pitch, step.width, True)[:] = step.value


def perform(
    steps: Sequence[Launch | Fill | Copy], memory: Memory, run: Callable[[Launch], Outcome]
) -> list[Outcome]:
    """Carry out steps in stream order; returns what each launch showed.

    What one launch wrote the next may read, so a buffer that a launch changed counts as initialised from then on.
    """
    outcomes = []
    for step in steps:
        if not isinstance(step, Launch):
            apply(step, memory)
            continue
        before = [(b, b.data.copy()) for b in memory.buffers if not b.initialised]
        outcomes.append(run(step))
        for buffer, data in before:
            buffer.initialised = not np.array_equal(buffer.data, data)
    return outcomes
