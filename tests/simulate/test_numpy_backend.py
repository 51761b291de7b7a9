"""The NumPy backend runs every checked-in CUDA kernel, and agrees with float64 and with the C++ core."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from tilegen.artifacts.kernel_list import read
from tilegen.emit.render import Rendered, render
from tilegen.runtime.simulated import SimulatedKernel
from tilegen.simulate.launch import Launch, Memory, Options, Outcome, SimulationError
from tilegen.simulate.numpy_backend import run_numpy
from tilegen.simulate.parse import parse
from tilegen.targets import CudaTarget
from tilegen.verify.oracle import case_grid, compare, prepare

ROOT = Path(__file__).resolve().parents[2]
KERNELS = read(ROOT / "tilegen.toml")
parsed = functools.lru_cache(maxsize=64)(parse)


def numpy_backend(ptx: str, launch: Launch, memory: Memory, options: Options) -> Outcome:
    return Outcome((), (), run_numpy(parsed(ptx), launch, memory), 0.0)


def cuda_kernels() -> list[Rendered]:
    specs = [spec for spec in KERNELS.specs if isinstance(spec.target, CudaTarget)]
    return [render(spec, KERNELS.style) for spec in specs]


def small_cases(kernel: Rendered, count: int):
    """Cases spread over the kernel's grid that are cheap to compute."""
    cases = list(case_grid(kernel.plan.problem, kernel.plan.schedule.tile_extents(), 1))
    cheap = [c for c in cases if kernel.plan.problem.flops(c.sizes) < 4_000_000]
    return cheap[:: max(1, len(cheap) // count)]


@pytest.mark.parametrize("kernel", cuda_kernels(), ids=lambda k: k.stem)
def test_numpy_backend_is_right_and_agrees_with_the_core(kernel):
    # A small machine, so that blocks take several tiles each.
    simulated = SimulatedKernel(kernel, multiprocessors=2, backend=numpy_backend)
    other = SimulatedKernel(kernel, Options(detectors=False), multiprocessors=2)
    ran = 0
    for case in small_cases(kernel, 3):
        arrays, scalars, expected = prepare(kernel.plan, case)
        views = {name: place.array for name, place in arrays.items()}
        again, _, _ = prepare(kernel.plan, case)
        if simulated.record(views, scalars).recording.status:
            continue  # refused, as `_supports` says; what it may refuse is tested elsewhere
        ran += 1
        simulated.run(views, scalars)
        worst, where = compare(kernel.plan, arrays, expected)
        assert worst <= 1, f"{case}: {where}"
        assert not any(place.strays() for place in arrays.values())
        other.run({name: place.array for name, place in again.items()}, scalars)
        for name, place in arrays.items():
            ours, theirs = place.array, again[name].array
            if ours.dtype.kind in "iub" or not np.issubdtype(ours.dtype, np.inexact):
                ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
            # Sums of tensor cores and approximations may differ by a rounding; the bound covers both.
            bound = expected[name].bound if name in expected else 0.0
            with np.errstate(invalid="ignore"):
                close = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) <= 2 * bound
            assert (close | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))).all(), name
    assert ran


HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def launch(body: str, memory: Memory, threads: int = 32, shared: int = 0, grid: int = 1) -> None:
    ptx = f"{HEAD}.extern .shared .align 16 .b8 smem[];\n.visible .entry k(.param .u64 out) {{\n{body}\n}}"
    params = (memory["out"].address.to_bytes(8, "little"),)
    run_numpy(ptx, Launch("k", (grid, 1, 1), (threads, 1, 1), params, shared_bytes=shared), memory)


def test_lanes_that_wait_for_each_other_make_progress():
    """Lane 5 waits on an mbarrier that the other lanes of its warp arrive at."""
    memory = Memory()
    memory.allocate("out", np.zeros(32, np.uint32))
    launch(
        """.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
        mov.u32 %r0, smem; mov.u32 %r1, %tid.x; ld.param.u64 %rd0, [out];
        setp.eq.u32 %p0, %r1, 0; @%p0 mbarrier.init.shared::cta.b64 [%r0], 31; bar.sync 0;
        setp.eq.u32 %p1, %r1, 5; @%p1 bra WAIT;
        mbarrier.arrive.shared::cta.b64 _, [%r0]; bra DONE;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r0], 0; @!%p2 bra WAIT;
        DONE: mad.wide.u32 %rd1, %r1, 4, %rd0; st.global.u32 [%rd1], 1; ret;""",
        memory,
        shared=16,
    )
    assert memory["out"].view(np.uint32).tolist() == [1] * 32


def test_a_spinning_block_does_not_starve_its_writer():
    memory = Memory()
    memory.allocate("out", np.zeros(4, np.uint32))
    launch(
        """.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
        ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 1; @%p0 bra WRITE;
        SPIN: ld.acquire.gpu.global.u32 %r1, [%rd0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
        add.u32 %r1, %r1, 6; st.global.u32 [%rd0+4], %r1; ret;
        WRITE: st.release.gpu.global.u32 [%rd0], 1; ret;""",
        memory,
        grid=2,
    )
    assert memory["out"].view(np.uint32).tolist()[:2] == [1, 7]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("bar.sync 0, 64; ret;", "no lane can go on"),
        ("frob.u32 %r0, %r1; ret;", "frob.u32 is not modelled"),
        ("ld.param.u64 %rd0, [out]; st.global.u32 [%rd0+4096], %r0; ret;", "outside every buffer"),
        ("st.shared.u32 [4096], %r0; ret;", "outside the block's memory"),
        ("ld.param.u64 %rd0, [out]; st.global.u32 [%rd0+2], %r0; ret;", "misaligned"),
        ("trap;", "trap"),
    ],
)
def test_what_it_refuses(body, says):
    memory = Memory()
    memory.allocate("out", np.zeros(64, np.uint32))
    with pytest.raises(SimulationError, match=says):
        launch(f".reg .b32 %r<4>; .reg .b64 %rd<4>; {body}", memory)
