"""Barriers of blocks and clusters, and of warps: who has arrived, who waits, who goes on."""

from __future__ import annotations

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.machine import Machine
from tilegen.simulate.numpy_backend.operands import Operands
from tilegen.simulate.ptx import Instruction

Array = np.ndarray


class _Named:
    """One barrier of one block in its current round."""

    def __init__(self) -> None:
        self.arrived = 0
        self.needed = 0  # 0: every live thread of the block
        self.waiting: list[tuple[int, Array]] = []
        self.votes = [0, True, False]  # popc, and, or
        self.results: list[tuple[object, str, Array]] = []


class Gates:
    """All barriers of a wave."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.named: dict[tuple[int, int], _Named] = {}
        clusters = machine.blocks // machine.cluster_size
        self.cluster_arrived = np.zeros(clusters, np.int64)
        self.cluster_round = np.zeros(clusters, np.int64)
        self.lane_round = np.zeros(machine.lanes, np.int64)
        self.cluster = machine.block // machine.cluster_size
        self.operands: Operands | None = None

    @property
    def waiting(self) -> bool:
        return any(barrier.waiting for barrier in self.named.values())

    def places(self) -> list[tuple[int, Array]]:
        return [(pc - 1, mask) for barrier in self.named.values() for pc, mask in barrier.waiting]

    def arrive(self, instruction: Instruction, pc: int, mask: Array, operands: Operands):
        """Yield (pc, lanes) that go on; pc None keeps the lanes where they are, to try again."""
        self.operands = operands
        words = instruction.opcode.split(".")
        if "cluster" in words:
            yield from self._cluster(words, pc, mask)
        elif "warp" in words:
            here = mask.reshape(-1, 32)
            members = operands.raw(instruction.operands[0], 32)().reshape(-1, 32)
            first = members[np.arange(len(here)), here.argmax(1)]
            wanted = (first[:, None] >> np.arange(32, dtype=np.uint32)) & 1 != 0
            wanted &= self.machine.alive.reshape(-1, 32) & here.any(1)[:, None]
            ready = ~(wanted & ~here).any(1)
            lanes = np.repeat(ready, 32)
            if (mask & lanes).any():
                yield pc + 1, mask & lanes
            if (mask & ~lanes).any():
                yield None, mask & ~lanes
        else:
            yield from self._block(instruction, words, pc, mask, operands)

    def _block(
        self, instruction: Instruction, words: list[str], pc: int, mask: Array, operands: Operands
    ):
        reduce = "red" in words
        sources = list(instruction.operands)
        target = sources.pop(0) if reduce else None
        number = operands.raw(sources.pop(0), 32)()
        vote = operands.raw(sources.pop(), 1)() if reduce else None
        count = operands.raw(sources.pop(0), 32)() if sources else None
        for block in np.unique(self.machine.block[mask]):
            mine = mask & (self.machine.block == block)
            for index in np.unique(number[mine]):
                lanes = mine & (number == index)
                barrier = self.named.setdefault((int(block), int(index)), _Named())
                barrier.arrived += self._threads(lanes)
                if count is not None:
                    barrier.needed = int(count[lanes][0])
                if reduce:
                    true = vote & lanes
                    barrier.votes[0] += int(true.sum())
                    barrier.votes[1] &= bool((~lanes | vote).all())
                    barrier.votes[2] |= bool(true.any())
                    barrier.results.append((target, words[words.index("red") + 1], lanes))
                if "arrive" in words:
                    yield pc + 1, lanes
                else:
                    barrier.waiting.append((pc + 1, lanes))
                yield from self._open(int(block), int(index))

    def _threads(self, lanes: Array) -> int:
        """Arrivals count whole warps: exited lanes of a warp arrive with it."""
        warps = lanes.reshape(-1, 32)
        exited = ~self.machine.alive.reshape(-1, 32)
        whole = (warps | exited).all(1) & warps.any(1)
        return int(whole.sum() * 32 + warps[~whole].sum())

    def _open(self, block: int, index: int):
        barrier = self.named[block, index]
        needed = barrier.needed
        if not needed:
            live = (self.machine.alive & (self.machine.block == block)).reshape(-1, 32)
            needed = int(live.any(1).sum()) * 32
        if barrier.arrived > needed:
            raise SimulationError(
                f"barrier {index} of block {block}: {barrier.arrived} arrivals of {needed}"
            )
        if barrier.arrived < needed or not barrier.arrived:
            return
        for target, kind, lanes in barrier.results:
            value = barrier.votes[{"popc": 0, "and": 1, "or": 2}[kind]]
            dtype = np.uint32 if kind == "popc" else bool
            self.operands.write(target, np.full(self.machine.lanes, value, dtype), lanes)
        del self.named[block, index]
        yield from barrier.waiting

    def reopen(self) -> list[tuple[int, Array]]:
        """Barriers that exits have completed since."""
        result = []
        for block, index in list(self.named):
            result += list(self._open(block, index))
        return result

    def _cluster(self, words: list[str], pc: int, mask: Array):
        clusters = np.unique(self.cluster[mask])
        if "arrive" in words:
            for c in clusters:
                lanes = mask & (self.cluster == c)
                self.lane_round[lanes] = self.cluster_round[c]
                self.cluster_arrived[c] += int(lanes.sum())
            yield pc + 1, mask
            return
        for c in clusters:
            inside = self.cluster == c
            pending = self.machine.alive & inside
            if self.cluster_arrived[c] >= int(pending.sum()) and self.cluster_arrived[c]:
                self.cluster_arrived[c] = 0
                self.cluster_round[c] += 1
        ready = mask & (self.cluster_round[self.cluster] > self.lane_round)
        if ready.any():
            yield pc + 1, ready
        if (mask & ~ready).any():
            yield None, mask & ~ready
