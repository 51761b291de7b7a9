"""Builds kernels into a folder that `tilegen.load` and C programs use without a compiler."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tilegen.emit.render import Rendered
from tilegen.runtime.bundle import FILE, FORMAT, entry
from tilegen.shared_files import locked, replace
from tilegen.targets import CudaTarget
from tilegen.toolchain import build


def build_into(
    folder: Path, kernels: Sequence[Rendered], done: Callable[[Rendered], None] = lambda _: None
) -> list[Path]:
    """Compile kernels and put libraries, headers, cubins and the manifest into a folder.

    Every file is replaced as a whole, and the manifest last, so that a reader never sees half of one.
    Kernels that the folder holds already stay in its manifest.

    Args:
        folder: made if it is not there.
        kernels: what to build, in parallel compilers.
        done: told of each kernel as it is in place.

    Returns:
        Paths of the libraries.

    Raises:
        ToolMissing, BuildError: as `toolchain.build.library`; the manifest then is as it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries: dict[str, Any] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for kernel, made in zip(kernels, pool.map(_compile, kernels)):
            files: dict[str, Any] = {"library_bytes": len(made["library"][1])}
            for kind, (name, data) in made.items():
                replace(folder / name, data)
                files[kind] = name
            entries[kernel.stem] = entry(kernel.plan, kernel.symbol, kernel.command, files)
            done(kernel)
    with locked(folder / FILE):
        table = {"format": FORMAT, "kernels": _present(folder) | entries}
        text = json.dumps(table, indent=1, sort_keys=True) + "\n"
        replace(folder / FILE, text.encode())
    return [folder / entries[k.stem]["library"] for k in kernels]


def _compile(kernel: Rendered) -> dict[str, tuple[str, bytes]]:
    """File name and bytes by kind."""
    made = {"library": (f"lib{kernel.symbol}.so", build.library(kernel, shipped=True).read_bytes())}
    for path, text in kernel.files.items():
        if path.endswith(".h"):
            made["header"] = (Path(path).name, text.encode())
    if isinstance(kernel.spec.target, CudaTarget):
        build.require_no_spill(kernel, kernel.spec.target)
        image, _ = build.cubin(kernel, kernel.spec.target)
        made["cubin"] = (f"{kernel.stem}.cubin", image.read_bytes())
    return made


def _present(folder: Path) -> dict[str, Any]:
    try:
        table = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return dict(table["kernels"]) if table["format"] == FORMAT else {}
    except (OSError, json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        return {}
