"""Run a launch with NumPy: all lanes of a wave of blocks at once, the group with the lowest program counter first.

The backend exists to disagree: it shares the parser with the C++ core and nothing else, knows one deterministic order,
completes every asynchronous operation when it is issued, and looks for no hazards.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import Launch, Memory, SimulationError
from tilegen.simulate.numpy_backend import copies, loads, tensor, warps
from tilegen.simulate.numpy_backend.barriers import Barriers
from tilegen.simulate.numpy_backend.groups import Gates
from tilegen.simulate.numpy_backend.machine import Machine
from tilegen.simulate.numpy_backend.operands import Operands
from tilegen.simulate.numpy_backend.scalar import scalar_step, unknown
from tilegen.simulate.parse import parse
from tilegen.simulate.ptx import Instruction, Kernel, Module

Array = np.ndarray
Step = Callable[[Array | None], None]

_WAVE_LANES = 8192
_NOTHING = {
    *"fence membar prefetch prefetchu setmaxnreg nanosleep griddepcontrol discard applypriority".split(),
    *"createpolicy pmevent tensormap".split(),
}
_WARP_STEPS = {
    "shfl": warps.shuffle,
    "vote": warps.vote,
    "redux": warps.reduce,
    "match": warps.match,
    "elect": warps.elect,
    "activemask": warps.active_mask,
    "movmatrix": loads.transpose_step,
    "mma": tensor.mma,
}
# Instructions that need the named lanes of the warp to be there.
_CONVERGENT = {
    "shfl",
    "vote",
    "redux",
    "match",
    "elect",
    "mma",
    "ldmatrix",
    "stmatrix",
    "movmatrix",
    "wgmma",
}


def select(module: Module, name: str) -> Kernel:
    """The kernel of that name, or the one whose name contains it."""
    if name in module.kernels:
        return module.kernels[name]
    found = [kernel for key, kernel in module.kernels.items() if name in key]
    if len(found) != 1:
        raise SimulationError(
            f"'{name}' names {len(found)} of the kernels {', '.join(module.kernels)}"
        )
    return found[0]


def run_numpy(
    ptx: str | Module, launch: Launch, memory: Memory, max_steps: int = 20_000_000
) -> int:
    """Run one launch; buffers of `memory` change in place. Returns the number of instructions executed.

    Raises:
        SimulationError: a form that is not modelled, an access outside every buffer, or no progress.
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    kernel = select(module, launch.kernel)
    clusters = int(np.prod(launch.grid)) // int(np.prod(launch.cluster))
    lanes = -(-int(np.prod(launch.block)) // 32) * 32 * int(np.prod(launch.cluster))
    wave = max(1, _WAVE_LANES // lanes)
    steps = 0
    with np.errstate(all="ignore"):
        for start in range(0, clusters, wave):
            machine = Machine(
                module, kernel, launch, memory, range(start, min(start + wave, clusters))
            )
            steps += _Wave(machine, max_steps).run()
    return steps


class _Wave:
    """Steps of the kernel over one machine."""

    def __init__(self, machine: Machine, max_steps: int) -> None:
        self.machine, self.max_steps = machine, max_steps
        self.operands = Operands(machine)
        self.barriers = Barriers(machine)
        self.gates = Gates(machine)
        self.code = machine.kernel.instructions
        self.steps: list[Step | None] = [None] * len(self.code)
        self.guards = [
            None if i.guard is None else self.operands.raw(i.guard, 1) for i in self.code
        ]
        self.joins = set(machine.kernel.labels.values())
        self.choice = random.Random(0)
        self.count = 0

    def compile(self, instruction: Instruction) -> Step:
        words = instruction.opcode.split(".")
        name, operands = words[0], self.operands
        if name in _NOTHING:
            return lambda mask: None
        if name in ("ld", "ldu"):
            return loads.load(instruction, operands)
        if name == "st":
            if words[1] == "async":
                return copies.async_store(instruction, operands, self.barriers)
            return loads.store(instruction, operands)
        if name in ("atom", "red"):
            return loads.atomic(instruction, operands)
        if name in ("ldmatrix", "stmatrix"):
            return loads.matrix_move(instruction, operands)
        if name in _WARP_STEPS:
            return _WARP_STEPS[name](instruction, operands)
        if name == "wgmma":
            if words[1] == "mma_async":
                return tensor.wgmma(instruction, operands)
            return lambda mask: None
        if name == "mbarrier":
            return self.barriers.step(instruction, operands)
        if name == "cp" and "bulk" in words:
            if "tensor" in words:
                return copies.tensor_copy(instruction, operands, self.barriers)
            return copies.bulk_copy(instruction, operands, self.barriers)
        if name == "cp" and words[2] == "mbarrier":
            return self.barriers.async_arrive(instruction, operands)
        if name == "cp":
            return loads.async_copy(instruction, operands)
        step = scalar_step(instruction, operands)
        if step is None:
            raise unknown(instruction)
        return step

    # ---- scheduling

    def run(self) -> int:
        groups: dict[int, Array] = {0: self.machine.alive.copy()}
        parked: list[tuple[int, Array]] = []
        turn = 0
        while groups or parked or self.gates.waiting:
            if not groups:
                waiting, parked = parked, []
                for pc, mask in waiting:
                    _add(groups, pc, mask)
                for pc, mask in self.gates.reopen():
                    _add(groups, pc, mask)
                before = self.count
                self._pass(groups, parked)
                if self.count == before and not groups:
                    raise SimulationError(self._stuck(parked))
                continue
            turn += 1
            # Now and then another group than the first, so that a spin loop cannot keep its writer from running.
            pc = min(groups) if turn % 32 else self.choice.choice(sorted(groups))
            self._block(pc, groups.pop(pc), groups, parked)
        return self.count

    def _pass(self, groups: dict[int, Array], parked: list[tuple[int, Array]]) -> None:
        for pc in sorted(groups):
            if pc in groups:
                self._block(pc, groups.pop(pc), groups, parked)

    def _block(self, pc: int, mask: Array, groups: dict[int, Array], parked: list) -> None:
        """Run from pc until control flow ends the block; put the lanes where they go on."""
        everyone = bool(mask.all())
        first = True
        while True:
            if pc >= len(self.code) or (not first and pc in self.joins):
                if pc >= len(self.code):
                    self._exit(mask)
                else:
                    _add(groups, pc, mask)
                return
            instruction = self.code[pc]
            name = instruction.opcode.split(".")[0]
            guard = self.guards[pc]
            if guard is None:
                taken, rest = mask, None
            else:
                truth = ~guard() if instruction.negated else guard()
                taken = mask & truth
                rest = mask & ~truth
            if name in _CONVERGENT and not everyone and not self._converged(instruction, taken):
                parked.append((pc, mask))
                return
            self.machine.steps = self.count = self.count + 1
            if self.count > self.max_steps:
                raise SimulationError(f"{self.max_steps} instructions without an end")
            if name in ("bra", "brx", "ret", "exit", "trap", "bar", "barrier") or self._waits(
                instruction
            ):
                self._leave(instruction, pc, taken, rest, groups, parked)
                return
            if self.steps[pc] is None:
                self.steps[pc] = self.compile(instruction)
            if taken is mask:
                self.steps[pc](None if everyone else mask)
            elif taken.any():
                self.steps[pc](taken)
            pc, first = pc + 1, False

    @staticmethod
    def _waits(instruction: Instruction) -> bool:
        return instruction.opcode.startswith("mbarrier.try_wait")

    def _converged(self, instruction: Instruction, mask: Array) -> bool:
        """Whether every live lane of each executing warp is here, or those that the member mask names.

        For wgmma it is the warpgroup: its four warps execute it together.
        """
        name = instruction.opcode.split(".")[0]
        width = 128 if name == "wgmma" else 32
        here = mask.reshape(-1, width)
        wanted = self.machine.alive.reshape(-1, width) & here.any(1)[:, None]
        if name in ("shfl", "vote", "redux", "match", "elect"):
            members = self.operands.raw(instruction.operands[-1], 32)().reshape(-1, 32)
            first = members[np.arange(len(here)), here.argmax(1)]
            wanted &= (first[:, None] >> np.arange(32, dtype=np.uint32)) & 1 != 0
        return not (wanted & ~here).any()

    def _leave(self, instruction: Instruction, pc: int, taken: Array, rest, groups, parked) -> None:
        words = instruction.opcode.split(".")
        name = words[0]
        if rest is not None and rest.any():
            _add(groups, pc + 1, rest)
        if not taken.any():
            return
        if name == "bra":
            target = instruction.operands[0].name
            _add(groups, self.machine.kernel.labels[target], taken)
        elif name == "brx":
            index = self.operands.raw(instruction.operands[0], 32)()
            table = self.machine.kernel.tables[instruction.operands[1].name]
            for value in np.unique(index[taken]):
                _add(groups, self.machine.kernel.labels[table[value]], taken & (index == value))
        elif name in ("ret", "exit"):
            self._exit(taken)
        elif name == "trap":
            raise SimulationError(f"trap: {instruction.text}")
        elif name == "mbarrier":
            ready = self.barriers.ready(instruction, self.operands)(taken)
            good, bad = taken & ready, taken & ~ready
            if good.any():
                self.operands.write(
                    instruction.operands[0], np.ones(self.machine.lanes, bool), good
                )
                _add(groups, pc + 1, good)
            if bad.any():
                self.count -= not good.any()
                parked.append((pc, bad))
        else:
            for place, mask in self.gates.arrive(instruction, pc, taken, self.operands):
                if place is None:
                    parked.append((pc, mask))
                    self.count -= 1
                else:
                    _add(groups, place, mask)

    def _exit(self, mask: Array) -> None:
        self.machine.alive &= ~mask

    def _stuck(self, parked: list[tuple[int, Array]]) -> str:
        lines = ["NumPy backend: no lane can go on"]
        places = [(pc, mask) for pc, mask in parked] + self.gates.places()
        for pc, mask in places[:8]:
            blocks = sorted(set(self.machine.block[mask].tolist()))
            lines.append(f"  blocks {blocks[:4]} at: {self.code[pc].text}")
        return "\n".join(lines)


def _add(groups: dict[int, Array], pc: int, mask: Array) -> None:
    groups[pc] = groups[pc] | mask if pc in groups else mask
