"""The processes that candidates run in: whatever a candidate does, it ends at most the process it is in.

On a CPU a candidate has a process to itself. On a GPU, where a process takes seconds to start, it shares one
with the default and with the candidates before it; a process in which anything failed is ended and never
used again, and a spare that has loaded its libraries already takes its place.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tilegen.bench import cpu
from tilegen.bench.process import Worker, WorkerFailed


def worker(name: str, threads: int, peer: str = "tilegen", load: str = "") -> Worker:
    """A process for one of our kernels, or for a peer.

    Args:
        name: its name in messages.
        threads: CPU threads; 0 on a GPU.
        peer: the peer's name, or ours.
        load: what it loads at once, `gpu` or `torch`.
    """
    return Worker(name, [peer, str(threads), *filter(None, [load])], cpu.environment(threads))


class Lane:
    """One process of a kind, kept from use to use, and a spare."""

    def __init__(self, name: str, load: str, spare: bool) -> None:
        """Start nothing yet.

        Args:
            name: the processes' name in messages.
            load: what they load at once.
            spare: whether to keep one ready.
        """
        self._name, self._load, self._keeps_spare = name, load, spare
        self._now: Worker | None = None
        self._spare: Worker | None = None
        # What the process holds, for its user to know.
        self.holds: object = None

    def process(self) -> Worker:
        """The process, started or replaced if need be."""
        if self._now is None or not self._now.alive:
            self.spoil()
            self._now = self._spare or worker(self._name, 0, load=self._load)
            self._spare = worker(self._name, 0, load=self._load) if self._keeps_spare else None
        return self._now

    def spoil(self) -> None:
        """End the process: something failed in it."""
        if self._now is not None:
            self._now.kill()
        self._now, self.holds = None, None

    def close(self) -> None:
        """End both processes."""
        self.spoil()
        if self._spare is not None:
            self._spare.kill()
        self._spare = None


_lanes: dict[str, Lane] = {}
_checkers: list[Lane] = []
_own = threading.local()


def timing_lane(device: str) -> Lane:
    """The lane in which candidates of a GPU are timed."""
    if device not in _lanes:
        _lanes[device] = Lane("candidate", "torch", spare=True)
    return _lanes[device]


def checking_lane() -> Lane:
    """The lane of this thread in which candidates of a GPU are verified."""
    if not hasattr(_own, "lane"):
        _own.lane = Lane("candidate", "gpu", spare=False)
        _checkers.append(_own.lane)
    return _own.lane


@contextmanager
def used(lane: Lane) -> Iterator[Worker]:
    """The process of a lane, ended if something fails in it."""
    try:
        yield lane.process()
    except WorkerFailed:
        lane.spoil()
        raise


@atexit.register
def close_all() -> None:
    """End every process that is kept."""
    for lane in [*_lanes.values(), *_checkers]:
        lane.close()
