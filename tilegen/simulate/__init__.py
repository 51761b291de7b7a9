"""Run CUDA kernels without a GPU, from the PTX that nvcc makes, and say what a GPU would not show.

memory = Memory()
x = memory.allocate("x", np.arange(8, dtype=np.float32), writable=False)
y = memory.allocate("y", 32)
outcome = simulate_ptx(compile_ptx("kernel.cu", "80"), (1, 1, 1), (32, 1, 1), (x, y, 8), memory=memory)
assert outcome.ok, report(outcome)
y.view(np.float32)

The name `tilegen.simulate` is also the function that runs an emitted kernel: `tilegen.simulate(kernel, x, w)`.
"""

from __future__ import annotations

from tilegen.packages import make_callable
from tilegen.simulate.build import compile_ptx
from tilegen.simulate.launch import (
    Buffer,
    Counter,
    Finding,
    Launch,
    Memory,
    Options,
    Outcome,
    SimulationError,
    TensorMap,
    pack_params,
    tensor_map_param,
)
from tilegen.simulate.report import as_json, report
from tilegen.simulate.run import run_ptx


def simulate_ptx(
    ptx: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: tuple,
    *,
    memory: Memory,
    kernel: str = "",
    cluster: tuple[int, int, int] = (1, 1, 1),
    shared_bytes: int = 0,
    **options: object,
) -> Outcome:
    """Run one launch with arguments in the kernel's order: buffers, tensor maps, NumPy scalars, int, float, bytes.

    `options` are the fields of Options. Raises as `run_ptx`.
    """
    maps: list[TensorMap] = []
    params = pack_params(*arguments, tensor_maps=maps)
    launch = Launch(kernel, grid, block, params, cluster, shared_bytes, tuple(maps))
    return run_ptx(ptx, launch, memory, Options(**options))


__all__ = [
    "Buffer",
    "Counter",
    "Finding",
    "Launch",
    "Memory",
    "Options",
    "Outcome",
    "SimulationError",
    "TensorMap",
    "as_json",
    "compile_ptx",
    "pack_params",
    "report",
    "run_ptx",
    "simulate_ptx",
    "tensor_map_param",
]

make_callable(__name__, "tilegen.kernel.simulate")
