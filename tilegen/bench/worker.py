"""The process behind competitors: reads requests on standard input, answers on standard output.

Requests: `prepare JSON` with operator, target, options, sizes and, for a kernel that is already built,
`library` and `symbol`; `time`; `verify JSON` with `cases`, `quick` or `full`. Answers: `ok ...`, `no REASON`.

A process may hold several competitors, as those on a GPU share one: then `prepare` also has a `slot`, the
competitor's name in the process, and its `peer`; `time SLOT` times one of them, and `drop` forgets them all.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.bench.cpu import ROUND_SECONDS, time_calls
from tilegen.bench.peers import cpu_peer, gpu_peer
from tilegen.bench.peers.base import placed
from tilegen.bench.peers.own import Built
from tilegen.bench.process import holding
from tilegen.errors import TilegenError
from tilegen.problems.base import Problem, random_array
from tilegen.spec import KernelSpec
from tilegen.targets import CudaTarget

# Inputs of more elements than this repeat a block.
DRAWN_ELEMENTS = 1 << 22


@dataclass
class Competitor:
    """One side of a comparison.

    Attributes:
        name: its name among the peers.
        threads: its CPU threads.
        time: once prepared, gives seconds a call.
        built: our kernel, where it came with a library.
    """

    name: str
    threads: int
    time: Callable[[], float] | None = None
    built: Built | None = None

    def prepare(self, request: dict[str, Any]) -> None:
        """Make the inputs and be ready to be timed."""
        self.time = None
        self.built = None
        if "parts" in request:
            self.time = self._split(request)
            return
        spec = KernelSpec.make(request["operator"], request["target"], request["options"])
        if "library" in request:
            self.built = Built.of(spec, Path(request["library"]), request["symbol"])
        if request.get("only_verify"):
            return
        if isinstance(spec.target, CudaTarget):
            self.time = self._on_gpu(spec, request)
        else:
            self.time = self._on_cpu(spec, request)

    def _on_cpu(self, spec: KernelSpec, request: dict[str, Any]) -> Callable[[], float]:
        sizes = request["sizes"]
        arrays, scalars = host_arrays(spec.problem, sizes, np.random.default_rng(0))
        if self.built is not None:
            call = self.built.bound(arrays, scalars, self.threads)
        else:
            call = cpu_peer(self.name).prepare(spec, sizes, arrays, scalars, self.threads)
        call()
        seconds = request.get("seconds", ROUND_SECONDS)
        # The arrays must outlive the call, whether the peer keeps them or only their addresses.
        return lambda kept=arrays: time_calls(call, seconds) if kept else 0.0

    def _split(self, request: dict[str, Any]) -> Callable[[], float]:
        """Times our kernels of a split one after the other; each writes what the next ones read."""
        specs = [
            KernelSpec.make(part["operator"], request["target"], part["options"])
            for part in request["parts"]
        ]
        if isinstance(specs[0].target, CudaTarget):
            return self._split_on_gpu(specs, request["sizes"])
        calls = split_calls(specs, request["sizes"], self.threads)[0]

        def both() -> None:
            for call in calls:
                call()

        both()
        return lambda: time_calls(both, request.get("seconds", ROUND_SECONDS))

    def _split_on_gpu(self, specs: list[KernelSpec], sizes: dict[str, int]) -> Callable[[], float]:
        from tilegen.bench import gpu
        from tilegen.bench.tensors import device_tensors

        count = gpu.input_sets(sum(spec.problem.bytes(sizes) for spec in specs))
        shared: list[dict[str, Any]] = [{} for _ in range(count)]
        launches = []
        for spec in specs:
            sets, scalars = device_tensors(spec, sizes, count)
            names = {t.name for t in spec.problem.tensors()}
            for known, made in zip(shared, sets):
                known |= {name: made[name] for name in names - set(known)}
            own = [{name: known[name] for name in names} for known in shared]
            launches.append(gpu_peer("tilegen").prepare(spec, sizes, own, scalars))
        graph = gpu.capture(lambda i: [launch(i) for launch in launches], count)
        return lambda kept=shared: gpu.timed(graph) if kept else 0.0

    def _on_gpu(self, spec: KernelSpec, request: dict[str, Any]) -> Callable[[], float]:
        from tilegen.bench import gpu
        from tilegen.bench.peers.own import gpu_launch

        sizes = request["sizes"]
        count = gpu.input_sets(spec.problem.bytes(sizes))
        sets, scalars = shared_tensors(spec, sizes, count)
        if self.built is not None:
            launch = gpu_launch(self.built, sizes, sets, scalars)
        else:
            launch = gpu_peer(self.name).prepare(spec, sizes, sets, scalars)
        graph = gpu.capture(launch, count, request.get("seconds", gpu.GRAPH_SECONDS))
        return lambda kept=sets: gpu.timed(graph) if kept else 0.0

    def verify(self, request: dict[str, Any]) -> str:
        """Run the built kernel over its cases; a summary, or TilegenError with the first failure."""
        from tilegen.errors import CheckFailed
        from tilegen.verify.oracle import case_grid, quick_cases, verify

        plan = self.built.plan
        tile = plan.schedule.tile_extents()
        quick = request["cases"] == "quick"
        cases = quick_cases(plan.problem, tile) if quick else case_grid(plan.problem, tile, 1)
        run = self.built.runner()
        if "device" in request:
            run = alone(run, request["device"])
        verdict = verify(plan, run, cases=cases)
        if not verdict.ok:
            faults = verdict.faults()
            raise CheckFailed(f"{len(faults)} failures: {faults[0]}")
        return f"{verdict.cases} cases, largest error {verdict.worst:.3f} of its bound"


# The tensors of the last problem and sizes; competitors of one case read the same.
_tensors: dict[Any, Any] = {}


def shared_tensors(spec: KernelSpec, sizes: dict[str, int], count: int) -> Any:
    """Sets of tensors on the device and scalars, as `device_tensors`, made once for a case."""
    from tilegen.bench.tensors import device_tensors

    key = (repr(spec.problem), tuple(sizes.items()), count)
    if key not in _tensors:
        _tensors.clear()
        _tensors[key] = device_tensors(spec, sizes, count)
    return _tensors[key]


def alone(run: Callable[..., None], device: str) -> Callable[..., None]:
    """Runs that hold the device's lock, so that they disturb no timing of another process."""

    def locked(arrays: Any, scalars: Any) -> None:
        with holding(device, on_gpu=True):
            run(arrays, scalars)

    return locked


