"""The C arguments of a kernel's launcher, in one order for every operator.

Sizes, inputs with their strides, in-out arrays and outputs with theirs, scalars, workspace, then the
stream (CUDA) or the number of threads (OpenMP).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.plans.base import Plan
from tilegen.problems.base import Tensor, counted


@dataclass(frozen=True)
class Argument:
    """One C argument.

    Attributes:
        name: its name.
        type: its C type, `const` and `*` included.
        role: size, pointer, packed, stride, scalar, workspace, workspace_bytes, stream or threads.
        tensor: the array it belongs to, for pointers and strides.
        doc: what it is.
    """

    name: str
    type: str
    role: str
    tensor: Tensor | None
    doc: str

    @property
    def declaration(self) -> str:
        gap = "" if self.type.endswith("*") else " "
        return f"{self.type}{gap}{self.name}"


def _pointer(tensor: Tensor, backend: str) -> str:
    element = "void" if backend == "cuda" else tensor.dtype.c
    return f"{element} *" if tensor.is_written else f"const {element} *"


def grouped(plan: Plan) -> list[list[Argument]]:
    """Arguments by group: sizes, one group an array, scalars, workspace, stream or threads."""
    backend = plan.target.backend
    groups = [
        [Argument(s.name, "int64_t", "size", None, s.doc) for s in plan.problem.sizes()],
    ]
    for tensor in plan.tensors():
        role = "packed" if tensor.packed else "pointer"
        group = [Argument(tensor.name, _pointer(tensor, backend), role, tensor, tensor.doc)]
        for stride, dim in zip(tensor.strides, tensor.dims):
            doc = f"elements from one {counted(dim)} of {tensor.name} to the next"
            group.append(Argument(stride, "int64_t", "stride", tensor, doc))
        groups.append(group)
    groups.append(
        [Argument(s.name, s.dtype.c, "scalar", None, s.doc) for s in plan.problem.scalars()]
    )
    if plan.uses_workspace:
        doc = "device memory" if backend == "cuda" else "memory"
        groups.append(
            [
                Argument("workspace", "void *", "workspace", None, f"{doc} that the call may use"),
                Argument("workspace_bytes", "size_t", "workspace_bytes", None, "its size"),
            ]
        )
    if backend == "cuda":
        last = Argument("stream", "cudaStream_t", "stream", None, "where the kernel is enqueued")
    else:
        last = Argument("num_threads", "int", "threads", None, "0 for OpenMP's default")
    groups.append([last])
    return [g for g in groups if g]


def arguments(plan: Plan) -> list[Argument]:
    """All arguments of the launcher in C order."""
    return [a for group in grouped(plan) for a in group]


def supports_groups(plan: Plan) -> list[list[Argument]]:
    """Arguments of `_supports`: sizes, arrays and strides."""
    kept = {"size", "pointer", "packed", "stride"}
    return [g for group in grouped(plan) if (g := [a for a in group if a.role in kept])]


def pack_groups(plan: Plan) -> list[list[Argument]]:
    """Arguments of `_pack`: sizes of the input that is packed, the input, where it goes, threads."""
    source = next(t for t in plan.problem.tensors() if t.name == plan.packs)
    packed = next(t for t in plan.tensors() if t.packed)
    backend = plan.target.backend
    array = [Argument(source.name, _pointer(source, backend), "pointer", source, source.doc)]
    for stride, dim in zip(source.strides, source.dims):
        doc = f"elements from one {dim} of {source.name} to the next"
        array.append(Argument(stride, "int64_t", "stride", source, doc))
    return [
        [a for a in grouped(plan)[0] if a.name in source.dims],
        array,
        [Argument(packed.name, f"{packed.dtype.c} *", "packed", packed, packed.doc)],
        grouped(plan)[-1],
    ]


def parameter_lines(groups: list[list[Argument]], columns: int = 92) -> list[str]:
    """Parameter declarations, a group a line where it fits, without the closing parenthesis."""
    lines = []
    for number, group in enumerate(groups):
        line = ""
        for argument in group:
            word = argument.declaration
            if line and len(line) + 2 + len(word) > columns:
                lines.append(line + ",")
                line = word
            else:
                line = f"{line}, {word}" if line else word
        lines.append(line + ("," if number < len(groups) - 1 else ""))
    return lines


def call_lines(groups: list[list[Argument]], columns: int = 90) -> list[str]:
    """The argument names, as passed on in a call, wrapped; without the closing parenthesis."""
    names = [a.name for group in groups for a in group]
    lines, line = [], ""
    for name in names:
        if line and len(line) + 2 + len(name) > columns:
            lines.append(line + ",")
            line = name
        else:
            line = f"{line}, {name}" if line else name
    return [*lines, line]
