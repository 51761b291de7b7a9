"""Stream-K: tiles that are cut among clusters, in a workspace that holds anything, with the same bits each time."""

from __future__ import annotations

import dataclasses
import re
import struct

import numpy as np
import pytest

from tests.test_simulated import missing
from tilegen.emit.render import Rendered, render
from tilegen.model.gemm_cuda_stream import Shares
from tilegen.runtime.simulated import Call, SimulatedKernel
from tilegen.simulate import Options, Outcome, run_ptx
from tilegen.simulate.host import perform
from tilegen.simulate.launch import Launch
from tilegen.spec import KernelSpec
from tilegen.verify.oracle import Case, compare, prepare

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")

STAGES = 3
# Steps that a cluster has at least, as the text says.
SHARE = 8
SKEW = 10


@pytest.fixture(scope="module")
def kernel() -> Rendered:
    """Pairs of blocks, and all that the epilogue can wait for."""
    options = {"dtype": "bf16", "schedule": "wgmma", "tile": "64x64x64", "stages": str(STAGES)}
    options |= {"cluster": "2", "stream": "true"}
    options["epilogue"] = "relu(alpha * acc + bias[n]) + residual[m,n]"
    made = render(KernelSpec.make("gemm", "sm_90a", options))
    # Shares that end anywhere pay with large tiles, which take long here: as if they cost nothing.
    body = made.files[made.source]
    changed = re.sub(r"kSkew = 15;", f"kSkew = {SKEW};", body)
    assert changed != body
    return dataclasses.replace(made, files={**made.files, made.source: changed})


def record(
    kernel: Rendered, sizes: dict[str, int], processors: int
) -> tuple[SimulatedKernel, Call, tuple]:
    runner = SimulatedKernel(kernel, multiprocessors=processors)
    arrays, scalars, expected = prepare(kernel.plan, Case(sizes, 0, 0, 0))
    call = runner.record({name: g.array for name, g in arrays.items()}, scalars)
    assert not call.recording.status and not call.recording.findings
    call.memory["workspace"].data[...] = 0xFF
    return runner, call, (arrays, expected)


def launch(runner: SimulatedKernel, call: Call, options: Options, ptx: str = "") -> list[Outcome]:
    run = lambda launch: run_ptx(ptx or runner.ptx, launch, call.memory, options)  # noqa: E731
    return perform(call.recording.steps, call.memory, run)


def worst(kernel: Rendered, sizes: dict[str, int], processors: int) -> tuple[float, Launch]:
    """The largest error of three launches in one workspace, of the same bits each; and the launch."""
    runner, call, (arrays, expected) = record(kernel, sizes, processors)
    result = call.memory["c"].data
    before, first = result.copy(), None
    for order in ("deterministic", "lazy", "random"):
        result[...] = before
        outcomes = launch(runner, call, Options(order=order, seed=5))
        assert not [f for o in outcomes for f in o.findings]
        assert first is None or np.array_equal(first, result), f"other bits, {order}"
        first = result.copy()
    rows = arrays["c"].array
    rows.view(np.uint8)[...] = first.reshape(rows.view(np.uint8).shape)
    return compare(kernel.plan, arrays, expected)[0], call.recording.launches[0]


# Tiles of a pair of blocks, 128 x 64: whole; cut into equal parts, alone and behind a whole wave; in shares that end
# anywhere, with one cluster between two tiles.
@pytest.mark.parametrize(
    "processors, tiles_m, tiles_n, steps, clusters",
    [
        (4, 1, 1, 0, 1),
        (4, 1, 3, 0, 2),
        (4, 1, 1, 1, 1),
        (4, 2, 1, STAGES - 1, 2),
        (6, 1, 2, STAGES + 1, 2),
        (8, 1, 1, 2 * STAGES + 1, 1),
        (8, 1, 1, 2 * SHARE, 2),
        (10, 1, 1, 5 * SHARE + 1, 5),
        (6, 2, 1, 2 * SHARE + 5, 3),
        (8, 1, 3, 5 * SHARE, 4),
        (4, 1, 3, 2 * SHARE, 2),
        (6, 1, 4, 3 * SHARE, 3),
        (8, 1, 6, 4 * SHARE, 4),
        (6, 1, 5, 3 * SHARE, 3),
        (4, 1, 5, SHARE, 2),
    ],
)
def test_every_way_to_share_tiles(kernel, processors, tiles_m, tiles_n, steps, clusters):
    sizes = {"m": 128 * tiles_m - 61, "n": 64 * tiles_n - 8, "k": max(0, 64 * steps - 56)}
    error, made = worst(kernel, sizes, processors)
    assert error <= 1 and made.grid[0] == 2 * clusters
    # The model shares out as the launcher does: sizes, steps, tiles, and how many of these are whole.
    shape = next(struct.unpack("<qq6i", p[:40]) for p in made.params if len(p) == 40)
    shares = Shares.of(tiles_m * tiles_n, steps, processors // 2, 1, SKEW)
    assert shape[2:] == (
        *(steps, tiles_m, tiles_n),
        *(shares.tiles, shares.whole, shares.sharers),
    )
    assert shares.clusters == clusters


READY = 0x7FA5C3D1FF9E4B27
ACQUIRE = re.compile(r"ld\.acquire\.gpu\.global\.b64 (%rd\d+), (\[%rd\d+\]);")
RELEASE = re.compile(r"st\.release(\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)")


@pytest.mark.parametrize(
    "pattern, replacement, kind",
    [
        (ACQUIRE, rf"mov.b64 \1, {READY};", "race"),
        (ACQUIRE, r"ld.relaxed.gpu.global.b64 \1, \2;", "race"),
        (RELEASE, r"st.relaxed\1", "race"),
        (RELEASE, ";", "watchdog"),
    ],
    ids=["no wait", "relaxed wait", "relaxed word", "no word"],
)
def test_sums_that_change_hands_without_order_are_found(kernel, pattern, replacement, kind):
    runner, call, _ = record(kernel, {"m": 128, "n": 64, "k": 64 * 2 * SHARE}, 4)
    changed, count = pattern.subn(replacement, runner.ptx)
    assert count == 1
    options = Options(max_steps=400_000)
    found = {f.kind for o in launch(runner, call, options, changed) for f in o.findings}
    assert kind in found, found


def test_a_workspace_is_what_the_device_needs(kernel):
    _, call, _ = record(kernel, {"m": 128, "n": 64, "k": 64 * 2 * SHARE}, 4)
    body = kernel.files[kernel.source]
    assert "reinterpret_cast<uintptr_t>(workspace) % 16 != 0" in body
    space = call.memory["workspace"].data.size
    # Two clusters of two blocks of one consumer: 64 x 64 sums, and a word.
    assert space == 4 * (64 * 64 * 4 + 8)
