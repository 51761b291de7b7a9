"""Timing on a GPU: graphs of launches, replayed A B B A beside a peer, inputs rotated past L2.

A competitor is captured into a CUDA graph of enough launches to last several milliseconds; launches
walk through the input sets. Replays of ours and of one peer alternate in the order A B B A, the first
pair is dropped, and each pair gives one ratio: both then saw the same clocks and the same power.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.errors import ToolMissing

# What one graph should last, and how large the rotated inputs must be.
GRAPH_SECONDS = 4e-3
ROTATION_BYTES = 256 << 20
MOST_SETS = 256
MOST_LAUNCHES = 400

Launch = Callable[[int], Any]


def torch() -> Any:
    """PyTorch with CUDA. Raises ToolMissing without it or without a GPU."""
    try:
        import torch
    except ImportError as error:
        raise ToolMissing(f"GPU benchmarks need PyTorch: {error}", "pip install torch") from None
    if not torch.cuda.is_available():
        raise ToolMissing("PyTorch sees no GPU", "Run on a machine with an NVIDIA GPU.")
    return torch


@dataclass
class Graph:
    """A captured competitor: replaying it makes `launches` launches.

    Attributes:
        replay: enqueues all launches.
        launches: how many.
        keeps: what the captured launches point at, arrays and workspaces, held while the graph lives.
    """

    replay: Callable[[], None]
    launches: int
    keeps: Any


def input_sets(bytes_of_one: int) -> int:
    """How many sets of inputs to rotate, so that none is in L2 when its turn comes again."""
    return max(2, min(MOST_SETS, -(-ROTATION_BYTES // max(1, bytes_of_one))))


def capture(launch: Launch, sets: int, seconds: float = GRAPH_SECONDS) -> Graph:
    """Warm a competitor up, estimate its time, and capture a graph of launches that lasts `seconds`."""
    cuda = torch().cuda
    stream = cuda.Stream()
    with cuda.stream(stream):
        for i in range(3):
            launch(i % sets)
        cuda.synchronize()
        start, stop = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record(stream)
        for i in range(4):
            launch(i % sets)
        stop.record(stream)
        cuda.synchronize()
        one = start.elapsed_time(stop) / 4e3
        launches = max(2, min(MOST_LAUNCHES, int(seconds / max(one, 1e-7))))
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=stream):
            for i in range(launches):
                launch(i % sets)
    return Graph(graph.replay, launches, launch)


def timed(graph: Graph) -> float:
    """Seconds a launch of one replay."""
    cuda = torch().cuda
    start, stop = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3 / graph.launches


def paired(ours: Graph, peer: Graph, pairs: int) -> tuple[list[float], list[float], list[float]]:
    """Alternate two competitors.

    Returns:
        Seconds of ours, seconds of the peer, and ratios peer / ours, one of each a pair.
    """
    mine, theirs, ratios = [], [], []
    for number in range(pairs + 1):
        if number % 2 == 0:
            a, b = timed(ours), timed(peer)
        else:
            b, a = timed(peer), timed(ours)
        if number:
            mine.append(a)
            theirs.append(b)
            ratios.append(b / a)
    return mine, theirs, ratios


def sustained(graphs: Sequence[Graph], seconds: float) -> list[float]:
    """Run each competitor alone for a while and give its seconds a launch at equal power.

    The order is walked forwards and then backwards, and the two values are averaged.
    """
    found: list[list[float]] = [[] for _ in graphs]
    for order in (range(len(graphs)), reversed(range(len(graphs)))):
        for i in order:
            one = timed(graphs[i]) * graphs[i].launches
            times = [timed(graphs[i]) for _ in range(max(3, int(seconds / max(one, 1e-6))))]
            found[i].append(statistics.median(times[len(times) // 2 :]))
    return [statistics.mean(f) for f in found]


def machine_facts() -> dict[str, str]:
    """Device, driver, clocks and power, as nvidia-smi has them now."""
    module = torch()
    query = "name,driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
    facts = {"torch": module.__version__, "cuda": str(module.version.cuda)}
    try:
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
        facts |= dict(zip(query.split(","), (v.strip() for v in text.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError):
        facts["name"] = module.cuda.get_device_name()
    return facts
