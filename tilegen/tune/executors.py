"""Where trials run: compiles in parallel, timings one at a time; here, or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tilegen.errors import ToolMissing, UsageError

# Workers of a cluster that own a device to time on offer this resource, once for each device.
RESOURCE = "tilegen-device"
RETRIES = 3
CONNECT_SECONDS = 15


class Inline(Executor):
    """Runs each call at once in the calling thread, so that timings never overlap and Ctrl-C stops them."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass
class Places:
    """Executors of a search.

    Attributes:
        compilers: any number at once; a compiler is a process of its own.
        timers: one call at a time on each device.
        close: releases both.
        checkers: verify kernels for a GPU while others are compiled and timed; the timers where they are
            not given, as on a cluster and on a CPU, whose timings it would disturb.
    """

    compilers: Executor
    timers: Executor
    close: Callable[[], None]
    checkers: Executor | None = None


def local(jobs: int = 0, gpu: bool = False) -> Places:
    """Executors of this machine; `jobs` compilers at once, 0 for one a core."""
    pool = ThreadPoolExecutor(jobs or os.cpu_count() or 1, thread_name_prefix="compile")
    close = lambda: pool.shutdown(wait=False, cancel_futures=True)  # noqa: E731
    return Places(pool, Inline(), close, pool if gpu else None)


def farm(address: str) -> Places:
    """Executors of a Dask cluster; calls of workers that are lost are made again elsewhere.

    Raises:
        ToolMissing: dask.distributed is not installed.
        UsageError: no scheduler answers there, or none of its workers offers a device.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ToolMissing(
            f"--scheduler needs dask.distributed: {error}", "pip install 'tilegen[farm]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}: {error}", "Start one with: dask scheduler"
        ) from None
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not any(RESOURCE in worker["resources"] for worker in workers):
        client.close()
        raise UsageError(
            f"no worker of {address} offers {RESOURCE}",
            f"Start workers with: dask worker {address} --nthreads 1 --resources {RESOURCE}=1",
        )
    compilers = client.get_executor(retries=RETRIES, pure=False)
    timers = client.get_executor(retries=RETRIES, pure=False, resources={RESOURCE: 1})
    return Places(compilers, timers, client.close)


def places(scheduler: str = "", jobs: int = 0, gpu: bool = False) -> Places:
    """Executors of a cluster if its scheduler is named, else of this machine, with its GPU or without."""
    return farm(scheduler) if scheduler else local(jobs, gpu)
