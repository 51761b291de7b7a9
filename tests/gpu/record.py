"""Record what a GPU of compute capability 9.0 computes for small calls of every checked-in CUDA kernel.

    python tests/gpu/record.py [FILE] [GLOB]

Each call runs twice; a kernel whose two results differ, or that fails, is named and left out. The file replaces
tests/gpu/recorded.npz, against which tests/test_recorded.py compares the simulator.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gpu import recorded  # noqa: E402
from tilegen.artifacts import kernel_list  # noqa: E402
from tilegen.artifacts.check import render_list  # noqa: E402
from tilegen.emit.render import Rendered  # noqa: E402
from tilegen.errors import CallRefused, TilegenError  # noqa: E402
from tilegen.runtime import gpu  # noqa: E402
from tilegen.targets import TARGETS, CudaTarget  # noqa: E402
from tilegen.toolchain import build  # noqa: E402
from tilegen.verify.oracle import FIRST_OWN_CODE, prepare  # noqa: E402


def record(kernel: Rendered, library: Path) -> list[recorded.Record]:
    """Records of the kernel's calls. Raises TilegenError if a call fails or repeats differently."""
    loaded = gpu.GpuKernel(kernel.plan, library, kernel.symbol)
    made = []
    for case in recorded.calls(kernel):
        results = []
        for _ in range(2):
            arrays, scalars, _ = prepare(kernel.plan, case)
            try:
                loaded.run({name: g.array for name, g in arrays.items()}, scalars)
            except CallRefused as refusal:
                if refusal.code < FIRST_OWN_CODE:
                    raise
                break  # alignments that the kernel does not take
            results.append(recorded.outputs(kernel, arrays))
        if not results:
            continue
        for name, elements in results[0].items():
            if elements.tobytes() != results[1][name].tobytes():
                raise TilegenError(f"{name} differs between two runs of {case}")
        made.append(recorded.make(kernel, case, results[0]))
    return made


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else recorded.FILE
    glob = sys.argv[2] if len(sys.argv) > 2 else "*"
    kernels, _ = render_list(kernel_list.read(ROOT / "tilegen.toml"))
    cuda = [k for k in kernels if isinstance(k.spec.target, CudaTarget) and fnmatch(k.stem, glob)]
    arch = TARGETS["sm_90a"]
    here = gpu.compute_capability()
    if here != arch.cc:
        print(f"records are of compute capability {arch.cc}, this GPU has {here}")
        return 1
    records, failed = {}, 0
    with ThreadPoolExecutor() as pool:
        libraries = {k.stem: pool.submit(build.library, k, arch=arch) for k in cuda}
        for kernel in cuda:
            try:
                records[kernel.stem] = record(kernel, libraries[kernel.stem].result())
            except TilegenError as error:
                failed += 1
                print(f"FAILED {kernel.stem}: {error}")
    recorded.save(path, gpu.device_name(), records)
    calls = sum(map(len, records.values()))
    print(f"{calls} calls of {len(records)} kernels, {path.stat().st_size} bytes, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
