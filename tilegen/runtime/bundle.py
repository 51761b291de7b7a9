"""Kernels built ahead of time: a folder of libraries with a manifest, loaded without a compiler or templates.

`tilegen build -o DIR` writes the folder, `tilegen.load(DIR)` reads it. Nothing here imports the emitter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilegen.errors import BuildError, UsageError
from tilegen.problems.base import Scalar, Size, Tensor
from tilegen.runtime.call import call
from tilegen.targets import CudaTarget, Target, target
from tilegen.values import dtype, nearest

FILE = "bundle.json"
FORMAT = 2


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel in C order, in place of the problem that they came from."""

    size_list: tuple[Size, ...]
    tensor_list: tuple[Tensor, ...]
    scalar_list: tuple[Scalar, ...]

    def sizes(self) -> tuple[Size, ...]:
        return self.size_list

    def tensors(self) -> tuple[Tensor, ...]:
        return self.tensor_list

    def scalars(self) -> tuple[Scalar, ...]:
        return self.scalar_list


@dataclass(frozen=True)
class BuiltPlan:
    """What a call needs to know of a plan."""

    problem: Signature
    target: Target
    uses_workspace: bool
    packs: str = ""
    launcher: tuple[Tensor, ...] = ()

    def tensors(self) -> tuple[Tensor, ...]:
        """Arrays of the launcher in C order."""
        return self.launcher


def entry(plan: Any, symbol: str, command: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's entry of a kernel.

    Args:
        plan: its plan.
        symbol: its launcher.
        command: what emits it.
        files: names of its files in the folder: `library`, `header`, and `cubin` on CUDA; and
            `library_bytes`.
    """
    problem = plan.problem
    return {
        "symbol": symbol,
        "target": plan.target.name,
        "command": command,
        **files,
        "uses_workspace": plan.uses_workspace,
        "sizes": [asdict(s) for s in problem.sizes()],
        "packs": plan.packs,
        "tensors": [_plain(t) for t in problem.tensors()],
        "launcher": [_plain(t) for t in plan.tensors()],
        "scalars": [_plain(s) for s in problem.scalars()],
    }


def _plain(argument: Tensor | Scalar) -> dict[str, Any]:
    return {k: str(v) if k == "dtype" else v for k, v in vars(argument).items()}


def _plan(table: Mapping[str, Any]) -> BuiltPlan:
    scalars = [Scalar(**{**s, "dtype": dtype(s["dtype"])}) for s in table["scalars"]]
    sizes = [Size(**s) for s in table["sizes"]]
    signature = Signature(tuple(sizes), _tensors(table["tensors"]), tuple(scalars))
    where, launcher = target(table["target"]), _tensors(table["launcher"])
    return BuiltPlan(signature, where, table["uses_workspace"], table["packs"], launcher)


def _tensors(items: Sequence[Mapping[str, Any]]) -> tuple[Tensor, ...]:
    found = []
    for item in items:
        dims, strides = tuple(item["dims"]), tuple(item["strides"])
        typed = {"dtype": dtype(item["dtype"]), "dims": dims, "strides": strides}
        found.append(Tensor(**{**item, **typed}))
    return tuple(found)


class BuiltKernel:
    """One kernel of a folder; its library is loaded when it is first called.

    Attributes:
        stem: its name.
        plan: its arguments.
        library: path of its shared library.
        library_bytes: its size.
        symbol: its launcher.
        command: what emitted it.
    """

    def __init__(self, folder: Path, stem: str, table: Mapping[str, Any]) -> None:
        self.stem = stem
        self.plan = _plan(table)
        self.library = folder / table["library"]
        self.library_bytes = table["library_bytes"]
        self.symbol = table["symbol"]
        self.command = table["command"]
        self._loaded: Any = None

    def __repr__(self) -> str:
        return f"<tilegen built kernel {self.stem}>"

    def load(self) -> Any:
        """Load the library now.

        Raises:
            BuildError: it is missing or cannot be loaded on this machine.
            ToolMissing: a CUDA kernel without PyCUDA or a GPU.
        """
        if self._loaded is None:
            if not self.library.is_file():
                raise BuildError(f"{self.library} is missing", "Build the folder again.")
            size = self.library.stat().st_size
            if size != self.library_bytes:
                # Loading half of a library ends the process.
                raise BuildError(
                    f"{self.library} has {size} bytes, {self.library_bytes} were built",
                    "Copy it again, or build the folder again.",
                )
            if isinstance(self.plan.target, CudaTarget):
                from tilegen.runtime import gpu

                self._loaded = gpu.GpuKernel(self.plan, self.library, self.symbol)
            else:
                from tilegen.runtime import cpu

                self._loaded = cpu.load(self.plan, self.library, self.symbol)
        return self._loaded

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Compute, as `tilegen.Kernel` does."""
        return call(self.plan.problem, self.load(), inputs, named)


class Bundle(Mapping[str, BuiltKernel]):
    """The kernels of a folder by name.

    Attributes:
        folder: where they lie.
    """

    def __init__(self, folder: Path, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder
        self._kernels = {stem: BuiltKernel(folder, stem, t) for stem, t in sorted(tables.items())}

    def __getitem__(self, stem: str) -> BuiltKernel:
        if stem not in self._kernels:
            raise UsageError(
                f"{self.folder} has no kernel '{stem}'{nearest(stem, self._kernels)}",
                f"Kernels: {', '.join(self._kernels) or 'none'}",
            )
        return self._kernels[stem]

    def __contains__(self, stem: object) -> bool:
        return stem in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


def load(folder: str | Path) -> Bundle:
    """Open a folder that `tilegen build -o` wrote.

    Raises:
        UsageError: it has no manifest, or one that is damaged or of another format.
    """
    folder = Path(folder)
    path = folder / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise UsageError(
                f"{path} has format {table['format']}, this tilegen reads {FORMAT}",
                "Build the folder again with this tilegen.",
            )
        return Bundle(folder, table["kernels"])
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", f"Make it with: tilegen build -o {folder}"
        ) from None
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is damaged: {type(error).__name__}: {error}", "Build the folder again."
        ) from None
