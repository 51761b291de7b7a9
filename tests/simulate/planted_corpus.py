"""Kernels with planted bugs: what each source's launcher takes, what the right kernel computes, what each bug must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from tilegen.simulate.host import Host, build_host
from tilegen.simulate.launch import Memory
from tilegen.simulate.mutate import Case
from tilegen.targets import target

FOLDER = Path(__file__).resolve().parent / "planted"


@dataclass(frozen=True, eq=False)
class Corpus:
    """One source.

    Attributes:
        call: fills a memory and returns the launcher's arguments after the bug's number.
        expect: what the buffers hold after the right kernel, by buffer name.
        bugs: for each Bug of the source but the first, the kinds of finding that count as seeing it.
    """

    source: str
    target: str
    call: Callable[[Memory], list[object]]
    expect: Callable[[], dict[str, np.ndarray]]
    bugs: dict[str, set[str]]

    @property
    def path(self) -> Path:
        return FOLDER / self.source

    def host(self) -> Host:
        where = target(self.target)
        return Host(build_host(self.path, where), where)

    def case(self, host: Host, bug: int) -> Case:
        """The call with one bug; 0 is the right kernel."""
        memory = Memory()
        recording = host.record("run", [bug, *self.call(memory)])
        if recording.status or recording.findings:
            raise AssertionError(f"{self.source}: {recording.status} {recording.findings}")

        def fresh() -> Memory:
            again = Memory()
            self.call(again)
            return again

        return Case(f"bug {bug}", recording.steps, fresh)


def _floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 251


def _pipeline(memory: Memory) -> list[object]:
    x = memory.allocate("x", _floats(44, 32), writable=False)
    return [x, memory.allocate("y", 44 * 32 * 4), 44, 1]


def _pair(memory: Memory) -> list[object]:
    x = memory.allocate("x", _floats(36, 32), writable=False)
    w = memory.allocate("w", _floats(8, 32) * 3, writable=False)
    return [x, w, memory.allocate("y", 36 * 32 * 4), 36, 2]


def _tensor(memory: Memory) -> list[object]:
    a = memory.allocate("a", _halves(3, 64, 16), writable=False)
    b = memory.allocate("b", _halves(8, 16), writable=False)
    return [a, b, memory.allocate("c", 64 * 8 * 4), memory.allocate("y", 512), 3]


def _halves(*shape: int) -> np.ndarray:
    return (_floats(*shape) % 7 - 3).astype(ml_dtypes.bfloat16)


def _block(memory: Memory) -> list[object]:
    x = memory.allocate("x", _floats(1300), writable=False)
    rest = (("tiles", 1024), ("sums", 8), ("data", 128), ("flag", 4), ("answer", 128))
    return [x, 1300, *(memory.allocate(name, size) for name, size in rest)]


def _expect_block() -> dict[str, np.ndarray]:
    padded = np.zeros(6 * 256, np.float32)
    padded[:1300] = _floats(1300)
    return {
        "tiles": np.roll(padded.reshape(6, 256), -4, 1).sum(0),
        "sums": _floats(128).reshape(2, 64).sum(1),
        "answer": np.arange(32, dtype=np.float32) + 1,
    }


def _expect_tensor() -> dict[str, np.ndarray]:
    a, b = _halves(3, 64, 16).astype(np.float32), _halves(8, 16).astype(np.float32)
    return {"c": (a @ b.T).sum(0), "y": np.full(128, 9, np.float32)}


def _expect_pair() -> dict[str, np.ndarray]:
    w = np.resize(_floats(8, 32) * 3, (40, 32))[:36]
    return {"y": _floats(36, 32) + w}


CORPUS = (
    Corpus(
        "pipeline.cu",
        "sm_90a",
        _pipeline,
        lambda: {"y": 2 * _floats(44, 32)},
        {
            "kConsumerParity": {"race", "deadlock", "uninitialised", "mbarrier"},
            "kProducerParity": {"deadlock"},
            "kExpectMore": {"deadlock"},
            "kExpectLess": {"race", "mbarrier", "deadlock", "uninitialised"},
            "kNoProxyFence": {"proxy"},
            "kNoReadWait": {"race", "bulk"},
            "kReleaseEarly": {"race"},
            "kNoEmptyWait": {"race", "mbarrier"},
            "kNoInitFence": {"proxy", "mbarrier", "race"},
            "kNoInitBarrier": {"race", "mbarrier", "uninitialised"},
            "kNoFinalWait": {"pending-at-exit", "bulk"},
            "kDestination": {"tma", "misaligned"},
            "kCoordinate": {"tma"},
            "kNegativeStore": {"tma"},
            "kNoWarpBarrier": {"race", "proxy"},
        },
    ),
    Corpus(
        "pair.cu",
        "sm_90a",
        _pair,
        _expect_pair,
        {
            "kOddTiles": {"deadlock"},
            "kNoClusterSync": {"race", "mbarrier", "uninitialised"},
            "kLocalRelease": {"race", "mbarrier"},
            "kEarlyExit": {"pending-at-exit", "mbarrier", "race"},
            "kHalfBytes": {"race", "mbarrier", "deadlock", "uninitialised"},
        },
    ),
    Corpus(
        "tensor.cu",
        "sm_90a",
        _tensor,
        _expect_tensor,
        {
            "kNoProxyFence": {"proxy"},
            "kNoBarrier": {"race", "proxy"},
            "kWaitOne": {"wgmma", "race"},
            "kReuseEarly": {"race", "wgmma"},
            "kNoPriming": {"deadlock"},
            "kArriveCount": {"barrier", "deadlock", "race"},
            "kNoTurn": {"race"},
            "kNoWgmmaFence": {"wgmma", "static"},
        },
    ),
    Corpus(
        "block.cu",
        "sm_80",
        _block,
        _expect_block,
        {
            "kWaitOneMore": {"race", "uninitialised"},
            "kNoArrivalBarrier": {"race", "uninitialised"},
            "kNoReleaseBarrier": {"race"},
            "kNoCommit": {"race", "uninitialised"},
            "kTail": {"out-of-bounds"},
            "kMisaligned": {"misaligned"},
            "kNoSum": {"race", "uninitialised"},
            "kNoWarpSync": {"race"},
            "kSharedEnd": {"out-of-bounds"},
            "kUninitialised": {"uninitialised"},
            "kDivergent": {"divergence", "barrier", "deadlock"},
            "kSameElement": {"race"},
            "kInputWritten": {"read-only"},
            "kGlobalUninitialised": {"uninitialised"},
            "kRelaxedFlag": {"race"},
        },
    ),
)
