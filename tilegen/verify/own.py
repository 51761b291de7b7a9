"""Any .cu file in the simulator: a launch plan in TOML says what is called, with which arguments.

target = "sm_80"                # default sm_80
launcher = "launch"             # an extern "C" function of the file; its launches, memsets and tensor maps are recorded
# or, without host code:
# kernel = "block_sum"          # a part of the kernel's name
# grid = [4]                    # up to three numbers, as block and cluster
# block = [256]
# shared = 0                    # bytes of dynamic shared memory

[[argument]]                    # in C order
name = "x"
dtype = "f32"
shape = [1000]                  # random normal values; or `fill = 0`, or `file = "x.npy"` instead

[[argument]]
name = "y"
dtype = "f32"
shape = [4]
output = true                   # poisoned; a read before the first write is a finding. `save = "y.npy"` keeps it

[[argument]]
name = "n"
dtype = "i32"
value = 1000                    # a scalar

[[argument]]
name = "stream"
null = true                     # a null pointer
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.errors import UsageError
from tilegen.simulate.build import compile_ptx
from tilegen.simulate.host import Host, build_host, perform
from tilegen.simulate.launch import Buffer, Finding, Launch, Memory, Options, Outcome, pack_params
from tilegen.simulate.run import run_ptx
from tilegen.targets import CudaTarget, target
from tilegen.values import dtype, nearest

_FIELDS = ("target", "launcher", "kernel", "grid", "block", "cluster", "shared", "flags")
_ARGUMENT = ("name", "dtype", "shape", "fill", "file", "output", "save", "value", "null")


@dataclass
class OwnRun:
    """What a launch plan gave.

    Attributes:
        source: name of the .cu.
        outcomes: of each launch.
        findings: of the host code and of all launches.
    """

    source: str
    outcomes: list[Outcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read_plan(path: Path) -> dict[str, Any]:
    """A launch plan, its keys checked.

    Raises:
        UsageError: no such file, no TOML, an unknown or a missing key.
    """
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the launch plan {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    _require_known(path, plan, (*_FIELDS, "argument"))
    for entry in plan.get("argument", []):
        _require_known(path, entry, _ARGUMENT)
    if ("launcher" in plan) == ("kernel" in plan):
        raise UsageError(f"{path}: give `launcher`, or `kernel` with `grid` and `block`")
    missing = [name for name in ("grid", "block") if "kernel" in plan and name not in plan]
    if missing:
        raise UsageError(f"{path}: `kernel` needs {' and '.join(f'`{name}`' for name in missing)}")
    return plan


def _require_known(path: Path, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            hint = f"Keys: {', '.join(known)}."
            raise UsageError(f"{path}: unknown key '{key}'{nearest(key, known)}", hint)


def _array(path: Path, entry: Mapping[str, Any], rng: np.random.Generator) -> np.ndarray | int:
    """The content of an array argument, or the bytes of one that starts as poison."""
    if "file" in entry:
        try:
            return np.load(path.parent / entry["file"])
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot read {entry['file']}: {error}") from None
    kind, shape = dtype(entry["dtype"]), tuple(entry["shape"])
    if "fill" in entry:
        return np.full(shape, entry["fill"]).astype(kind.numpy)
    if entry.get("output"):
        return int(np.prod(shape, dtype=np.int64)) * kind.numpy.itemsize
    if kind.numpy.kind in "iub":
        return rng.integers(0, 2 if kind.numpy.kind == "b" else 100, shape).astype(kind.numpy)
    return rng.standard_normal(shape).astype(kind.numpy)


def _argument(
    path: Path, number: int, entry: Mapping[str, Any], memory: Memory, rng: np.random.Generator
) -> object:
    name = entry.get("name", f"argument {number}")
    if entry.get("null"):
        return None
    if "value" in entry:
        if "dtype" not in entry:
            raise UsageError(f"{path}: {name} has a `value` and no `dtype`")
        return dtype(entry["dtype"]).numpy.type(entry["value"])
    if "file" not in entry and not {"dtype", "shape"} <= set(entry):
        raise UsageError(f"{path}: {name} needs `dtype` and `shape`, `file`, `value` or `null`")
    content = _array(path, entry, rng)
    return memory.allocate(name, content, writable=bool(entry.get("output")))


def _three(path: Path, plan: Mapping[str, Any], key: str) -> tuple[int, int, int]:
    given = plan.get(key, [1])
    if not isinstance(given, list) or not 1 <= len(given) <= 3:
        raise UsageError(f"{path}: `{key}` is a list of one to three numbers")
    return tuple([*given, 1, 1][:3])


def run_plan(source: Path, path: Path, options: Options = Options()) -> OwnRun:
    """Compile a .cu file and run it by a launch plan.

    Args:
        source: the .cu file.
        path: the launch plan; files that it names are relative to it.
        options: order, seed (also of random arrays) and detectors.

    Raises:
        UsageError: there is no such file, or the plan is wrong.
        SimulationError: the function or the kernel does not exist, or PTX is not modelled.
        BuildError: nvcc refused the source.
    """
    if not source.is_file():
        raise UsageError(f"no file {source}")
    plan = read_plan(path)
    where, flags = target(plan.get("target", "sm_80")), tuple(plan.get("flags", ()))
    if not isinstance(where, CudaTarget):
        raise UsageError(f"{path}: target {where} is no GPU")
    memory, rng = Memory(), np.random.default_rng(options.seed)
    entries = plan.get("argument", [])
    arguments = [_argument(path, n, e, memory, rng) for n, e in enumerate(entries, start=1)]
    found = OwnRun(source.name)
    if "launcher" in plan:
        build = build_host(source, where, flags)
        recording = Host(build, where).record(plan["launcher"], arguments)
        found.findings += recording.findings
        if recording.status and not recording.findings:
            message = f"{plan['launcher']} returned {recording.status}"
            found.findings.append(Finding("launch", message))
        ptx, steps = build.ptx, recording.steps
    else:
        ptx = compile_ptx(source, where.name, flags)
        values = [np.uint64(0) if value is None else value for value in arguments]
        grid, block, cluster = (_three(path, plan, key) for key in ("grid", "block", "cluster"))
        shared = plan.get("shared", 0)
        steps = (Launch(plan["kernel"], grid, block, pack_params(*values), cluster, shared),)
    found.outcomes = perform(steps, memory, lambda launch: run_ptx(ptx, launch, memory, options))
    found.findings += [finding for outcome in found.outcomes for finding in outcome.findings]
    for entry, argument in zip(entries, arguments):
        if "save" in entry and isinstance(argument, Buffer):
            kind, shape = dtype(entry["dtype"]).numpy, tuple(entry["shape"])
            np.save(path.parent / entry["save"], argument.view(kind, shape))
    return found
