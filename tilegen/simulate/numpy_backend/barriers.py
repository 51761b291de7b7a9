"""mbarrier objects (PTX ISA 9.7.13.15): arrivals, transaction bytes, phases. Kept beside shared memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend.loads import active
from tilegen.simulate.numpy_backend.machine import Machine
from tilegen.simulate.numpy_backend.operands import Operands
from tilegen.simulate.ptx import Instruction, Sink

Array = np.ndarray
Step = Callable[[Array | None], None]


class Barrier:
    """A phase completes when no arrival is pending and the transaction count is zero."""

    def __init__(self, count: int) -> None:
        self.expected = self.pending = count
        self.phase = self.bytes = 0

    def settle(self) -> None:
        if self.pending < 0:
            raise SimulationError("more arrivals at an mbarrier than it expects")
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected

    def state(self) -> int:
        """What arrive returns: the phase and what was pending before."""
        return self.phase << 32 | self.pending


class Barriers:
    """All mbarriers of a wave, by (block, byte)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.objects: dict[tuple[int, int], Barrier] = {}

    def _key(self, lane: int, address: int) -> tuple[int, int]:
        lanes, where = np.array([lane]), np.array([address], np.uint64)
        generic = self.machine.window("shared")
        if address >= generic:
            where = where - np.uint64(generic)
        block, offset = self.machine.shared_place(lanes, where, 8)
        return int(block[0]), int(offset[0])

    def find(self, lane: int, address: int) -> Barrier:
        key = self._key(lane, address)
        if key not in self.objects:
            raise SimulationError(f"no mbarrier was initialised at shared byte 0x{key[1]:x}")
        return self.objects[key]

    def complete(self, lane: int, address: int, count: int) -> None:
        barrier = self.find(lane, address)
        barrier.bytes -= count
        barrier.settle()

    def destinations(self, lane: int, target: int, bar: int, members) -> list[tuple[int, int]]:
        """(shared address, mbarrier address) of each block that a copy goes to."""
        if members is None:
            return [(target, bar)]
        chosen = int(members()[lane])
        low = (1 << 24) - 1
        return [
            (rank << 24 | target & low, rank << 24 | bar & low)
            for rank in range(self.machine.cluster_size)
            if chosen >> rank & 1
        ]

    def step(self, instruction: Instruction, operands: Operands) -> Step:
        """Every mbarrier instruction but the blocking wait."""
        words = instruction.opcode.split(".")
        name = words[1]
        if name in ("test_wait", "try_wait"):
            return self._test(instruction, operands)
        if name == "pending_count":
            target, source = instruction.operands
            read = operands.raw(source, 64)
            low = np.uint64(0xFFFFFFFF)
            return lambda mask: operands.write(target, (read() & low).astype(np.uint32), mask)
        returns = name in ("arrive", "arrive_drop")
        target = instruction.operands[0] if returns else Sink()
        memory, *rest = instruction.operands[1 if returns else 0 :]
        address = operands.address(memory)
        number = operands.raw(rest[0], 32) if rest else None
        transactions = "expect_tx" in words or name in ("expect_tx", "complete_tx")

        def one(lane: int) -> int:
            where, value = int(address()[lane]), int(number()[lane]) if number else 1
            if name == "init":
                self.objects[self._key(lane, where)] = Barrier(value)
                return 0
            if name == "inval":
                del self.objects[self._key(lane, where)]
                return 0
            barrier = self.find(lane, where)
            before = barrier.state()
            if transactions:
                barrier.bytes += -value if name == "complete_tx" else value
            if name == "arrive_drop":
                barrier.expected -= 1 if transactions else value
            if returns:
                barrier.pending -= 1 if transactions else value
            if returns or name == "complete_tx":
                barrier.settle()
            return before

        def step(mask: Array | None) -> None:
            states = np.zeros(self.machine.lanes, np.uint64)
            for lane in active(mask, self.machine):
                states[lane] = one(int(lane))
            operands.write(target, states, mask)

        return step

    def ready(
        self, instruction: Instruction, operands: Operands
    ) -> Callable[[Array | None], Array]:
        """Which executing lanes find their phase complete."""
        _, memory, which = instruction.operands[:3]
        address = operands.address(memory)
        parity = "parity" in instruction.opcode
        read = operands.raw(which, 32 if parity else 64)

        def ready(mask: Array | None) -> Array:
            result = np.zeros(self.machine.lanes, bool)
            where, wanted = address(), read()
            for lane in active(mask, self.machine):
                phase = self.find(int(lane), int(where[lane])).phase
                if parity:
                    result[lane] = (phase & 1) != int(wanted[lane]) & 1
                else:
                    result[lane] = phase != int(wanted[lane]) >> 32
            return result

        return ready

    def _test(self, instruction: Instruction, operands: Operands) -> Step:
        ready = self.ready(instruction, operands)
        return lambda mask: operands.write(instruction.operands[0], ready(mask), mask)

    def async_arrive(self, instruction: Instruction, operands: Operands) -> Step:
        """cp.async.mbarrier.arrive: copies are complete, so it arrives; without .noinc it adds the arrival first."""
        address = operands.address(instruction.operands[0])
        noinc = "noinc" in instruction.opcode

        def step(mask: Array | None) -> None:
            for lane in active(mask, self.machine):
                barrier = self.find(int(lane), int(address()[lane]))
                barrier.pending -= noinc
                barrier.settle()

        return step
