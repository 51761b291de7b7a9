"""What an NVIDIA H200 computed for small calls of checked-in kernels: which calls, and how they are kept.

One file holds a sample of every output and the checksum of the whole, by kernel; inputs are drawn again from their seed.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tilegen.emit.render import Rendered
from tilegen.verify.guarded import Guarded
from tilegen.verify.oracle import LAYOUTS, Case, case_grid

FILE = Path(__file__).resolve().parent / "recorded.npz"
# Largest call that is recorded, in floating-point operations or bytes.
MOST_WORK = 8_000_000
# Elements of a larger output are sampled down to about as many bytes.
SAMPLE_BYTES = 6144


@dataclass(frozen=True)
class Record:
    """One call: what was called, and what came out.

    Attributes:
        text: digest of the kernel's code at the time (see `code_digest`).
        case: sizes, layout and seed.
        checksums: CRC-32 of each output's elements.
        samples: some elements of each output (see `sample`), as bytes.
    """

    text: str
    case: Case
    checksums: Mapping[str, int]
    samples: Mapping[str, np.ndarray]


def code_digest(kernel: Rendered) -> str:
    """Of the emitted code without its comments: those may change and the record still holds."""
    state = 0
    for path in sorted(kernel.files):
        code = re.sub(r"/\*.*?\*/", "", kernel.files[path], flags=re.S)
        lines = (re.sub(r"//.*", "", line).strip() for line in code.splitlines())
        state = zlib.crc32("\n".join(line for line in lines if line).encode(), state)
    return f"{state:08x}"


def calls(kernel: Rendered) -> list[Case]:
    """The largest cheap case of the kernel's grid in each layout of its arrays."""
    problem, chosen = kernel.plan.problem, {}
    for case in case_grid(problem, kernel.plan.schedule.tile_extents(), 1):
        work = max(problem.flops(case.sizes), problem.bytes(case.sizes))
        if 0 in case.sizes.values() or work > MOST_WORK:
            continue
        layout = (case.row_pad, case.offset)
        if layout not in chosen or work > chosen[layout][0]:
            chosen[layout] = (work, case)
    return [chosen[layout][1] for layout in LAYOUTS if layout in chosen]


def outputs(kernel: Rendered, arrays: Mapping[str, Guarded]) -> dict[str, np.ndarray]:
    """The written arrays, dense, in one dimension."""
    written = (t.name for t in kernel.plan.problem.tensors() if t.is_written)
    return {name: np.ascontiguousarray(arrays[name].array).reshape(-1) for name in written}


def picked(elements: np.ndarray) -> slice:
    """Which elements are kept: all, or some at an odd stride, so that all rows and columns occur."""
    step = -(-elements.nbytes // SAMPLE_BYTES)
    return slice(None, None, step | 1 if step > 1 else 1)


def sample(elements: np.ndarray) -> np.ndarray:
    """The elements that are kept, dense."""
    return np.ascontiguousarray(elements[picked(elements)])


def make(kernel: Rendered, case: Case, elements: Mapping[str, np.ndarray]) -> Record:
    """The record of one call."""
    return Record(
        code_digest(kernel),
        case,
        {name: zlib.crc32(e.tobytes()) for name, e in elements.items()},
        {name: sample(e).view(np.uint8) for name, e in elements.items()},
    )


def save(path: Path, device: str, records: Mapping[str, list[Record]]) -> None:
    """Write all records, by kernel."""
    index, arrays = {}, {}
    for stem, mine in records.items():
        index[stem] = [
            {"text": r.text, "case": asdict(r.case), "checksums": dict(r.checksums)} for r in mine
        ]
        for number, record in enumerate(mine):
            arrays |= {f"{stem}/{number}/{name}": s for name, s in record.samples.items()}
    whole = json.dumps({"device": device, "kernels": index})
    np.savez_compressed(path, index=np.frombuffer(whole.encode(), np.uint8), **arrays)


def load(path: Path) -> dict[str, list[Record]]:
    """Records by kernel; none where there is no file."""
    if not path.exists():
        return {}
    with np.load(path) as file:
        index = json.loads(file["index"].tobytes())["kernels"]
        return {
            stem: [
                Record(
                    entry["text"],
                    Case(**entry["case"]),
                    entry["checksums"],
                    {name: file[f"{stem}/{number}/{name}"] for name in entry["checksums"]},
                )
                for number, entry in enumerate(mine)
            ]
            for stem, mine in index.items()
        }