def host_arrays(
    problem: Problem, sizes: dict[str, int], rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Every array of a problem, outputs zero, and its scalars."""
    arrays = timing_inputs(problem, sizes, rng)
    for tensor in problem.tensors():
        if tensor.name not in arrays:
            arrays[tensor.name] = np.zeros(tensor.shape(sizes), tensor.dtype.numpy)
    return {name: placed(array) for name, array in arrays.items()}, problem.draw_scalars(rng)


def split_calls(
    specs: list[KernelSpec], sizes: dict[str, int], threads: int
) -> tuple[list[Callable[[], None]], dict[str, np.ndarray]]:
    """A call of each C kernel of a split on arrays that they share by name, and these arrays."""
    shared: dict[str, np.ndarray] = {}
    calls = []
    for spec in specs:
        arrays, scalars = host_arrays(spec.problem, sizes, np.random.default_rng(0))
        shared |= {name: array for name, array in arrays.items() if name not in shared}
        own = {name: shared[name] for name in arrays}
        calls.append(cpu_peer("tilegen").prepare(spec, sizes, own, scalars, threads))
    return calls, shared


def timing_inputs(
    problem: Problem, sizes: dict[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Inputs as verification draws them; large ones repeat a drawn block, for drawing takes long."""
    reads = [t for t in problem.tensors() if t.is_read]
    count = sum(math.prod(t.shape(sizes)) for t in reads)
    if count <= DRAWN_ELEMENTS or not all(t.dtype.is_float for t in reads):
        return problem.draw(sizes, rng)
    block = (DRAWN_ELEMENTS // 4 - 1,)
    return {t.name: np.resize(random_array(t.dtype, block, rng), t.shape(sizes)) for t in reads}


def serve(slots: dict[str, Competitor], line: str) -> str:
    """Answer one request.

    Args:
        slots: the competitors of this process by name; the one without a name has "".
        line: the request.
    """
    word, _, rest = line.strip().partition(" ")
    if word == "prepare":
        request = json.loads(rest)
        slot, peer = request.pop("slot", ""), request.pop("peer", sys.argv[1])
        slots[slot] = Competitor(peer, int(sys.argv[2]))
        slots[slot].prepare(request)
        return ""
    if word == "verify":
        return slots[""].verify(json.loads(rest))
    if word == "drop":
        slots.clear()
        _tensors.clear()
        return ""
    return repr(slots[rest].time())


def main() -> None:
    """Serve requests until the input ends; a third argument, a target, has its libraries loaded first."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    if sys.argv[3:]:
        warm(sys.argv[3])
    slots: dict[str, Competitor] = {}
    for line in sys.stdin:
        try:
            answer = f"ok {serve(slots, line)}"
        # What a library raises is not known here, and none of it may end the protocol.
        except Exception as error:
            message = error.message if isinstance(error, TilegenError) else str(error)
            first = message.splitlines()[0] if message else ""
            kind = [] if isinstance(error, TilegenError) else [type(error).__name__]
            answer = f"no {': '.join(filter(None, [*kind, first]))}"
        answers.write(answer + "\n")
        answers.flush()


def warm(device: str) -> None:
    """Load what takes seconds, before the first request: `gpu` the driver's context, `torch` PyTorch too."""
    from tilegen.runtime import gpu

    gpu.driver()
    if device == "torch":
        import torch

        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
