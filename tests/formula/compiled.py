"""Compiles a typed formula as a C loop nest over its indices and runs it on NumPy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path

import numpy as np

from tilegen import formula as fl
from tilegen.emit.c_expr import Printed, print_statements
from tilegen.values import BF16, E4M3, E5M2, F16

WARNINGS = "-std=c11 -Wall -Wextra -Wconversion -Wshadow -Wparentheses -pedantic -Werror".split()
BITS = {F16: np.uint16, BF16: np.uint16, E4M3: np.uint8, E5M2: np.uint8}


def place(name: str, indices: tuple[str, ...]) -> str:
    """C text of an element of a contiguous array: `x[(m * n_size + n)]`."""
    offset = ""
    for index in indices:
        offset = f"({offset} * {index}_size + {index})" if offset else index
    return f"{name}[{offset or 0}]"


def source_of(typed: fl.TypedFormula) -> tuple[str, Printed]:
    """A C file with one function `run` over whole arrays, and what was printed into it."""
    formula = typed.formula
    at = {n: formula.operands[n] for n in typed.operands}
    at |= {n: s.indices for n, s in typed.specials.items()}
    kinds = typed.operands | {n: s.dtype for n, s in typed.specials.items()}
    names = {n: place(n, i) for n, i in at.items()}
    stores = {n: place(n, formula.outputs[n]) for n in typed.outputs}
    printed = print_statements(typed, "c", names, stores)
    arguments = [f"int64_t {i}_size" for i in typed.index_names]
    arguments += [f"const {kinds[n].c} *{n}" for n in at if n not in typed.outputs]
    arguments += [f"{k.c} *{n}" for n, k in typed.outputs.items()]
    arguments += [f"{k.c} {n}" for n, k in typed.scalars.items()]
    lines = [f"#include {h}" for h in sorted({*printed.includes, "<stdint.h>"})]
    lines += ["", *(f"{text}\n" for text in printed.helper_texts)]
    lines += [f"void run({', '.join(arguments)});", f"void run({', '.join(arguments)}) {{"]
    for i in typed.index_names:
        lines.append(f"for (int64_t {i} = 0; {i} < {i}_size; ++{i}) {{")
    lines += [*printed.lines, "}" * (len(typed.index_names) + 1), ""]
    return "\n".join(lines), printed


def build(source: str, folder: Path, *flags: str) -> ctypes.CDLL:
    """A shared library of the source, warnings being errors."""
    stem = hashlib.sha256((source + " ".join(flags)).encode()).hexdigest()[:16]
    path = folder / f"{stem}.c"
    library = folder / f"{stem}.so"
    if not library.exists():
        path.write_text(source)
        command = [
            "cc",
            *WARNINGS,
            "-O1",
            *flags,
            "-shared",
            "-fPIC",
            str(path),
            "-o",
            str(library),
        ]
        done = subprocess.run([*command, "-lm"], capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr}\n{source}"
    return ctypes.CDLL(str(library))


def run(
    typed: fl.TypedFormula, env: dict, sizes: dict[str, int], folder: Path, *flags: str
) -> dict[str, np.ndarray]:
    """The outputs of the compiled formula; arrays of `env` are in their storage types."""
    source, _ = source_of(typed)
    library = build(source, folder, *flags)
    outputs = {}
    arguments: list = [ctypes.c_int64(sizes[i]) for i in typed.index_names]
    keep = []

    def pointer(array: np.ndarray) -> ctypes.c_void_p:
        keep.append(array)
        return ctypes.c_void_p(array.ctypes.data)

    for name, kind in (*typed.operands.items(), *((n, s.dtype) for n, s in typed.specials.items())):
        if name not in typed.outputs:
            arguments.append(pointer(np.ascontiguousarray(env[name], dtype=kind.numpy)))
    for name, kind in typed.outputs.items():
        shape = tuple(sizes[i] for i in typed.formula.outputs[name])
        array = np.array(env[name], kind.numpy) if name in env else np.zeros(shape, kind.numpy)
        outputs[name] = array
        arguments.append(pointer(array))
    for name, kind in typed.scalars.items():
        ctype = {"float": ctypes.c_float, "double": ctypes.c_double}.get(kind.c, ctypes.c_int64)
        arguments.append(ctype(env[name]))
    library.run(*arguments)
    return outputs


def agree(got: np.ndarray, value: np.ndarray, bound: np.ndarray) -> bool:
    """Whether every element is within its bound; an element without a bound is not judged."""
    got = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.abs(got - value) <= bound) | ~np.isfinite(bound)))
