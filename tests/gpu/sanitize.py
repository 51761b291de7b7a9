"""Small calls of checked-in CUDA kernels, to be run under compute-sanitizer.

    compute-sanitizer --tool memcheck --target-processes all python tests/gpu/sanitize.py STEM ...

Without arguments it prints the stems.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilegen.artifacts import kernel_list
from tilegen.artifacts.check import render_list
from tilegen.runtime import gpu
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.verify.oracle import verify

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_FLOPS = 4_000_000


def main() -> int:
    kernels, _ = render_list(kernel_list.read(ROOT / "tilegen.toml"))
    cuda = {k.stem: k for k in kernels if isinstance(k.spec.target, CudaTarget)}
    if len(sys.argv) == 1:
        print("\n".join(cuda))
        return 0
    for stem in sys.argv[1:]:
        kernel = cuda[stem]
        here, own = gpu.compute_capability(), kernel.spec.target
        arch = None if here == own.cc else CudaTarget(f"sm_{here}", here, own.shared_block)
        loaded = gpu.GpuKernel(kernel.plan, build.library(kernel, arch=arch), kernel.symbol)
        verdict = verify(kernel.plan, loaded.run, limit=MOST_FLOPS)
        print(stem, "ok" if verdict.ok else verdict.failures[:3])
        if not verdict.ok:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
