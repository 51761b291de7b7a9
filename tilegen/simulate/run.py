"""Runs a lowered kernel on a launch: checks the launch, calls the core, names findings by source lines."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import gc
import re
import time
from collections.abc import Iterator

import numpy as np

from tilegen.simulate.build import load_core, operations
from tilegen.simulate.abi import BufferIn, FindingOut, MapIn, RunIn, map_struct, pointer
from tilegen.simulate.launch import (
    Counter,
    Finding,
    Launch,
    Memory,
    Options,
    Outcome,
    SimulationError,
)
from tilegen.simulate.lower import lower
from tilegen.simulate.lower.program import Program
from tilegen.simulate.parse import parse
from tilegen.simulate.ptx import Kernel, Module
from tilegen.simulate.static import check as static_findings
from tilegen.targets import TARGETS


@functools.lru_cache(maxsize=64)
def prepared(text: str, name: str) -> tuple[Program, tuple[Finding, ...]]:
    """A kernel of a module, lowered, and what the checks that need no run found. Raises SimulationError."""
    ops = operations()
    with _no_collection():
        module = parse(text, name)
        kernel = _select(module, name)
        return lower(module, kernel, ops), tuple(static_findings(kernel))


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Hold Python's cycle collector, which would visit a hundred thousand new objects again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _select(module: Module, name: str) -> Kernel:
    if name in module.kernels:
        return module.kernels[name]
    found = [kernel for entry, kernel in module.kernels.items() if name in entry]
    if len(found) != 1:
        raise SimulationError(
            f"{len(found)} kernels match {name!r}; the module has {', '.join(module.kernels) or 'none'}"
        )
    return found[0]


def _check_launch(program: Program, launch: Launch) -> None:
    """What the driver refuses, in numbers."""
    kernel, faults = program.kernel, []
    threads = int(np.prod(launch.block))
    if not 1 <= threads <= 1024 or launch.block[2] > 64:
        faults.append(
            f"block {launch.block} has {threads} threads; 1 to 1024 are allowed (z at most 64)"
        )
    if min(launch.grid) < 1 or launch.grid[0] > 2**31 - 1 or max(launch.grid[1:]) > 65535:
        faults.append(f"grid {launch.grid} is out of range")
    if any(g % c for g, c in zip(launch.grid, launch.cluster)):
        faults.append(f"grid {launch.grid} is no multiple of cluster {launch.cluster}")
    if int(np.prod(launch.cluster)) > 16:
        faults.append(f"cluster {launch.cluster} has more than 16 blocks")
    most = kernel.directives.get("maxntid")
    if most and threads > int(np.prod(most)):
        faults.append(
            f"block {launch.block} has {threads} threads; the kernel was compiled for {int(np.prod(most))}"
        )
    exact = kernel.directives.get("reqntid")
    if exact and threads != int(np.prod(exact)):
        faults.append(f"block {launch.block}: the kernel requires {exact}")
    cluster = kernel.directives.get("reqnctapercluster")
    if cluster and tuple(launch.cluster) != (*cluster, 1, 1)[:3]:
        faults.append(
            f"cluster {launch.cluster}: the kernel was compiled for {(*cluster, 1, 1)[:3]}"
        )
    sizes = [size for _, size in kernel.params.values()]
    if len(launch.params) != len(sizes):
        faults.append(f"{len(launch.params)} parameters; the kernel has {len(sizes)}")
    for k, (given, size) in enumerate(zip(launch.params, sizes)):
        if len(given) != size:
            faults.append(f"parameter {k} has {len(given)} bytes; the kernel declares {size}")
    total = program.static_shared + launch.shared_bytes
    target = TARGETS.get(program.target, TARGETS["sm_90a"])
    if total > target.shared_block:
        faults.append(
            f"{total} bytes of shared memory a block; {target.name} allows {target.shared_block}"
        )
    if faults:
        raise SimulationError(f"kernel {kernel.name} cannot be launched:\n  " + "\n  ".join(faults))


def run_ptx(ptx_text: str, launch: Launch, memory: Memory, options: Options = Options()) -> Outcome:
    """Run one launch of a PTX module; buffers of `memory` change in place.

    Raises:
        SimulationError: PTX forms that are not modelled (all of them named), or a launch that does not fit.
        ToolMissing, BuildError: the core cannot be built.
    """
    program, static = prepared(ptx_text, launch.kernel)
    compiled = program.kernel.directives.get("reqnctapercluster")
    if compiled and launch.cluster == (1, 1, 1):
        launch = dataclasses.replace(
            launch, cluster=(*compiled, 1, 1)[:3]
        )  # as a plain launch does
    _check_launch(program, launch)
    core, kernel = load_core(), program.kernel
    count = len(program.rows)
    params = np.zeros(max(kernel.param_bytes, 1), np.uint8)
    for given, (offset, size) in zip(launch.params, kernel.params.values()):
        params[offset : offset + size] = np.frombuffer(given, np.uint8)
    variables = [
        (name, address, np.frombuffer(content, np.uint8).copy())
        for name, address, content in program.globals
    ]
    entries = [(a, d, 4096, n, True, True) for n, a, d in variables]
    entries += [
        (b.address, b.data, b.guard, b.name, b.writable, b.initialised)
        for b in memory.buffers
        if b.size
    ]
    entries.sort(key=lambda e: e[0])
    buffers = (BufferIn * max(len(entries), 1))()
    names = []
    for slot, (address, data, guard, name, writable, initialised) in zip(buffers, entries):
        names.append(name.encode())
        slot.address, slot.size, slot.guard, slot.data = address, data.size, guard, data.ctypes.data
        slot.name, slot.writable, slot.initialised = names[-1], int(writable), int(initialised)
    maps = (MapIn * max(len(launch.tensor_maps), 1))(*map(map_struct, launch.tensor_maps))
    consts = np.frombuffer(program.consts, np.uint8)
    aligned = np.empty(consts.size + 64, np.uint8)
    start = -aligned.ctypes.data % 64
    aligned = aligned[start : start + consts.size]
    aligned[:] = consts
    constant = np.frombuffer(program.constant_memory or b"\0", np.uint8)
    counters = np.zeros((5, count), np.uint64)
    threads = int(np.prod(launch.block))
    limit = kernel.directives.get("maxnreg", (min(255, 65536 // max(threads, 1) // 8 * 8),))[0]
    request = RunIn(
        *map(
            pointer,
            (program.rows, program.pool, aligned, params, constant, buffers, maps, counters),
        ),
        count,
        len(program.pool),
        consts.size,
        params.size,
        constant.size,
        len(entries),
        len(launch.tensor_maps),
        options.seed & (2**64 - 1),
        options.max_steps,
        options.max_findings,
    )
    request.grid[:], request.block[:], request.cluster[:] = (
        launch.grid,
        launch.block,
        launch.cluster,
    )
    request.static_shared, request.dynamic_shared = program.static_shared, launch.shared_bytes
    request.register_bytes, request.predicates = program.register_bytes, program.predicates
    request.local_bytes, request.wgmma_registers = program.local_bytes, program.wgmma_registers
    request.registers_per_thread = limit if program.uses_setmaxnreg else 0
    request.random = int(options.order == "random")
    request.lazy = int(options.order != "deterministic")
    request.detect, request.strict = int(options.detectors), int(options.strict_wgmma)
    request.adversarial = int(options.adversarial_elect)
    begin = time.perf_counter()
    machine = ctypes.c_void_p(core.sim_run(ctypes.byref(request)))
    seconds = time.perf_counter() - begin
    if not machine:
        raise SimulationError(f"no memory to simulate kernel {kernel.name} on grid {launch.grid}")
    try:
        findings = [*static, *_findings(core, machine, program)]
        steps = int(core.sim_steps(machine))
    finally:
        core.sim_free(machine)
    return Outcome(tuple(findings), _counters(program, counters), steps, seconds)


def _findings(core: ctypes.CDLL, machine: ctypes.c_void_p, program: Program) -> list[Finding]:
    result: dict[tuple, Finding] = {}
    raw = FindingOut()
    instructions, source = program.kernel.instructions, program.source
    for k in range(core.sim_findings(machine)):
        core.sim_finding(machine, ctypes.c_int64(k), ctypes.byref(raw))
        inst = instructions[source[raw.inst]]
        other = instructions[source[raw.other]] if raw.other >= 0 else None
        lines = tuple(i.lines[0] if i.lines else 0 for i in (inst, other) if i is not None)

        def named(match: re.Match) -> str:
            at = instructions[source[int(match.group(1))]]
            return f"line {at.lines[0] if at.lines else 0} ({at.opcode})"

        message = re.sub(r"\{(\d+)\}", named, raw.message.decode())
        message += f"\n  {describe(inst)}"
        if other is not None:
            message += f"\n  {describe(other)}"
        finding = Finding(
            raw.kind.decode(), message, lines, inst.text, raw.block, raw.warp, raw.lane, raw.count
        )
        # An unrolled loop shows the same fault at many instructions: one finding for each pair of lines.
        key = (finding.kind, lines) if all(lines) else (finding.kind, raw.inst, raw.other)
        old = result.get(key)
        result[key] = dataclasses.replace(old, count=old.count + raw.count) if old else finding
    return list(result.values())


def describe(inst) -> str:
    """`line 63 (called from line 201): st.shared.f32 ...`, cut to a readable length."""
    where = f"line {inst.lines[0]}" if inst.lines else "no line"
    if len(inst.lines) > 1:
        where += f" (called from line {inst.lines[1]})"
    text = inst.text if len(inst.text) <= 120 else inst.text[:117] + "..."
    return f"{where}: {text}"


def _counters(program: Program, raw: np.ndarray) -> tuple[Counter, ...]:
    """Sum the rows of each PTX instruction; executions are those of its last row."""
    instructions = program.kernel.instructions
    total = np.zeros((5, len(instructions)), np.uint64)
    for k in range(1, 5):
        np.add.at(total[k], program.source, raw[k])
    total[0, program.source] = raw[0]
    values = total.T.tolist()
    return tuple(
        Counter(i.text, i.lines[0] if i.lines else 0, *v) for i, v in zip(instructions, values)
    )
