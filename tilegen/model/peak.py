"""The least time that a device's data sheet leaves a call: its arithmetic, or its bytes, at the peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.problems.base import Problem


@dataclass(frozen=True)
class Peak:
    """Peaks of a data sheet, without sparsity.

    Attributes:
        memory: bytes of device memory a second.
        units: operations of f32 a second, by the units that every formula uses.
        tensor: operations of products a second by the type of their inputs; of others, `units`.
    """

    memory: float
    units: float
    tensor: Mapping[str, float]


_HOPPER = {"f64": 67e12, "tf32": 494.5e12} | dict.fromkeys(("f16", "bf16"), 989.5e12)
_HOPPER |= dict.fromkeys(("e4m3", "e5m2", "i8", "u8"), 1979e12)
_AMPERE = {"f64": 19.5e12, "tf32": 156e12, "i8": 624e12} | dict.fromkeys(("f16", "bf16"), 312e12)

# By the devices' names in the tables. NVIDIA's data sheets of H200, H100 (SXM) and A100 (SXM).
PEAKS = {
    "nvidia-h200": Peak(4.8e12, 67e12, _HOPPER),
    "nvidia-h100-80gb-hbm3": Peak(3.35e12, 67e12, _HOPPER),
    "nvidia-a100-sxm4-80gb": Peak(2.039e12, 19.5e12, _AMPERE),
    "nvidia-a100-sxm4-40gb": Peak(1.555e12, 19.5e12, _AMPERE),
}


def share(device: str, problem: Problem, sizes: Mapping[str, int], seconds: float) -> float | None:
    """Part of the peak that a call reaches; None for a device whose peaks are not known.

    Args:
        device: the device's name in the tables.
        problem: what is computed.
        sizes: its extents.
        seconds: what one call takes.
    """
    if device not in PEAKS or seconds <= 0:
        return None
    peak = PEAKS[device]
    rate = peak.units
    if problem.operator != "formula":
        rate = peak.tensor.get(str(getattr(problem, "dtype", "")), rate)
    return max(problem.flops(sizes) / rate, problem.bytes(sizes) / peak.memory) / seconds
