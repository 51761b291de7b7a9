"""Mutants of a kernel: each synchronisation instruction of its PTX deleted or weakened, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.simulate.launch import SimulationError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STATEMENT = re.compile(
    r"\s*(?:\.loc\s[^\n]*|[\w$]+\s*:(?!:)|[{}]|([^;{}]*(?:\{[^}]*\}[^;{}]*)*);)"
)
_GUARDED = re.compile(r"(@!?\s*[\w$%]+\s+)?(.*)$", re.S)
_SYNCHRONISES = re.compile(
    r"(bar|barrier|fence|membar|mbarrier|wgmma\.(fence|commit_group|wait_group)"
    r"|cp\.async\.(commit_group|wait_group|wait_all|mbarrier|bulk\.commit_group|bulk\.wait_group)"
    r"|(ld|st|atom|red)\.(acquire|release|acq_rel))\b"
)


@dataclass(frozen=True)
class Mutant:
    """One change to one instruction.

    Attributes:
        instruction: its index among the kernel's instructions, as in `Outcome.counters`.
        text: the instruction as it was, in one line.
        change: what was done, in a few words.
        ptx: the whole module with the change.
    """

    instruction: int
    text: str
    change: str
    ptx: str


def _body(ptx: str, kernel: str) -> tuple[int, int]:
    """Where the statements of an entry start and end in (comment-free) text."""
    found = [m for m in re.finditer(r"\.entry\s+([\w$]+)", ptx) if kernel in m.group(1)]
    exact = [m for m in found if m.group(1) == kernel] or found
    if len(exact) != 1:
        raise SimulationError(f"'{kernel}' names {len(exact)} kernels of the module")
    start = ptx.index("{", ptx.index(")", exact[0].end())) + 1
    depth, position = 1, start
    for brace in re.finditer(r"[{}]", ptx[start:]):
        depth += 1 if brace.group() == "{" else -1
        position = start + brace.start()
        if depth == 0:
            break
    return start, position


def instructions(ptx: str, kernel: str) -> Iterator[tuple[int, int, int, str]]:
    """(index, start, end, text) of each instruction of an entry; offsets are those of `ptx`."""
    blank = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), ptx)
    position, end = _body(blank, kernel)
    index = 0
    while position < end:
        match = _STATEMENT.match(blank, position, end)
        if not match:
            if blank[position:end].strip():
                raise SimulationError(f"PTX: cannot read near {blank[position:position + 60]!r}")
            return
        position = match.end()
        statement = match.group(1)
        if statement is None or not statement.strip() or statement.strip().startswith("."):
            continue
        yield index, match.start(1), match.end(1), " ".join(statement.split())
        index += 1


def _changes(body: str) -> Iterator[tuple[str, str]]:
    """(what was done, the new instruction or an empty string) for an instruction without its guard."""
    opcode, _, rest = body.partition(" ")
    words = opcode.split(".")
    if re.match(r"(ld|st|atom|red)\.", opcode):
        yield "made relaxed", re.sub(
            r"\.(acquire|release|acq_rel)\b", ".relaxed", opcode, 1
        ) + f" {rest}"
        return
    if "wait_group" in words:
        depth = int(rest)
        yield f"waits for all but {depth + 1}", f"{opcode} {depth + 1}"
        if words[1:3] == ["async", "bulk"] and "read" not in words:
            yield "waits for the reads alone", f"{opcode}.read {rest}"
        yield "deleted", ""
        return
    if words[0] in ("bar", "barrier") and "sync" in words and "," in rest:
        yield "arrives without waiting", f"{opcode.replace('sync', 'arrive')} {rest}"
    if words[0] == "mbarrier":
        yield from _mbarrier_changes(words[1], words, opcode, rest)
        return
    yield "deleted", ""


def _adjusted(opcode: str, operands: list[str], place: int, change: str, amount: int) -> str:
    """The instruction with one 32-bit operand changed: an immediate at once, a register in a scope of its own."""
    operand = operands[place]
    if operand.isdigit():
        value = int(operand)
        value = {"add": value + amount, "shr": value >> amount, "xor": value ^ amount}[change]
        return f"{opcode} {', '.join([*operands[:place], str(value), *operands[place + 1 :]])}"
    kind = "b32" if change == "xor" else "u32"
    changed = f"{opcode} {', '.join([*operands[:place], 'changed', *operands[place + 1 :]])}"
    return f"{{ .reg .b32 changed; {change}.{kind} changed, {operand}, {amount}; $ {changed}; }}"


def _mbarrier_changes(
    name: str, words: list[str], opcode: str, rest: str
) -> Iterator[tuple[str, str]]:
    operands = [part.strip() for part in re.split(r",(?![^\[]*\])", rest)]
    if name in ("try_wait", "test_wait"):
        yield "passes at once", f"setp.eq.u32 {operands[0]}, 0, 0"
        if "parity" in words:
            yield "waits for the other parity", _adjusted(opcode, operands, 2, "xor", 1)
    elif name == "init":
        yield "expects one arrival more", _adjusted(opcode, operands, 1, "add", 1)
        if operands[1] != "1":
            yield "expects one arrival less", _adjusted(opcode, operands, 1, "add", -1)
    elif name in ("arrive", "arrive_drop", "expect_tx"):
        if "expect_tx" in words:
            last = len(operands) - 1
            yield "expects half the bytes", _adjusted(opcode, operands, last, "shr", 1)
            yield "expects 16 bytes more", _adjusted(opcode, operands, last, "add", 16)
        keeps_state = name != "expect_tx" and operands[0] != "_"
        yield "deleted", f"mov.b64 {operands[0]}, 0" if keeps_state else ""


def guarded(guard: str, replacement: str) -> str:
    """The replacement under the guard of what it replaces; `$` marks the guard's place inside a scope."""
    if replacement.startswith("{"):
        return replacement.replace("$ ", guard, 1)
    return guard + replacement if replacement else ""


def mutants(ptx: str, kernel: str) -> list[Mutant]:
    """Every mutant of an entry, in the order of its instructions.

    Raises:
        SimulationError: no such entry.
    """
    result = []
    for index, start, end, text in instructions(ptx, kernel):
        guard, body = _GUARDED.match(text).groups()
        if not _SYNCHRONISES.match(body):
            continue
        for change, replacement in _changes(body):
            # What is deleted leaves its semicolon: an empty statement.
            new = guarded(guard or "", replacement)
            result.append(Mutant(index, text, change, ptx[:start] + new + ptx[end:]))
    return result
