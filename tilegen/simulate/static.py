"""Checks of a kernel that need no run, and see the code that a run does not reach.

One forward data-flow analysis over the control-flow graph; a state is joined over all paths, so it holds what may
be. Registers of wgmma: none may be touched between the issue and the wait that covers it, and each access of
another instruction needs a wgmma.fence before the next wgmma (PTX ISA 9.7.15.5.2). Cluster barrier: a wait needs an
arrival before it on some path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilegen.simulate.launch import Finding
from tilegen.simulate.ptx import Instruction, Kernel, Mem, Not, Pair, Reg, Sym, Vec

_GROUPS = 8  # ages of wgmma groups that are told apart


class _State(NamedTuple):
    """Sets of registers as bit masks.

    `flying[0]` is the open group, `flying[n]` the n-th newest committed one; `reading` the same for A operands.
    """

    flying: tuple[int, ...] = (0,) * _GROUPS
    reading: tuple[int, ...] = (0,) * _GROUPS
    dirty: int = 0
    arrived: bool = False

    def join(self, other: _State) -> _State:
        return _State(
            tuple(a | b for a, b in zip(self.flying, other.flying)),
            tuple(a | b for a, b in zip(self.reading, other.reading)),
            self.dirty | other.dirty,
            self.arrived or other.arrived,
        )


def _registers(operand, found: list[Reg]) -> None:
    if isinstance(operand, Reg):
        found.append(operand)
    elif isinstance(operand, Vec):
        for item in operand.items:
            _registers(item, found)
    elif isinstance(operand, Pair):
        _registers(operand.first, found)
        _registers(operand.second, found)
    elif isinstance(operand, Not):
        _registers(operand.reg, found)
    elif isinstance(operand, Mem):
        _registers(operand.base, found)
        for item in operand.coords or ():
            _registers(item, found)


class _Analysis:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.bits: dict[int, int] = {}
        self.findings: dict[tuple[str, int], Finding] = {}
        for inst in kernel.instructions:
            if inst.opcode.startswith("wgmma.mma_async"):
                for operand in inst.operands[:2]:
                    for item in operand.items if isinstance(operand, Vec) else ():
                        self.bits.setdefault(item.id, 1 << len(self.bits))
        self.masks = [self._mask(inst) for inst in kernel.instructions]

    def _mask(self, inst: Instruction) -> tuple[int, int]:
        """wgmma registers that an instruction reads or writes, and those that it writes."""
        if not self.bits:
            return 0, 0
        touched = written = 0
        stores = inst.opcode.startswith(("st.", "red.", "stmatrix", "setp"))
        for position, operand in enumerate(inst.operands):
            found: list[Reg] = []
            _registers(operand, found)
            for register in found:
                bit = self.bits.get(register.id, 0)
                touched |= bit
                if position == 0 and not stores:
                    written |= bit
        return touched, written

    def report(self, at: int, text: str) -> None:
        inst = self.kernel.instructions[at]
        where = f"line {inst.lines[0]}" if inst.lines else "no line"
        message = f"on some path, {text}\n  {where}: {inst.text[:120]}"
        line = inst.lines[0] if inst.lines else -at
        self.findings.setdefault(
            (text, line), Finding("static", message, inst.lines[:1], inst.text)
        )

    def step(self, at: int, state: _State, say: bool) -> _State:
        """The state after an instruction; with `say`, report what it does wrong."""
        inst = self.kernel.instructions[at]
        opcode = inst.opcode
        if opcode.startswith("wgmma."):
            return self._wgmma(at, inst, state, say)
        if opcode.startswith("barrier.cluster."):
            arrives = ".arrive" in opcode
            if not arrives and not state.arrived and say:
                self.report(at, "barrier.cluster.wait has no barrier.cluster.arrive before it")
            return state._replace(arrived=arrives)
        touched, written = self.masks[at]
        if touched:
            busy, read = 0, 0
            for mask in state.flying:
                busy |= mask
            for mask in state.reading:
                read |= mask
            if say and (touched & busy or written & read):
                self.report(at, "a register of a wgmma is touched before the wait that covers it")
            state = state._replace(dirty=state.dirty | touched)
        return state

    def _wgmma(self, at: int, inst: Instruction, state: _State, say: bool) -> _State:
        kind = inst.opcode.split(".")[1]
        if kind == "fence":
            return state._replace(dirty=0)
        if kind == "commit_group":
            shift = lambda old: (0, old[0], *old[1:-2], old[-2] | old[-1])  # noqa: E731
            return state._replace(flying=shift(state.flying), reading=shift(state.reading))
        if kind == "wait_group":
            keep = inst.operands[0].value + 1
            cut = lambda old: tuple(
                m if age < keep else 0 for age, m in enumerate(old)
            )  # noqa: E731
            return state._replace(flying=cut(state.flying), reading=cut(state.reading))
        if kind != "mma_async":
            return state
        masks = []
        for operand in inst.operands[:2]:
            mask = 0
            for item in operand.items if isinstance(operand, Vec) else ():
                mask |= self.bits[item.id]
            masks.append(mask)
        if say and state.dirty & (masks[0] | masks[1]):
            self.report(
                at, "no wgmma.fence lies between another access to a register of this wgmma and it"
            )
        flying = (state.flying[0] | masks[0], *state.flying[1:])
        reading = (state.reading[0] | masks[1], *state.reading[1:])
        return state._replace(flying=flying, reading=reading)

    def successors(self, at: int) -> tuple[int, ...]:
        inst = self.kernel.instructions[at]
        head = inst.opcode.split(".")[0]
        following = (at + 1,) if at + 1 < len(self.kernel.instructions) else ()
        if head == "bra":
            target = self.kernel.labels[inst.operands[0].name]
            return (target, *following) if inst.guard is not None else (target,)
        if head == "brx":
            name = next(o.name for o in inst.operands if isinstance(o, Sym))
            return tuple(self.kernel.labels[label] for label in self.kernel.tables[name])
        if head in ("ret", "exit", "trap") and inst.guard is None:
            return ()
        return following

    def run(self) -> None:
        instructions = self.kernel.instructions
        if not instructions:
            return
        leaders = {0} | {at for at in self.kernel.labels.values() if at < len(instructions)}
        for at, inst in enumerate(instructions[:-1]):
            if inst.opcode.split(".")[0] in ("bra", "brx", "ret", "exit", "trap"):
                leaders.add(at + 1)
        starts = sorted(leaders)
        ends = {start: end for start, end in zip(starts, [*starts[1:], len(instructions)])}
        everything = (1 << len(self.bits)) - 1
        entry = {0: _State(dirty=everything)}
        work = [0]
        while work:
            start = work.pop()
            state = entry[start]
            for at in range(start, ends[start]):
                state = self.step(at, state, False)
            for following in self.successors(ends[start] - 1):
                old = entry.get(following)
                new = state if old is None else old.join(state)
                if new != old:
                    entry[following] = new
                    work.append(following)
        for start, state in entry.items():
            for at in range(start, ends[start]):
                state = self.step(at, state, True)


def check(kernel: Kernel) -> Iterator[Finding]:
    """What is wrong on some path through a kernel, whether a run takes it or not."""
    relevant = ("wgmma.", "barrier.cluster.")
    if any(inst.opcode.startswith(relevant) for inst in kernel.instructions):
        analysis = _Analysis(kernel)
        analysis.run()
        yield from analysis.findings.values()
