"""Which device is tuned: its key in the tables, its compiler and its facts."""

from __future__ import annotations

import re
from pathlib import Path

from tilegen.bench.samples import host_facts
from tilegen.targets import CudaTarget, Target
from tilegen.toolchain.find import find_cc, find_nvcc


def slug(text: str) -> str:
    """A name as one word of small letters: `NVIDIA H200` is `nvidia-h200`."""
    plain = re.sub(r"\((R|TM)\)", "", text, flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def _cpu_model() -> str:
    """Family and model number, which a bare name such as `Xeon Processor` leaves open."""
    found = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("cpu family", "model", "CPU part"):
                found.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    return "-".join(found.values())


def device_key(where: Target) -> str:
    """The key of this machine's device in the tables, such as `nvidia-h200`.

    Raises:
        ToolMissing: a CUDA target without a GPU.
    """
    if isinstance(where, CudaTarget):
        from tilegen.runtime import gpu

        return slug(gpu.device_name())
    facts = host_facts()
    return slug(f"{facts.get('cpu') or facts['machine']} {_cpu_model()}")


def toolchain(where: Target) -> str:
    """The compiler whose kernels are measured, one line. Raises ToolMissing."""
    return (find_nvcc() if isinstance(where, CudaTarget) else find_cc()).version


def facts(where: Target) -> dict[str, str]:
    """Device, driver and clocks for a row of a table."""
    if isinstance(where, CudaTarget):
        from tilegen.bench import gpu

        return gpu.machine_facts()
    found = host_facts()
    return {name: found[name] for name in ("cpu", "machine") if name in found}
