"""Bodies of PTX entries: scopes, registers, labels, operands, source lines (PTX ISA 9.0, chapters 4 to 6)."""

from __future__ import annotations

import re
import struct

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.ptx import (
    SINK,
    TYPE_BYTES,
    Imm,
    Instruction,
    Kernel,
    Mem,
    Not,
    Pair,
    Reg,
    Special,
    Sym,
    Variable,
    Vec,
)

_SPECIAL = re.compile(
    r"%(n?tid|n?ctaid|laneid|n?warpid|lanemask_(?:eq|le|lt|ge|gt)|clock(?:64|_hi)?|globaltimer(?:_lo|_hi)?|n?smid|gridid"
    r"|cluster_n?cta(?:id|rank)|n?clusterid|is_explicit_cluster|(?:dynamic|total|aggr)_smem_size)(\.[xyz])?$"
)
_STATEMENT = re.compile(r"\s*(?:(\.loc\s[^\n]*)|([\w$]+)\s*:(?!:)|([{}])|([^;]*);)")
_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s+")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_INT = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_OFFSET = re.compile(r"(.+?)\s*\+?\s*([+-]?\s*(?:0[xX][0-9a-fA-F]+|\d+))$")


def split_commas(text: str) -> list[str]:
    """Split at commas outside brackets."""
    if "{" not in text and "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")]
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[\[\]{}(),]", text):
        mark = match.group()
        if mark in "[{(":
            depth += 1
        elif mark in "]})":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    parts.append(text[start:].strip())
    return parts


def _integer(text: str) -> int:
    text = text.rstrip("U").replace(" ", "")
    digits = text.lstrip("-+")
    if re.fullmatch(r"0[0-7]+", digits):
        return int(digits, 8) * (-1 if text[0] == "-" else 1)
    return int(text, 0)


class _Scope:
    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.registers: dict[str, tuple[str, int]] = (
            {}
        )  # name or prefix: (type, count; 0 for one name)
        self.labels: dict[str, str] = {}
        self.cache: dict[str, object] = {}


