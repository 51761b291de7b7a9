"""A process that answers one line for each line it is sent, within a time, and is killed otherwise."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilegen.errors import TilegenError

# How much of what a process printed on standard error is kept for a message.
KEPT_ERROR = 400


class WorkerFailed(TilegenError):
    """A worker refused a request, stopped, or did not answer in time.

    Attributes:
        reason: `refused`, `crashed` or `hung`.
    """

    exit_code = 1

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.reason, self.message)


class Worker:
    """A process that holds one competitor.

    Attributes:
        name: the competitor's name.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start `python -m tilegen.bench.worker arguments...` in a session of its own.

        Args:
            name: the competitor's name in samples and messages.
            arguments: the peer's name and its threads, and what to load at once: `gpu` or `torch`.
            environment: all of its environment variables; those of this process if None.
        """
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tilegen.bench.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
        )
        self._answers = b""
        self._printed = b""
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(self, request: str, timeout: float) -> str:
        """Send one line and return the answer.

        Args:
            request: a line without its end.
            timeout: seconds to wait; a process that takes longer is killed.

        Raises:
            WorkerFailed: it refused with a reason, it stopped, or it took too long.
        """
        try:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._stopped() from None
        word, _, rest = self._line(timeout).partition(" ")
        if word == "ok":
            return rest
        raise WorkerFailed("refused", f"{self.name}: {rest or word}")

    def _line(self, timeout: float) -> str:
        until = time.monotonic() + timeout
        while b"\n" not in self._answers:
            left = until - time.monotonic()
            if left <= 0:
                self.kill()
                raise WorkerFailed("hung", f"{self.name}: no answer within {timeout:g} s, killed")
            for key, _ in self._selector.select(left):
                data = os.read(key.fd, 65536)
                if key.fileobj is self._process.stderr:
                    self._printed = (self._printed + data)[-KEPT_ERROR:]
                else:
                    self._answers += data
                if data:
                    continue
                self._selector.unregister(key.fileobj)
                if key.fileobj is self._process.stdout:
                    raise self._stopped()
        line, _, self._answers = self._answers.partition(b"\n")
        return line.decode(errors="replace").strip()

    def _stopped(self) -> WorkerFailed:
        self.kill()
        code = self._process.returncode
        how = f"exit code {code}"
        if code < 0:
            how = f"signal {-code} ({signal.Signals(-code).name})"
        last = self._printed.decode(errors="replace").strip().splitlines()
        said = f": {last[-1]}" if last else ""
        return WorkerFailed("crashed", f"{self.name}: the process stopped with {how}{said}")

    def kill(self) -> None:
        """End the process and everything it started, at once."""
        if self.alive:
            # A crash takes a moment to be reported; its own signal says more than ours.
            try:
                self._process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._close()

    def close(self) -> None:
        """Let the process end; kill it if it does not within a second."""
        try:
            self._process.stdin.close()
            self._process.wait(timeout=1)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def _close(self) -> None:
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                stream.close()
            except OSError:
                pass


@dataclass(frozen=True)
class Slot:
    """One of several competitors in a process.

    Attributes:
        name: its name.
        process: the process.
    """

    name: str
    process: Worker

    def ask(self, request: str, timeout: float) -> str:
        """As `Worker.ask`, for this competitor."""
        try:
            return self.process.ask(f"{request} {self.name}", timeout)
        except WorkerFailed as error:
            what = error.message.removeprefix(f"{self.process.name}: ")
            raise WorkerFailed(error.reason, f"{self.name}: {what}") from None


@contextmanager
def holding(device: str, on_gpu: bool) -> Iterator[None]:
    """Hold a device while something runs on it: other processes of this machine wait.

    Args:
        device: its key, as in the tables.
        on_gpu: whether it is a GPU; of several of one kind each has a lock of its own.
    """
    own = gpu_of(os.environ.get("CUDA_VISIBLE_DEVICES", "")) if on_gpu else ""
    path = Path(tempfile.gettempdir()) / f"tilegen-{os.getuid()}-{device}-{own}.timing"
    with open(path, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@functools.cache
def gpu_of(visible: str) -> str:
    """The identity of the first GPU that a process sees, whichever way it is named.

    Args:
        visible: `CUDA_VISIBLE_DEVICES`: numbers or the beginnings of identities; empty for all.
    """
    first = visible.split(",")[0].strip() or "0"
    try:
        command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        listed = ""
    for line in listed.splitlines():
        index, _, identity = (part.strip() for part in line.partition(","))
        if first == index or identity.startswith(first):
            return identity
    return re.sub(r"[^A-Za-z0-9]+", "-", first)
