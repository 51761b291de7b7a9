"""What a machine allows: the limits that schedules are checked against."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import UsageError
from tilegen.values import nearest


@dataclass(frozen=True)
class Target:
    """Base of the two kinds of target.

    Attributes:
        name: what `--target` takes, such as `sm_80` or `x86-64-v3`.
    """

    name: str

    backend = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class CudaTarget(Target):
    """An NVIDIA architecture (CUDA C Programming Guide, table of compute capabilities).

    Attributes:
        cc: compute capability times ten.
        shared_block: dynamic shared memory a block may opt in to, in bytes.
        shared_sm: shared memory of a multiprocessor, in bytes.
        threads_sm: resident threads a multiprocessor.
        blocks_sm: resident blocks a multiprocessor.
        features: names of what the architecture adds: cp_async, mma_bf16, tma, wgmma.
    """

    cc: int = 0
    shared_block: int = 0
    shared_sm: int = 0
    threads_sm: int = 2048
    blocks_sm: int = 32
    features: frozenset[str] = frozenset()

    backend = "cuda"
    warp = 32
    threads_block = 1024
    registers_sm = 65536
    registers_thread = 255
    # Shared memory that the driver reserves for each resident block (cc 8.0 and newer).
    shared_reserved = 1024
    # Shared memory a block may use without opting in.
    shared_default = 49152

    @property
    def gencode(self) -> str:
        """The nvcc flag: the long form, which never adds a second architecture."""
        arch = self.name.removeprefix("sm_")
        return f"-gencode=arch=compute_{arch},code=sm_{arch}"


@dataclass(frozen=True)
class CpuTarget(Target):
    """A C compiler's target with OpenMP.

    Attributes:
        vector_bytes: width of a SIMD register in bytes.
        vector_registers: architectural SIMD registers.
        features: gcc and clang names for `target("...")`, in the order printed; empty for the baseline.
        machine: `any`, `x86_64` or `aarch64`.
        l1_bytes, l2_bytes: data cache sizes assumed when a schedule derives its blocks.
    """

    vector_bytes: int = 16
    vector_registers: int = 16
    features: tuple[str, ...] = ()
    machine: str = "any"
    l1_bytes: int = 32768
    l2_bytes: int = 1 << 20

    backend = "c_openmp"


def _cuda(name: str, block: int, sm: int, threads: int, blocks: int, *features: str) -> CudaTarget:
    cc = int(name.removeprefix("sm_").rstrip("a"))
    return CudaTarget(name, cc, block, sm, threads, blocks, frozenset(features))


_AMPERE = ("cp_async", "mma_bf16")
_V3 = ("avx2", "fma", "f16c", "bmi2")
_V4 = ("avx512f", "avx512bw", "avx512dq", "avx512vl") + _V3

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        _cuda("sm_75", 65536, 65536, 1024, 16),
        _cuda("sm_80", 166912, 167936, 2048, 32, *_AMPERE),
        _cuda("sm_86", 101376, 102400, 1536, 16, *_AMPERE),
        _cuda("sm_89", 101376, 102400, 1536, 24, *_AMPERE, "mma_fp8"),
        _cuda("sm_90a", 232448, 233472, 2048, 32, *_AMPERE, "mma_fp8", "tma", "wgmma"),
        CpuTarget("portable", 16, 16),
        CpuTarget("x86-64-v3", 32, 16, _V3, "x86_64"),
        CpuTarget("x86-64-v4", 64, 32, _V4, "x86_64"),
        CpuTarget("x86-64-vnni", 64, 32, ("avx512vnni",) + _V4, "x86_64"),
        CpuTarget(
            "amx",
            64,
            32,
            ("amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512vnni") + _V4,
            "x86_64",
            49152,
            2 << 20,
        ),
        CpuTarget("neon", 16, 32, (), "aarch64"),
    )
}

# Words of the design that name a backend with its usual level.
ALIASES = {"c_openmp": "portable", "cuda": "sm_80", "sm_90": "sm_90a"}


def target(name: str | Target) -> Target:
    """Look a target up by name.

    Raises:
        UsageError: the name is none of ours; the message lists them.
    """
    if isinstance(name, Target):
        return name
    name = ALIASES.get(name, name)
    if name not in TARGETS:
        raise UsageError(
            f"unknown target '{name}'{nearest(name, TARGETS)}", f"Known: {' '.join(TARGETS)}"
        )
    return TARGETS[name]
