"""Record what an NVIDIA GPU of compute capability 9.0 computes for each opcode vector.

    python record_vectors.py prepare FOLDER     # anywhere with ptxas: cubins, inputs and a plan
    python record_vectors.py record FOLDER      # where the GPU is: needs the driver and NumPy alone; writes outputs.npz
    python record_vectors.py keep FOLDER        # into the repository: vectors/recorded.npz

Each kernel runs twice; one whose outputs differ is reported. A kernel that faults is reported with the driver's error,
and the context is renewed.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "vectors" / "recorded.npz"

_TYPES = "u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32_ftz tf32 tf32_ftz".split()
_SWIZZLES = ("none", "32b", "64b", "128b")


def prepare(folder: Path) -> None:
    sys.path.insert(0, str(HERE))
    sys.path.insert(0, str(HERE.parents[1]))
    from vectors.pools import pool
    from vectors.replay import groups

    folder.mkdir(parents=True, exist_ok=True)
    plan, inputs = [], {}
    for group in groups():
        ptx = folder / f"{group.name}.ptx"
        ptx.write_text(group.ptx)
        cubin = folder / f"{group.name}.cubin"
        subprocess.run(["ptxas", "-arch=sm_90a", str(ptx), "-o", str(cubin)], check=True)
        ptx.unlink()
        for vector in group.vectors:
            for name in vector.inputs:
                inputs[name] = pool(name).view(np.uint8)
            fields = ("name", "inputs", "output", "grid", "block", "cluster", "shared")
            entry = {field: getattr(vector, field) for field in fields}
            entry["group"] = group.name
            entry["ptx"] = zlib.crc32(vector.ptx.encode())
            entry["maps"] = [vars(spec) | {"steps": spec.steps} for spec in vector.maps]
            plan.append(entry)
    np.savez_compressed(folder / "inputs.npz", **inputs)
    (folder / "plan.json").write_text(json.dumps(plan))
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{len(plan)} vectors, {len(inputs)} inputs, {size / 1e6:.1f} MB in {folder}")


class Driver:
    """The few driver calls that a recording needs. Raises RuntimeError with the driver's error number."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.open()

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: error {status}")

    def open(self) -> None:
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.modules: dict[str, ctypes.c_void_p] = {}
        self.buffers: dict[str, ctypes.c_uint64] = {}

    def renew(self) -> None:
        self.cuda.cuDevicePrimaryCtxReset_v2(0)
        self.open()

    def upload(self, data: np.ndarray) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(data.nbytes, 16)))
        raw = np.ascontiguousarray(data)
        self.call(
            "cuMemcpyHtoD_v2",
            address,
            raw.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(raw.nbytes),
        )
        return address

    def function(self, folder: Path, group: str, name: str) -> ctypes.c_void_p:
        if group not in self.modules:
            module = ctypes.c_void_p()
            self.call(
                "cuModuleLoadData", ctypes.byref(module), (folder / f"{group}.cubin").read_bytes()
            )
            self.modules[group] = module
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[group], name.encode())
        return function

    def tensor_map(self, spec: dict, address: int) -> ctypes.Array:
        raw = (ctypes.c_uint8 * 256)()
        aligned = (ctypes.c_uint8 * 128).from_buffer(raw, -ctypes.addressof(raw) % 128)
        rank = len(spec["dims"])
        head = (aligned, _TYPES.index(spec["dtype"]), rank, ctypes.c_void_p(address))
        head += ((ctypes.c_uint64 * rank)(*spec["dims"]),)
        head += ((ctypes.c_uint64 * max(rank - 1, 1))(*spec["strides"]),)
        steps = (ctypes.c_uint32 * rank)(*spec["steps"])
        tail = (0, _SWIZZLES.index(spec["swizzle"]), 0, int(spec["fill"] == "nan"))
        if spec["channels"]:
            corners = [(ctypes.c_int * (rank - 2))(*spec[side]) for side in ("lower", "upper")]
            self.call(
                "cuTensorMapEncodeIm2col",
                *head,
                *corners,
                spec["channels"],
                spec["pixels"],
                steps,
                *tail,
            )
        else:
            self.call(
                "cuTensorMapEncodeTiled",
                *head,
                (ctypes.c_uint32 * rank)(*spec["box"]),
                steps,
                *tail,
            )
        return aligned

    def run(self, folder: Path, entry: dict, inputs) -> np.ndarray:
        for name in entry["inputs"]:
            if name not in self.buffers:
                self.buffers[name] = self.upload(inputs[name])
        out = self.upload(np.full(entry["output"], 0xCD, np.uint8))
        pointers = [self.buffers[name] for name in entry["inputs"]] + [out]
        places = [p.value for p in pointers]
        maps = [self.tensor_map(m, places[m["buffer"]]) for m in entry["maps"]]
        parameters = [ctypes.addressof(p) for p in pointers] + [ctypes.addressof(m) for m in maps]
        table = (ctypes.c_void_p * len(parameters))(*parameters)
        function = self.function(folder, entry["group"], entry["name"])
        self.call(
            "cuLaunchKernel",
            function,
            *entry["grid"],
            *entry["block"],
            entry["shared"],
            None,
            table,
            None,
        )
        self.call("cuCtxSynchronize")
        result = np.empty(entry["output"], np.uint8)
        self.call(
            "cuMemcpyDtoH_v2",
            result.ctypes.data_as(ctypes.c_void_p),
            out,
            ctypes.c_size_t(result.nbytes),
        )
        self.call("cuMemFree_v2", out)
        return result


def record(folder: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    inputs = np.load(folder / "inputs.npz")
    driver, outputs, faults = Driver(), {}, []
    for entry in plan:
        try:
            first = driver.run(folder, entry, inputs)
            second = driver.run(folder, entry, inputs)
            if (first != second).any():
                faults.append(
                    f"{entry['name']}: two runs differ in {np.count_nonzero(first != second)} bytes"
                )
            outputs[entry["name"]] = first
        except RuntimeError as error:
            faults.append(f"{entry['name']}: {error}")
            driver.renew()
    np.savez_compressed(folder / "outputs.npz", **outputs)
    (folder / "faults.txt").write_text("".join(f"{fault}\n" for fault in faults))
    print(f"{len(outputs)} of {len(plan)} vectors recorded, {len(faults)} faults")
    print("\n".join(faults[:60]))


def keep(folder: Path) -> None:
    """One file: outputs by vector, inputs by pool, and the checksum of each vector's PTX."""
    plan = {entry["name"]: entry for entry in json.loads((folder / "plan.json").read_text())}
    outputs, inputs = np.load(folder / "outputs.npz"), np.load(folder / "inputs.npz")
    names = sorted(outputs.files)
    data = {f"out/{name}": outputs[name] for name in names}
    data |= {f"in/{name}": inputs[name] for name in inputs.files}
    data["names"] = np.array(names)
    data["ptx"] = np.array([plan[name]["ptx"] for name in names], np.uint32)
    np.savez_compressed(RECORDED, **data)
    print(f"{len(names)} vectors, {RECORDED.stat().st_size / 1e6:.2f} MB in {RECORDED}")


if __name__ == "__main__":
    commands = {"prepare": prepare, "record": record, "keep": keep}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](Path(sys.argv[2]))
