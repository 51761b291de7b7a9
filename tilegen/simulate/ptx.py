"""What a PTX module consists of, as the parser hands it to the lowering."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

TYPE_BYTES = {"pred": 0} | {f"{kind}{8 * n}": n for kind in "bus" for n in (1, 2, 4, 8, 16)}
TYPE_BYTES |= {"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "tf32": 4, "f32": 4, "f64": 8}


class Reg(NamedTuple):
    name: str
    type: str
    id: int


class Imm(NamedTuple):
    """An immediate: `kind` is "int" (value), "f32" or "f64" (value is the bit pattern)."""

    value: int
    kind: str


class Sym(NamedTuple):
    name: str
    offset: int = 0


class Special(NamedTuple):
    name: str


class Mem(NamedTuple):
    base: object
    offset: int
    coords: tuple | None = None


class Vec(NamedTuple):
    items: tuple


class Not(NamedTuple):
    reg: object


class Pair(NamedTuple):
    first: object
    second: object


class Sink(NamedTuple):
    pass


SINK = Sink()


@dataclass(slots=True)
class Instruction:
    opcode: str
    operands: list
    guard: Reg | None
    negated: bool
    text: str
    lines: tuple[
        int, ...
    ]  # of the main source file: innermost first, then the callers it was inlined into


@dataclass
class Variable:
    space: str
    type: str
    size: int  # bytes; 0 for an open array
    align: int
    init: list | None = None


@dataclass
class Kernel:
    name: str
    params: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: (offset, bytes)
    param_bytes: int = 0
    registers: list[Reg] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # brx.idx: name to labels
    variables: dict[str, Variable] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Module:
    target: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
