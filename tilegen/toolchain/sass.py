"""Reads machine code: loops that feed the tensor cores must not wait for memory at large."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tilegen.errors import ToolMissing
from tilegen.toolchain import find

# What multiplies on warpgroup tensor cores, and what feeds them.
_WORK = re.compile(r"[HIQ]GMMA|UTMALDG")
# What drains all memory traffic of a thread, as a qualified arrive at a remote mbarrier does in every step.
_FENCE = re.compile(r"MEMBAR\.(?:\w+\.)*(?:GPU|SYS)|(?<!\w)ERRBAR")

_FUNCTION = re.compile(r"^\s*Function : (\S+)")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_BRANCH = re.compile(r"\bBRA(?:\.\w+)*\s(?:.*\s)?`?\(?(?:\.L_)?0x([0-9a-f]+)")


@dataclass(frozen=True)
class FencedLoop:
    """A loop of a kernel that multiplies or loads, and drains memory in every round.

    Attributes:
        function: the kernel.
        first, last: addresses of the loop's code.
        fence: the instruction, with its address.
    """

    function: str
    first: int
    last: int
    fence: str


def find_cuobjdump() -> find.Tool:
    """cuobjdump from `$TILEGEN_CUOBJDUMP`, beside nvcc, or from PATH.

    Raises:
        ToolMissing: none of them is there.
    """
    places = [os.environ.get("TILEGEN_CUOBJDUMP", "")]
    places += [str(Path(path).resolve().parent / "cuobjdump") for _, path in find.nvcc_places()]
    places.append(shutil.which("cuobjdump") or "")
    for place in places:
        if place and os.access(place, os.X_OK):
            return find.Tool(place, "disassembles kernels")
    raise ToolMissing(
        "no cuobjdump",
        "Without it loops are not searched for memory fences. It comes with the CUDA toolkit, and as the wheel "
        "nvidia-cuda-cuobjdump; $TILEGEN_CUOBJDUMP names it.",
    )


def disassemble(path: Path) -> str:
    """The machine code of a cubin or library as text.

    Raises:
        ToolMissing: no cuobjdump, or it does not read the file.
    """
    tool = find_cuobjdump()
    ran = subprocess.run([tool.path, "-sass", str(path)], capture_output=True, text=True)
    if ran.returncode:
        raise ToolMissing(f"{tool.path} does not read {path}", (ran.stderr + ran.stdout)[:400])
    return ran.stdout


def fenced_loops(text: str) -> list[FencedLoop]:
    """The innermost loops that multiply or load and hold a fence, in disassembled text."""
    found: list[FencedLoop] = []
    function, code = "", {}
    for line in [*text.splitlines(), "Function : end"]:
        if begins := _FUNCTION.match(line):
            found += _of_function(function, code)
            function, code = begins.group(1), {}
        elif instruction := _INSTRUCTION.match(line):
            code[int(instruction.group(1), 16)] = instruction.group(2)
    return found


def _of_function(function: str, code: dict[int, str]) -> list[FencedLoop]:
    loops = []
    for address, words in code.items():
        branch = _BRANCH.search(words)
        if branch and (target := int(branch.group(1), 16)) < address:
            inside = [words for at, words in code.items() if target <= at <= address]
            if any(_WORK.search(words) for words in inside):
                loops.append((target, address))
    found = []
    for first, last in loops:
        if any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            continue
        for at in code:
            if first <= at <= last and _FENCE.search(code[at]):
                found.append(FencedLoop(function, first, last, f"/*{at:04x}*/ {code[at]}"))
                break
    return found