class Body:
    """Reads one entry's body."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scopes = [_Scope("")]
        self.count = 0
        self.jumps: list[tuple[Instruction, tuple[_Scope, ...]]] = []
        self.lines: tuple[int, ...] = ()
        self.located: dict[str, tuple[int, ...]] = {}  # by text; emptied when a parent changes
        self.parents: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        self.main_file = 0

    def read(self, text: str, start: int) -> int:
        """Consume the body that opens before `start`; return the position after its closing brace."""
        position, match_at = start, _STATEMENT.match
        while True:
            match = match_at(text, position)
            if not match:
                raise SimulationError(f"PTX: cannot read near {text[position:position + 60]!r}")
            position = match.end()
            location, label, brace, statement = match.groups()
            if statement:
                self._statement(statement.strip())
            elif location:
                self._location(location)
            elif label:
                unique = label + self.scopes[-1].suffix
                self.scopes[-1].labels[label] = unique
                self.kernel.labels[unique] = len(self.kernel.instructions)
            elif brace == "{":
                self.count += 1
                self.scopes.append(_Scope(f"${self.count}"))
            elif brace == "}":
                self.scopes.pop()
                if not self.scopes:
                    self._resolve()
                    return position

    def _location(self, text: str) -> None:
        known = self.located.get(text)
        if known is not None:
            self.lines = known
            return
        found = [int(x) for x in _LOC.match(text).groups() if x is not None]
        here, parent = tuple(found[:3]), tuple(found[3:]) or None
        if not self.main_file:
            self.main_file = (parent or here)[0]
        if parent is not None or here not in self.parents:
            if self.parents.get(here) != parent:
                self.located.clear()
            self.parents[here] = parent
        chain, at = [], here
        while at is not None and len(chain) < 8:
            if at[0] == self.main_file and at[1] and at[1] not in chain:
                chain.append(at[1])
            at = parent if at is here else self.parents.get(at)
        self.lines = self.located[text] = tuple(chain)

    def _statement(self, text: str) -> None:
        if not text:
            return
        if text[0] == ".":
            self._declaration(text)
            return
        guard, negated, body = None, False, text
        if text[0] == "@":
            match = _GUARD.match(text)
            negated, guard = match.group(1) == "!", self._operand(match.group(2))
            body = text[match.end() :]
        opcode, _, rest = body.replace("\t", " ").partition(" ")
        rest = rest.strip()
        operands = [self._operand(part) for part in split_commas(rest)] if rest else []
        instruction = Instruction(
            opcode, operands, guard, negated, " ".join(text.split()), self.lines
        )
        self.kernel.instructions.append(instruction)
        if opcode.startswith(("bra", "brx")):
            self.jumps.append((instruction, tuple(self.scopes)))

    def _declaration(self, text: str) -> None:
        if text.startswith(".pragma"):
            return
        if text.startswith(".branchtargets"):
            name = next(reversed(self.scopes[-1].labels.values()))
            self.kernel.tables[name] = split_commas(text[len(".branchtargets") :].strip())
        elif text.startswith(".reg"):
            match = re.match(r"\.reg\s+(?:\.v\d\s+)?\.(\w+)\s+(.*)$", text, re.S)
            for name in split_commas(match.group(2)):
                prefix, _, count = name.partition("<")
                self.scopes[-1].registers[prefix] = (
                    match.group(1),
                    int(count[:-1]) if count else 0,
                )
        else:
            name, variable = parse_variable(text)
            self.kernel.variables[name] = variable

    def _register(self, name: str) -> Reg | None:
        prefix = name.rstrip("0123456789")
        for depth in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[depth]
            declared = scope.registers.get(name)
            if declared is None or declared[1]:
                declared = scope.registers.get(prefix)
                if declared is None or prefix == name or int(name[len(prefix) :]) >= declared[1]:
                    continue
            known = scope.cache.get(name)
            if known is None:
                known = Reg(name + scope.suffix, declared[0], len(self.kernel.registers))
                self.kernel.registers.append(known)
                scope.cache[name] = known
            return known
        return None

    def _operand(self, text: str):
        cache = self.scopes[-1].cache
        known = cache.get(text)
        if known is None:
            known = cache[text] = self._read_operand(text)
        return known

    def _read_operand(self, text: str):
        head = text[0]
        if text == "_":
            return SINK
        if head == "{":
            return Vec(tuple(self._operand(part) for part in split_commas(text[1:-1].strip())))
        if head == "[":
            parts = split_commas(text[1:-1].strip())
            base, offset = self._address(parts[0])
            return Mem(base, offset, tuple(self._operand(p) for p in parts[1:]) or None)
        if head == "!":
            return Not(self._operand(text[1:].strip()))
        if head == "(":
            return Vec(tuple(self._operand(part) for part in split_commas(text[1:-1]) if part))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first.strip()), self._operand(second.strip()))
        register = self._register(text)
        if register is not None:
            return register
        if head == "%" and _SPECIAL.match(text):
            return Special(text[1:])
        if head == "0" and text[1:2] in "fF" and len(text) == 10:
            return Imm(int(text[2:], 16), "f32")
        if head == "0" and text[1:2] in "dD" and len(text) == 18:
            return Imm(int(text[2:], 16), "f64")
        if _INT.match(text):
            return Imm(_integer(text), "int")
        if re.match(r"-?\d+\.\d*([eE][+-]?\d+)?$", text):
            return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
        match = re.match(r"([\w$%.]+)\s*([+-]\s*\d+)$", text)
        return Sym(match.group(1), _integer(match.group(2))) if match else Sym(text)

    def _address(self, text: str) -> tuple[object, int]:
        operand = self._register(text)
        if operand is not None:
            return operand, 0
        match = (
            _OFFSET.match(text) if text[-1].isalnum() and ("+" in text or "-" in text[1:]) else None
        )
        if match:
            return self._operand(match.group(1).strip()), _integer(match.group(2).replace("+", ""))
        return self._operand(text), 0

    def _resolve(self) -> None:
        def unique(label: str, scopes: tuple[_Scope, ...]) -> str:
            for scope in reversed(scopes):
                if label in scope.labels:
                    return scope.labels[label]
            raise SimulationError(f"PTX: no label {label} in {self.kernel.name}")

        for instruction, scopes in self.jumps:
            instruction.operands = [
                Sym(unique(op.name, scopes)) if isinstance(op, Sym) else op
                for op in instruction.operands
            ]


def parse_variable(text: str) -> tuple[str, Variable]:
    """Read `.shared .align 16 .b8 name[64]` or `.const .u32 table[2] = {1, 2}`."""
    declared, _, initial = text.partition("=")
    space = re.search(r"\.(shared|global|const|local|param)\b", declared).group(1)
    align = re.search(r"\.align\s+(\d+)", declared)
    types = [word for word in re.findall(r"\.(\w+)", declared) if word in TYPE_BYTES]
    name, extents = re.search(r"([\w$%]+)\s*((?:\[\d*\]\s*)*)$", declared.strip()).groups()
    size = TYPE_BYTES[types[-1]]
    for extent in re.findall(r"\[(\d*)\]", extents):
        size *= int(extent or 0)
    values = split_commas(initial.strip().strip("{}")) if initial else None
    return name, Variable(
        space, types[-1], size, int(align.group(1)) if align else TYPE_BYTES[types[-1]], values
    )
