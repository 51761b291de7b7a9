"""Files made from the whole list: the index for readers and the build for CMake."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.artifacts.manifest import Manifest
from tilegen.emit.environment import environment
from tilegen.emit.render import Rendered
from tilegen.targets import CudaTarget

INDEX = "README.md"
CMAKE = "CMakeLists.txt"
UMBRELLA = "tilegen_kernels.h"


def manifest_of(kernels: Sequence[Rendered]) -> Manifest:
    """The manifest of a list of emitted kernels."""
    entries = {
        k.stem: {
            "command": k.command,
            "symbol": k.symbol,
            "target": k.spec.target.name,
            "inputs": k.inputs,
            "files": sorted(k.files),
        }
        for k in kernels
    }
    return Manifest(entries, [INDEX, CMAKE, UMBRELLA])


def _row(kernel: Rendered) -> str:
    formula = kernel.plan.problem.title().replace("|", "\\|")
    return f"| [`{kernel.stem}`]({kernel.source}) | `{formula}` | {kernel.spec.target} |"


def _cuda_groups(kernels: Sequence[Rendered]) -> list[dict[str, object]]:
    groups: dict[str, list[str]] = {}
    for kernel in kernels:
        if isinstance(kernel.spec.target, CudaTarget):
            groups.setdefault(kernel.spec.target.name, []).append(kernel.source)
    # An architecture with a letter runs nowhere else.
    return [
        {
            "arch": name.removeprefix("sm_"),
            "exact": name[-1].isalpha(),
            "sources": sorted(groups[name]),
        }
        for name in sorted(groups)
    ]


# CMake conditions by the kind of machine that a C kernel needs.
_MACHINES = {
    "any": "TRUE",
    "x86_64": 'CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"',
    "aarch64": 'CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64"',
}


def _c_groups(kernels: Sequence[Rendered]) -> list[dict[str, object]]:
    groups: dict[str, list[str]] = {name: [] for name in _MACHINES}
    for kernel in kernels:
        if not isinstance(kernel.spec.target, CudaTarget):
            groups[kernel.spec.target.machine].append(kernel.source)
    return [
        {"condition": _MACHINES[name], "sources": sorted(groups[name])}
        for name in groups
        if groups[name]
    ]


def index_files(kernels: Sequence[Rendered]) -> dict[str, str]:
    """Text by path of the index, the CMake file and the header that includes every kernel's."""
    rows = [_row(k) for k in sorted(kernels, key=lambda k: (k.spec.target.backend, k.stem))]
    c_headers = sorted(
        p for k in kernels for p in k.files if p.endswith(".h") and p.startswith("c_")
    )
    cuda_headers = sorted(
        p for k in kernels for p in k.files if p.endswith(".h") and p.startswith("cu")
    )
    names = {
        "rows": rows,
        "cuda_groups": _cuda_groups(kernels),
        "c_groups": _c_groups(kernels),
        "c_headers": c_headers,
        "cuda_headers": cuda_headers,
    }
    env = environment()
    return {
        INDEX: env.get_template("common/index.md.j2").render(names),
        CMAKE: env.get_template("common/CMakeLists.txt.j2").render(names),
        UMBRELLA: env.get_template("common/umbrella.h.j2").render(names),
    }
