"""The recorder of host code: what it records, and every rule of the runtime and of the tensor-map encoders."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tilegen.errors import BuildError
from tilegen.simulate.host import Copy, Fill, Host, apply, build_host
from tilegen.simulate.launch import Memory, SimulationError, tensor_map_param
from tilegen.targets import target

SM90 = target("sm_90a")
CALLS = Path(__file__).parent / "host" / "calls.cu"


@pytest.fixture(scope="module")
def host() -> Host:
    return Host(build_host(CALLS, SM90), SM90)


@pytest.fixture
def memory() -> Memory:
    memory = Memory()
    memory.allocate("x", np.arange(256, dtype=np.float32), writable=False)
    memory.allocate("y", 1024)
    return memory


def messages(recording) -> str:
    return "\n".join(finding.message for finding in recording.findings)


def test_launch_is_recorded_with_its_parameters(host, memory):
    r = host.record("run_add", [memory["x"], memory["y"], 200, 2.5, 3, 128, 512, -1, None])
    assert r.status == 0 and not r.findings
    (launch,) = r.launches
    assert "add" in launch.kernel
    assert (launch.grid, launch.block, launch.cluster) == ((3, 1, 1), (128, 1, 1), (1, 1, 1))
    assert launch.shared_bytes == 512
    x, y, n, scale = launch.params
    assert int.from_bytes(x, "little") == memory["x"].address
    assert int.from_bytes(y, "little") == memory["y"].address
    assert np.frombuffer(n, np.int64)[0] == 200 and np.frombuffer(scale, np.float32)[0] == 2.5


def test_kernel_heads(host):
    add = next(entry for name, entry in host.entries.items() if "add" in name)
    assert (add.parameters, add.static_shared, add.max_threads) == ((8, 8, 8, 4), 256, 256)
    pair = next(entry for name, entry in host.entries.items() if "pair" in name)
    assert pair.cluster == (2, 1, 1)


@pytest.mark.parametrize(
    ("blocks", "threads", "shared", "opt_in", "status", "says"),
    [
        (1, 256, 48 * 1024 - 256, -1, 0, ""),
        (1, 256, 48 * 1024 - 255, -1, 1, "did not opt in"),
        (1, 256, 100000, 100000, 0, ""),
        (1, 256, 100001, 100000, 1, "opted in to 100000"),
        (1, 256, 232448 - 256, 232448 - 256, 0, ""),
        (1, 256, 1024, 232448 - 255, 1, "may have 232192"),
        (1, 257, 1024, -1, 701, "at most 256"),
        (1, 0, 1024, -1, 9, "block 0x1x1"),
        (0, 256, 1024, -1, 9, "grid 0x1x1"),
        (1, 1025, 1024, -1, 9, "at most 1024 threads"),
    ],
)
def test_launch_limits(memory, blocks, threads, shared, opt_in, status, says):
    host = Host(build_host(CALLS, SM90), SM90)
    arguments = [memory["x"], memory["y"], 1, 1.0, blocks, threads, shared, opt_in, None]
    r = host.record("run_add", arguments)
    assert r.status == status
    assert says in messages(r) and bool(r.findings) == bool(says)
    assert len(r.launches) == (status == 0)


@pytest.mark.parametrize(
    ("x", "y", "z", "bz", "status", "says"),
    [
        (2, 1, 1, 1, 0, ""),
        (3, 1, 1, 1, 912, "not a multiple of the cluster 2x1x1"),
        (2, 65535, 1, 1, 0, ""),
        (2, 65536, 1, 1, 9, "grid 2x65536x1"),
        (2, 1, 65536, 1, 9, "grid 2x1x65536"),
        (1 << 31, 1, 1, 1, 9, "grid 2147483648x1x1"),
        (2, 1, 1, 65, 9, "block 1x1x65"),
    ],
)
def test_grid_limits(host, memory, x, y, z, bz, status, says):
    r = host.record("run_grid", [memory["y"], x, y, z, bz])
    assert r.status == status and says in messages(r) and bool(r.findings) == bool(says)
    if status == 0:
        assert r.launches[0].cluster == (2, 1, 1)


@pytest.mark.parametrize(
    ("blocks", "cluster", "status"), [(4, 4, 0), (8, 8, 0), (16, 16, 912), (6, 4, 912)]
)
def test_cluster_attribute(host, memory, blocks, cluster, status):
    r = host.record("run_cluster", [memory["y"], blocks, cluster])
    assert r.status == status and bool(r.findings) == bool(status)
    if status == 0:
        assert r.launches[0].cluster == (cluster, 1, 1)
        assert r.launches[0].attributes == ("cluster", "programmatic")


def test_clusters_need_hopper(memory):
    host = Host(build_host(CALLS, target("sm_90a")), target("sm_80"))
    r = host.record("run_cluster", [memory["y"], 4, 2])
    assert r.status == 801 and "9.0" in messages(r)


def test_large_parameters_are_said(host, memory):
    r = host.record("run_wide", [memory["y"]])
    assert r.status == 0 and "4408 bytes of kernel parameters" in messages(r)


def test_memsets_and_copies_keep_their_order(host, memory):
    r = host.record("run_memory", [memory["y"], memory["x"], 64, None])
    assert r.status == 0 and not r.findings
    y = memory["y"]
    assert r.steps == (
        Fill(y.address, 0x5A, 64, 1, 64),
        Fill(y.address, 7, 4, 3, 16),
        Copy(y.address + 128, memory["x"].address, 32),
    )
    for step in r.steps:
        apply(step, memory)
    assert bytes(y.data[:8]) == b"\7\7\7\7\x5a\x5a\x5a\x5a"
    np.testing.assert_array_equal(y.data[128:160].view(np.float32), np.arange(8, dtype=np.float32))
    with pytest.raises(SimulationError, match="in no buffer"):
        apply(Fill(y.address + 1020, 0, 8, 1, 8), memory)
    with pytest.raises(SimulationError, match="which is an input"):
        apply(Fill(memory["x"].address, 0, 8, 1, 8), memory)


def test_a_launcher_must_not_allocate_or_synchronise(host):
    r = host.record("run_forbidden", [])
    assert r.status != 0
    assert "must not allocate" in messages(r) and "must not synchronise" in messages(r)


def test_machine_and_occupancy(host):
    read = host.function("read_machine")
    read.argtypes, read.restype = [ctypes.c_int64], ctypes.c_int64
    host.record("read_capturing", [])
    assert (read(16), read(97), read(75), read(76)) == (132, 232448, 9, 0)
    small = Host(host.build, SM90, multiprocessors=3)
    # The machine is that of the host whose function was asked for last.
    occupancy = small.function("read_occupancy")
    occupancy.argtypes, occupancy.restype = [ctypes.c_int64] * 2, ctypes.c_int64
    assert read(16) == 3
    assert occupancy(256, 0) == 8
    assert occupancy(256, 100000) == 233472 // (100000 + 256 + 1024) == 2
    clusters = small.function("read_clusters")
    clusters.argtypes, clusters.restype = [ctypes.c_int64], ctypes.c_int64
    # Three processors of eight blocks, in clusters of two; of a grid that is no multiple the driver counts none.
    assert (clusters(2), clusters(3)) == (3 * 8 // 2, -912)


def test_capturing(host):
    assert host.record("read_capturing", [], capturing=True).status == 1
    assert host.record("read_capturing", []).status == 0


def test_old_entry_point_version_is_refused(host):
    r = host.record("find_encoder", [11000])
    assert r.status == 2 and "version 11000" in messages(r)


# A legal 2-d bf16 map with 128-byte swizzle; each case changes one field.
TILED = {
    "type": 9,
    "rank": 2,
    "interleave": 0,
    "swizzle": 3,
    "promotion": 2,
    "fill": 0,
    "offset": 0,
    "base": 0,
    "sizes": [100, 33],
    "strides": [208],
    "box": [64, 128],
    "steps": [1, 1],
}


def encode_tiled(host, memory, **change):
    f = TILED | change
    fields = [
        f[k] for k in ("type", "rank", "interleave", "swizzle", "promotion", "fill", "offset")
    ]
    address = memory["y"].address + f["base"]
    return host.record(
        "run_tiled",
        [
            (ctypes.c_int64 * 7)(*fields),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * 5)(*f["sizes"]),
            (ctypes.c_uint64 * 4)(*f["strides"]),
            (ctypes.c_uint32 * 5)(*f["box"]),
            (ctypes.c_uint32 * 5)(*f["steps"]),
        ],
    )


def test_tiled_map_reaches_the_launch(host, memory):
    r = encode_tiled(host, memory, fill=1)
    assert r.status == 0 and not r.findings
    (launch,) = r.launches
    (tensor_map,) = launch.tensor_maps
    assert tensor_map.dims == (100, 33) and tensor_map.strides == (208,)
    assert tensor_map.box == (64, 128) and tensor_map.element_strides == (1, 1)
    assert (tensor_map.kind, tensor_map.dtype, tensor_map.swizzle) == ("tiled", "bf16", "128b")
    assert (tensor_map.l2_promotion, tensor_map.oob_fill) == ("128b", "nan")
    assert tensor_map.address == memory["y"].address
    assert launch.params[0] == tensor_map_param(0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"base": 8}, "is not a multiple of 16 bytes"),
        ({"offset": 8}, "not 64-byte aligned"),
        ({"offset": 64}, ""),
        ({"type": 14}, "data type 14"),
        ({"rank": 0}, "rank 0 is outside 1..5"),
        ({"rank": 6}, "rank 6 is outside 1..5"),
        ({"sizes": [100, 0]}, "size 0 of dimension 1"),
        ({"sizes": [100, 1 << 32]}, ""),
        ({"sizes": [100, (1 << 32) + 1]}, "outside 1..2^32"),
        ({"strides": [200]}, "stride of 200 bytes"),
        ({"strides": [1 << 40]}, "below 2^40"),
        ({"box": [64, 257]}, "box 257 of dimension 1"),
        ({"box": [64, 0]}, "box 0 of dimension 1"),
        ({"box": [60, 128]}, "120 bytes, no multiple of 16"),
        ({"box": [72, 128]}, "more than the swizzle span of 128"),
        ({"box": [64, 128], "swizzle": 2}, "more than the swizzle span of 64"),
        ({"box": [32, 128], "swizzle": 2}, ""),
        ({"box": [32, 128], "swizzle": 1}, "more than the swizzle span of 32"),
        ({"box": [256, 128], "swizzle": 0}, ""),
        ({"steps": [1, 9]}, "element stride 9 of dimension 1"),
        ({"steps": [1, 0]}, "element stride 0 of dimension 1"),
        ({"steps": [0, 8]}, ""),
        ({"interleave": 1}, "rank 2 is outside 3..5"),
        ({"interleave": 3}, "rank 2 is outside 3..5"),
        ({"swizzle": 7}, "swizzle 7 does not exist"),
        ({"promotion": 4}, "L2 promotion 4"),
        ({"type": 1, "fill": 1}, "needs a floating-point type, not u16"),
        (
            {
                "rank": 3,
                "interleave": 2,
                "sizes": [16, 8, 8],
                "strides": [32, 256],
                "box": [16, 8, 8],
            }
            | {"steps": [1, 1, 1]},
            "interleave 32B needs swizzle 32B",
        ),
        (
            {
                "rank": 3,
                "interleave": 2,
                "sizes": [16, 8, 8],
                "strides": [48, 512],
                "box": [16, 8, 8],
            }
            | {"steps": [1, 1, 1], "swizzle": 1},
            "not a multiple of 32 below",
        ),
    ],
)
def test_tiled_rules(host, memory, change, says):
    r = encode_tiled(host, memory, **change)
    assert says in messages(r)
    assert (r.status, bool(r.findings)) == ((1, True) if says else (0, False))


IM2COL = {
    "type": 6,
    "rank": 4,
    "interleave": 0,
    "swizzle": 3,
    "promotion": 0,
    "fill": 0,
    "channels": 64,
    "pixels": 128,
    "sizes": [64, 14, 15, 2],
    "strides": [128, 128 * 14, 128 * 14 * 15],
    "lower": [-1, -1],
    "upper": [-1, -1],
    "steps": [1, 1, 1, 1],
}


def encode_im2col(host, memory, **change):
    f = IM2COL | change
    names = ("type", "rank", "interleave", "swizzle", "promotion", "fill", "channels", "pixels")
    return host.record(
        "run_im2col",
        [
            (ctypes.c_int64 * 8)(*(f[name] for name in names)),
            ctypes.c_void_p(memory["y"].address),
            (ctypes.c_uint64 * 5)(*f["sizes"]),
            (ctypes.c_uint64 * 4)(*f["strides"]),
            (ctypes.c_int * 3)(*f["lower"]),
            (ctypes.c_int * 3)(*f["upper"]),
            (ctypes.c_uint32 * 5)(*f["steps"]),
        ],
    )


def test_im2col_map_reaches_the_launch(host, memory):
    r = encode_im2col(host, memory)
    assert r.status == 0 and not r.findings
    (tensor_map,) = r.launches[0].tensor_maps
    assert (tensor_map.kind, tensor_map.dtype) == ("im2col", "f16")
    assert (tensor_map.lower_corner, tensor_map.upper_corner) == ((-1, -1), (-1, -1))
    assert (tensor_map.channels_per_pixel, tensor_map.pixels_per_column) == (64, 128)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rank": 2}, "rank 2 is outside 3..5"),
        ({"lower": [-129, 0]}, "corner -129 of spatial dimension 0 is outside -128..127"),
        ({"upper": [0, 128]}, "corner 128 of spatial dimension 1 is outside -128..127"),
        ({"lower": [0, 0], "upper": [-14, 0]}, "empty in spatial dimension 0"),
        ({"channels": 257, "swizzle": 0}, "257 channels a pixel"),
        ({"channels": 72}, "more than the swizzle span of 128"),
        ({"pixels": 1025}, "1025 pixels a column"),
        ({"pixels": 0}, "0 pixels a column"),
        ({"steps": [1, 2, 2, 1]}, ""),
        (
            {"rank": 5, "sizes": [64, 9, 9, 9, 2], "strides": [128, 1152, 10368, 93312]}
            | {"lower": [-17, 0, 0], "upper": [0, 0, 0], "steps": [1] * 5},
            "outside -16..15",
        ),
    ],
)
def test_im2col_rules(host, memory, change, says):
    r = encode_im2col(host, memory, **change)
    assert says in messages(r)
    assert (r.status, bool(r.findings)) == ((1, True) if says else (0, False))


def test_tensor_maps_need_hopper(memory):
    host = Host(build_host(CALLS, SM90), target("sm_80"))
    assert "compute capability 9.0" in messages(encode_tiled(host, memory))


def test_unknown_symbol(host):
    with pytest.raises(SimulationError, match="exports no function run_nothing"):
        host.record("run_nothing", [])


def test_what_the_recorder_lacks_is_named(tmp_path):
    source = tmp_path / "lacking.cu"
    source.write_text(
        "#include <cuda_runtime.h>\n"
        'extern "C" cudaError_t run(cudaStream_t s) { int p = 0; return cudaStreamGetPriority(s, &p); }\n'
    )
    with pytest.raises(SimulationError, match="lacking.cu calls cudaStreamGetPriority"):
        build_host(source, SM90)


def test_a_source_that_does_not_compile(tmp_path):
    source = tmp_path / "broken.cu"
    source.write_text("__global__ void k() { undeclared(); }\n")
    with pytest.raises(BuildError, match="undeclared"):
        build_host(source, SM90)


def test_the_cache_sees_included_headers_and_keeps_warnings(tmp_path):
    (tmp_path / "size.h").write_text("constexpr int kSize = 3;\n")
    source = tmp_path / "kernel.cu"
    kernel = 'extern "C" __global__ void k(int *p) { int idle; *p = kSize; }\n'
    source.write_text(f'#include "size.h"\n{kernel}int narrow(long n) {{ return n; }}\n')
    first = build_host(source, SM90)
    assert '"idle" was declared but never referenced' in first.warnings
    assert "-Wconversion" in first.warnings
    assert build_host(source, SM90).library == first.library
    (tmp_path / "size.h").write_text("constexpr int kSize = 4;\n")
    assert build_host(source, SM90).library != first.library
