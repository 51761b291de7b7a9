"""What the recorder must know of each kernel, read from the head of its PTX entry."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
_VARIABLE = re.compile(
    r"\.(shared|param)\s+(?:\.align\s+(\d+)\s+)?\.[busf](\d+)\s+([\w$]+)((?:\[\d*\])*)"
)


@dataclass(frozen=True)
class Entry:
    """Sizes in bytes; counts of threads; 0 or zeros where the PTX does not say."""

    name: str
    parameters: tuple[int, ...]
    static_shared: int
    max_threads: int
    required_threads: int
    cluster: tuple[int, int, int]


def _size(bits: str, dims: str) -> int:
    size = _BYTES[bits]
    for extent in re.findall(r"\[(\d+)\]", dims):
        size *= int(extent)
    return 0 if "[]" in dims else size


def _product(directives: str, name: str) -> int:
    found = re.search(rf"\.{name}\s+([\d,\s]+)", directives)
    result = 1
    for factor in found.group(1).split(",") if found else "0":
        result *= int(factor)
    return result


def _packed(variables: list[tuple[int, int]]) -> int:
    """Bytes of (size, alignment) pairs laid out one after another."""
    end = 0
    for size, alignment in variables:
        end = -(-end // alignment) * alignment + size
    return end


def entries(ptx: str) -> list[Entry]:
    """Every kernel of a module. Shared variables of the module count for the kernels that name them."""
    shared = {
        name: (_size(bits, dims), int(align or _BYTES[bits]))
        for space, align, bits, name, dims in _VARIABLE.findall(ptx)
        if space == "shared"
    }
    found = list(_ENTRY.finditer(ptx))
    result = []
    for index, match in enumerate(found):
        name, parameters, directives = match.groups()
        end = found[index + 1].start() if index + 1 < len(found) else len(ptx)
        body = ptx[match.end() : end]
        words = set(re.findall(r"[\w$]+", body))
        cluster = re.search(r"\.reqnctapercluster\s+([\d,\s]+)", directives)
        shape = [int(x) for x in cluster.group(1).split(",")] if cluster else []
        result.append(
            Entry(
                name,
                tuple(
                    _size(bits, dims) for _, _, bits, _, dims in _VARIABLE.findall(parameters or "")
                ),
                _packed([entry for variable, entry in shared.items() if variable in words]),
                _product(directives, "maxntid"),
                _product(directives, "reqntid"),
                tuple(shape + [1] * (3 - len(shape))) if shape else (0, 0, 0),
            )
        )
    return result
