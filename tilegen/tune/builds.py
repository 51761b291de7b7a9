"""Candidates as libraries: each is built once in a run, however many sizes it is tried at."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from tilegen.tune.candidates import Candidate
from tilegen.tune.executors import Places
from tilegen.tune.trial import Compiled, Job, Rules, build_and_check, compile_candidate, fault


class Builds:
    """Builds of a run, by the digest of the kernel's text."""

    def __init__(self, places: Places, rules: Rules) -> None:
        """Start nothing yet.

        Args:
            places: where compilers run; a place with checkers also verifies what it built.
            rules: of verification.
        """
        self._places, self._rules = places, rules
        self._futures: dict[str, Future] = {}
        self._faults: dict[str, str] = {}

    def start(self, candidate: Candidate, verified: str = "") -> Future:
        """The build of a candidate, a future of Compiled, begun if it was not.

        Args:
            candidate: what to build.
            verified: what verification found in an earlier run; empty if it was never verified.
        """
        made = self._futures.get(candidate.digest)
        if made is None or made.cancelled():
            work: tuple[Callable[..., Compiled], ...] = (compile_candidate, candidate.kernel)
            if self._places.checkers is not None and not verified:
                work = (build_and_check, candidate.kernel, candidate.options, self._rules)
            made = self._places.compilers.submit(*work)
            self._futures[candidate.digest] = made
        return made

    def result(self, candidate: Candidate) -> Compiled:
        """The finished build of a candidate."""
        return self.start(candidate).result()

    def fault(self, candidate: Candidate, job: Job) -> str:
        """What quick verification finds wrong with a candidate, once in a run; empty if it is right."""
        if candidate.digest not in self._faults:
            found = self._places.timers.submit(fault, job, self._rules).result()
            self._faults[candidate.digest] = found
        return self._faults[candidate.digest]

    def cancel(self) -> None:
        """Drop what has not begun."""
        for future in self._futures.values():
            future.cancel()
