"""Timing on a CPU: one process a library, interleaved rounds, the best of each round.

Libraries bring their own thread pools and disturb each other in one process. So each competitor runs in
a worker that prepares the case and then times a few calls whenever it is told to; the rounds go through
the workers in turn, forwards and backwards. A ratio compares the best of neighbouring rounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilegen.errors import BuildError

# A timing of one round lasts about this long.
ROUND_SECONDS = 0.08
MOST_CALLS = 2000
FLUSH_BYTES = 64 << 20


def time_calls(call: Callable[[], Any], seconds: float = ROUND_SECONDS) -> float:
    """Best seconds a call over at least three calls and about `seconds` in all."""
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or (spent < seconds and calls < MOST_CALLS):
        start = time.perf_counter()
        call()
        elapsed = time.perf_counter() - start
        best, spent, calls = min(best, elapsed), spent + elapsed, calls + 1
    return best


class Worker:
    """A process that holds one competitor.

    Attributes:
        name: the competitor's name.
    """

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        environment = dict(os.environ)
        # Some workplaces pin OpenBLAS to an old kernel; a benchmark must not.
        for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environment.pop(variable, None)
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(threads)
        environment["MKL_THREADING_LAYER"] = "GNU"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tilegen.bench.worker", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, request: str) -> str:
        """Send one line and return the answer. Raises BuildError with the worker's reason."""
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        word, _, rest = answer.partition(" ")
        if word != "ok":
            raise BuildError(f"{self.name}: {rest or 'the worker stopped'}")
        return rest

    def close(self) -> None:
        """End the process."""
        try:
            self._process.stdin.close()
            self._process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()


def rounds(workers: Sequence[Worker], count: int) -> dict[str, list[float]]:
    """Seconds a call by competitor, one sample a round; the order turns round every time."""
    samples: dict[str, list[float]] = {w.name: [] for w in workers}
    for number in range(count):
        for worker in workers if number % 2 == 0 else reversed(workers):
            samples[worker.name].append(float(worker.ask("time")))
    return samples
