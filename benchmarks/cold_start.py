"""Cold start on a GPU: a kernel built ahead of time beside Triton's first call, each in processes of its own.

    tilegen build gemm --target sm_90a -o built
    python benchmarks/cold_start.py built --save benchmarks/results/cold_start_h200.json

A sample is the time from a process's first line until the first product of 512 x 512 x 512 is on the device and its
values have been seen to be right; what is imported counts. Triton is timed with an empty cache and with a full one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tilegen.bench import gpu
from tilegen.bench.samples import Report, Row

SIZE = 512

AHEAD = """\
import time
start = time.perf_counter()
import sys
import torch
import tilegen
kernel = next(iter(tilegen.load(sys.argv[1]).values()))
loaded = time.perf_counter()
a, b = (torch.randn(512, 512, device="cuda").half() for _ in range(2))
c = torch.empty(512, 512, device="cuda", dtype=torch.float16)
torch.cuda.synchronize()
before = time.perf_counter()
kernel(a, b, out=c)
torch.cuda.synchronize()
stop = time.perf_counter()
assert (c.float() - a.float() @ b.float().T).abs().max() < 1
print(stop - start, stop - before)
"""

TRITON = """\
import time
start = time.perf_counter()
import torch
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
        y = tl.load(b + cols[None, :] * K + (k + depth)[:, None])
        sums = tl.dot(x, y, sums)
    tl.store(c + rows[:, None] * N + cols[None, :], sums.to(tl.float16))

a, b = (torch.randn(512, 512, device="cuda").half() for _ in range(2))
c = torch.empty(512, 512, device="cuda", dtype=torch.float16)
torch.cuda.synchronize()
before = time.perf_counter()
product[(4, 4)](a, b, c, 512, 512, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
torch.cuda.synchronize()
stop = time.perf_counter()
assert (c.float() - a.float() @ b.float().T).abs().max() < 1
print(stop - start, stop - before)
"""


def run(text: str, *arguments: str, **environment: str) -> tuple[float, float]:
    """Seconds of a fresh process from its first line to its first product, and of the first call alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, str(path), *arguments]
        ran = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    whole, call = ran.stdout.split()
    return float(whole), float(call)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="what `tilegen build -o` wrote")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    rows = [Row(what, "cold start", "gemm", {"m": SIZE, "n": SIZE, "k": SIZE}) for what in CASES]
    with tempfile.TemporaryDirectory() as kept:
        run(TRITON, TRITON_CACHE_DIR=kept)
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as empty:
                found = {
                    "tilegen": run(AHEAD, str(Path(given.folder).absolute())),
                    "triton": run(TRITON, TRITON_CACHE_DIR=empty),
                    "triton, cached": run(TRITON, TRITON_CACHE_DIR=kept),
                }
            for row, place in zip(rows, (0, 1)):
                for name, seconds in found.items():
                    row.seconds.setdefault(name, []).append(seconds[place])
    for row in rows:
        row.kernel, row.command = (
            "built ahead of time",
            "tilegen build gemm --target sm_90a",
        )
        ours = row.seconds["tilegen"]
        for name, times in row.seconds.items():
            if name != "tilegen":
                row.ratios[name] = [t / o for t, o in zip(times, ours)]
        medians = ", ".join(f"{n} {statistics.median(t):.3f} s" for n, t in row.seconds.items())
        print(f"{row.case}: {medians}")
    if given.save is not None:
        Report("cold_start", gpu.machine_facts(), rows).save(given.save)


CASES = ("process to first product", "first call")


if __name__ == "__main__":
    main()
