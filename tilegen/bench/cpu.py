"""Timing on a CPU: one process a library, interleaved rounds, the best of each round.

Libraries bring their own thread pools and disturb each other in one process. So each competitor runs in
a worker that prepares the case and then times a few calls whenever it is told to; the rounds go through
the workers in turn, forwards and backwards. A ratio compares the best of neighbouring rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilegen.bench.process import Slot, Worker, WorkerFailed

# A timing of one round lasts about this long.
ROUND_SECONDS = 0.08
MOST_CALLS = 2000

# How long a worker may take to load its library and make its inputs, and to time one round.
PREPARE_TIMEOUT = 300.0
ROUND_TIMEOUT = 60.0


def time_calls(call: Callable[[], Any], seconds: float = ROUND_SECONDS) -> float:
    """Best seconds a call over at least three calls and about `seconds` in all."""
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or (spent < seconds and calls < MOST_CALLS):
        start = time.perf_counter()
        call()
        elapsed = time.perf_counter() - start
        best, spent, calls = min(best, elapsed), spent + elapsed, calls + 1
    return best


def environment(threads: int) -> dict[str, str]:
    """Environment variables that give every library this many threads (0: its own), and its best kernels."""
    variables = dict(os.environ)
    # Some machines pin OpenBLAS to an old kernel; a benchmark must not.
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        variables.pop(variable, None)
    if threads > 0:
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            variables[variable] = str(threads)
    variables["MKL_THREADING_LAYER"] = "GNU"
    return variables


def rounds(
    workers: Sequence[Worker | Slot], count: int, timeout: float = ROUND_TIMEOUT
) -> tuple[dict[str, list[float]], dict[str, WorkerFailed]]:
    """Time the workers in turn; the order turns round every time.

    Returns:
        Seconds a call by competitor, one sample a round, and what stopped those that failed: they are
        left out of the samples and of the rounds that follow.
    """
    samples: dict[str, list[float]] = {w.name: [] for w in workers}
    failed: dict[str, WorkerFailed] = {}
    for number in range(count):
        for worker in workers if number % 2 == 0 else reversed(workers):
            if worker.name in failed:
                continue
            try:
                seconds = float(worker.ask("time", timeout))
                if not 0 < seconds < float("inf"):
                    raise WorkerFailed("refused", f"{worker.name}: a time of {seconds} s")
                samples[worker.name].append(seconds)
            except WorkerFailed as error:
                failed[worker.name] = error
    return {name: times for name, times in samples.items() if name not in failed}, failed
