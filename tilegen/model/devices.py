"""What a GPU can do, as far as a model asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A GPU as the model sees it; rates are a multiprocessor's in one clock unless they say otherwise.

    Attributes:
        processors: multiprocessors.
        clock: GHz where the matrix units wait.
        drop: how much longer a clock becomes where all of them multiply all the time, as a part: the power limit.
        tensor: products of 16-bit elements by the matrix units, as wgmma or mma.sync of that architecture.
        mma: the same by mma.sync.
        fma32, fma64: products by the ordinary units.
        intake: bytes into shared memory of one multiprocessor, a nanosecond.
        l2, memory: bytes a nanosecond of the whole device.
        latency: nanoseconds from a request to device memory until the data is there.
    """

    processors: int
    clock: float
    drop: float
    tensor: int
    mma: int
    fma32: int
    fma64: int
    intake: float
    l2: float
    memory: float
    latency: float


# By target: H200, A100, A10, L40S, T4. Rates from NVIDIA's data sheets; the H200's clocks, intake, L2, memory and
# latency are fitted to measurements.
DEVICES = {
    "sm_90a": Device(132, 1.785, 0.306, 2048, 900, 128, 64, 178, 14500, 4450, 1180),
    "sm_80": Device(108, 1.41, 0.08, 1024, 1024, 64, 32, 60, 4500, 1400, 1000),
    "sm_86": Device(72, 1.69, 0.13, 512, 512, 128, 2, 60, 2000, 550, 900),
    "sm_89": Device(142, 2.10, 0.17, 512, 512, 128, 2, 60, 4500, 800, 1000),
    "sm_75": Device(40, 1.59, 0.23, 512, 512, 64, 2, 50, 1200, 280, 900),
}
