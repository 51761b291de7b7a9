"""What this machine's CPU has."""

from __future__ import annotations

import functools
import hashlib
import platform
from pathlib import Path

from tilegen.targets import CpuTarget

# Names in /proc/cpuinfo where they differ from the compilers' names.
_CPUINFO = {"bmi2": "bmi2", "amx-tile": "amx_tile", "amx-bf16": "amx_bf16", "amx-int8": "amx_int8"}
_CPUINFO |= {"avx512bf16": "avx512_bf16", "avx512vnni": "avx512_vnni"}


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Feature flags of the CPU as Linux names them; empty where they cannot be read."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def missing_features(target: CpuTarget) -> list[str]:
    """Features that a target needs and this CPU lacks (all of them if the CPU is another kind)."""
    if target.machine not in ("any", platform.machine()):
        return [target.machine]
    flags = cpu_flags()
    return [f for f in target.features if _CPUINFO.get(f, f) not in flags]


def l2_bytes() -> int | None:
    """Bytes of this machine's L2 cache, a core's own or its cluster's, as Linux tells; None where it does not."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            if level == "2":
                return int(size.removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    return None


def native_flags() -> list[str]:
    """Compiler flags for this machine's processor, and a definition that tells processors apart.

    The definition makes a cache that several machines share keep their libraries apart.
    """
    flag = "-mcpu=native" if platform.machine() == "aarch64" else "-march=native"
    digest = hashlib.sha256(" ".join(sorted(cpu_flags())).encode()).hexdigest()[:8]
    return [flag, f"-DTILEGEN_BUILT_FOR_{digest}"]
