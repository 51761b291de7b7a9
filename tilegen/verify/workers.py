"""The same work on many kernels, in as many processes as there are processors."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from tilegen.errors import TilegenError

Item = TypeVar("Item")
Result = TypeVar("Result")

# More processes than this wait for memory rather than compute.
MOST_JOBS = 16


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int | None = None
) -> Iterator[Result]:
    """Results in the order of the items, each as soon as it and those before it are there.

    Args:
        function: importable by its name, since other processes call it.
        items: what it is called with; pickled on the way, as are the results.
        jobs: processes; as many as there are processors, and at most 16, if not given. With one job, or
            one item, this process does the work.

    Raises:
        Whatever the function raises, at the place of that item.
        TilegenError: a process died, for want of memory or by a signal.
    """
    jobs = min(jobs or min(processors(), MOST_JOBS), len(items))
    if jobs <= 1:
        yield from map(function, items)
        return
    # Started afresh: a forked child would share the locks of this one's compute threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            yield from pool.map(function, items)
        except BrokenProcessPool:
            raise TilegenError(
                f"one of {jobs} processes died, for want of memory or by a signal",
                "Try fewer at once: --jobs 1.",
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
