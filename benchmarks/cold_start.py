"""Cold start on a GPU: a kernel built ahead of time beside the first calls of Triton and TileLang, each in a process.

    tilegen build gemm --target sm_90a -o built
    python benchmarks/cold_start.py built --save benchmarks/results/cold_start_h200.json

A sample is the time from a process's first line until the first product of 512 x 512 x 512 is on the device and its
values have been seen to be right; what is imported counts. What compiles at run time is timed with an empty cache
and with a full one. What is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tilegen.bench import gpu
from tilegen.bench.samples import Report, Row
from tilegen.errors import TilegenError

SIZE = 512
CASES = ("process to first product", "first call")

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


TILELANG = """\
import time
start = time.perf_counter()
import torch
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def product(M, N, K, BM, BN, BK):
    @T.prim_func
    def main(a: T.Tensor((M, K), "float16"), b: T.Tensor((N, K), "float16"), c: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=256) as (bx, by):
            x = T.alloc_shared((BM, BK), "float16")
            y = T.alloc_shared((BN, BK), "float16")
            sums = T.alloc_fragment((BM, BN), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
                T.copy(a[by * BM, step * BK], x)
                T.copy(b[bx * BN, step * BK], y)
                T.gemm(x, y, sums, transpose_B=True)
            T.copy(sums, c[by * BM, bx * BN])
    return main

a, b = (torch.randn(512, 512, device="cuda").half() for _ in range(2))
torch.cuda.synchronize()
before = time.perf_counter()
c = product(512, 512, 512, 128, 128, 64)(a, b)
torch.cuda.synchronize()
stop = time.perf_counter()
assert (c.float() - a.float() @ b.float().T).abs().max() < 1
print(stop - start, stop - before)
"""

# What compiles at run time: its program, and the environment variable that moves its cache.
PEERS = {"triton": (TRITON, "TRITON_CACHE_DIR"), "tilelang": (TILELANG, "TILELANG_CACHE_DIR")}


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
    whole, call = ran.stdout.split()[-2:]
    return float(whole), float(call)


def measure(
    folder: Path,
    peers: Mapping[str, tuple[str, str]],
    samples: dict[str, list[tuple[float, float]]],
) -> None:
    """Add a sample of `run` for each competitor; what has compiled runs again with the cache it has filled."""

    def add(label: str, text: str, *arguments: str, **environment: str) -> None:
        whole, call = run(text, *arguments, **environment)
        samples.setdefault(label, []).append((whole, call))
        print(f"{label}: {whole:.2f} s, of which its first call {call:.3f} s", flush=True)

    add("tilegen", AHEAD, str(folder))
    for name, (text, variable) in peers.items():
        with tempfile.TemporaryDirectory() as cache:
            for label in (name, f"{name}, cached"):
                add(label, text, **{variable: cache})


def rows_of(samples: Mapping[str, Sequence[tuple[float, float]]]) -> list[Row]:
    """A row for each competitor and each of the two times."""
    rows = []
    for place, what in enumerate(CASES):
        ours = [sample[place] for sample in samples["tilegen"]]
        for name in samples.keys() - {"tilegen"}:
            theirs = [sample[place] for sample in samples[name]]
            row = Row(f"{what}, {name}", what, "gemm", {"m": SIZE, "n": SIZE, "k": SIZE})
            row.kernel, row.command = "built ahead of time", "tilegen build gemm --target sm_90a"
            row.seconds = {"tilegen": ours, name: theirs}
            row.ratios = {name: [t / o for t, o in zip(theirs, ours, strict=True)]}
            rows.append(row)
    return sorted(rows, key=lambda row: (CASES.index(row.group), row.case))


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="what `tilegen build -o` wrote")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    peers = {name: peer for name, peer in PEERS.items() if find_spec(name) is not None}
    for name in PEERS.keys() - peers.keys():
        print(f"{name} is not installed: left out")
    try:
        machine = gpu.machine_facts()
    except TilegenError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    samples: dict[str, list[tuple[float, float]]] = {}
    for _ in range(given.rounds):
        measure(Path(given.folder).absolute(), peers, samples)
        rows = rows_of(samples)
        if given.save is not None:
            Report("cold_start", machine, rows).save(given.save)
    for row in rows:
        peer, ratio = row.best_peer()
        print(f"{row.case}: {row.median():.3f} s, {row.median(peer):.3f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
