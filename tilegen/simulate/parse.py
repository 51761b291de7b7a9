"""PTX modules: variables, entries and their parameters; bodies are read by body.py.

Nothing is interpreted here; an instruction keeps its whole opcode string, and the lowering decides whether it
knows it.
"""

from __future__ import annotations

import functools
import re

from tilegen.simulate.body import Body, parse_variable, split_commas
from tilegen.simulate.launch import SimulationError
from tilegen.simulate.ptx import Kernel, Module

_DIRECTIVE = re.compile(
    r"\.(maxntid|reqntid|minnctapersm|maxnreg|reqnctapercluster|maxclusterrank|explicitcluster|blocksareclusters)"
    r"((?:\s+\d+\s*(?:,\s*\d+\s*)*)?)"
)
_TOP = re.compile(
    r"\s*(?:\.(version|target|address_size|file)\b([^\n]*)"
    r"|((?:\.(?:visible|weak|extern|common)\s+)*)\.(entry|func)\b"
    r"|\.section\s+[^{]*\{[^}]*\}|(\.[^;]*);)"
)
_HEADER = re.compile(r"\s*(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)([{;])")
_BRACE = re.compile(r"[{}]")


def _skip(text: str, position: int) -> int:
    """The position after the brace that closes the one before `position`."""
    depth = 1
    for match in _BRACE.finditer(text, position):
        depth += 1 if match.group() == "{" else -1
        if not depth:
            return match.end()
    raise SimulationError("PTX: a body is not closed")


def _entry(text: str, position: int) -> tuple[Kernel, int, bool]:
    """Read an entry's or a function's header: the kernel, the position after it, and whether a body follows."""
    match = _HEADER.match(text, position)
    kernel = Kernel(match.group(1))
    offset = 0
    for declaration in split_commas(match.group(2) or ""):
        if declaration:
            name, variable = parse_variable(declaration)
            offset = -(-offset // variable.align) * variable.align
            kernel.params[name] = (offset, variable.size)
            offset += variable.size
    kernel.param_bytes = offset
    for name, numbers in _DIRECTIVE.findall(match.group(3)):
        kernel.directives[name] = tuple(int(x) for x in re.findall(r"\d+", numbers))
    return kernel, match.end(), match.group(4) == "{"


@functools.lru_cache(maxsize=16)
def _outline(text: str) -> tuple[str, Module, tuple[tuple[Kernel, int], ...]]:
    """The text without comments, the module without bodies, and where the bodies of its entries begin."""
    if "/*" in text:
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text).rstrip(" \t\n\0")
    module, entries, position = Module(), [], 0
    while position < len(text):
        match = _TOP.match(text, position)
        if not match:
            raise SimulationError(f"PTX: cannot read near {text[position:position + 60].strip()!r}")
        position = match.end()
        keyword, rest, _, function, declaration = match.groups()
        if keyword == "target":
            module.target = rest.split(",")[0].strip()
        elif function:
            kernel, position, has_body = _entry(text, position)
            if has_body:
                entries += [(kernel, position)] if function == "entry" else []
                position = _skip(text, position)
        elif declaration and not declaration.startswith(".alias"):
            name, variable = parse_variable(declaration)
            module.variables[name] = variable
    return text, module, tuple(entries)


def parse(text: str, kernel: str = "") -> Module:
    """Read a PTX module; of the bodies, those of entries whose name holds `kernel`.

    Raises SimulationError where the text is not PTX.
    """
    clean, outline, entries = _outline(text)
    module = Module(outline.target, variables=dict(outline.variables))
    for header, position in entries:
        entry = Kernel(header.name, header.params, header.param_bytes, directives=header.directives)
        module.kernels[entry.name] = entry
        if kernel in entry.name:
            Body(entry).read(clean, position)
    return module
