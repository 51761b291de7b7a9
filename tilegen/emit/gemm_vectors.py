"""The epilogue of a CUDA GEMM as C text for several neighbours in a row, which move as one vector."""

from __future__ import annotations

import re
from typing import Any

from tilegen.emit import gemm_rows
from tilegen.emit.c_expr import literal, print_statements
from tilegen.emit.wrap import wrap
from tilegen.emit.filters import comment
from tilegen.errors import FormulaError
from tilegen.formula import unread_when_zero
from tilegen.plans.base import Plan
from tilegen.problems.base import Tensor
from tilegen.problems.gemm import Gemm

# Columns of a line of a function's body.
_COLUMNS = 98

# Names that the emitted function uses for its own.
_LOCALS = ("e", "v", "first", "count")

# C type of as many bytes as a vector has.
_WORDS = {4: "unsigned", 8: "uint2", 16: "uint4"}


def context(plan: Plan, arrays: list[Tensor], places: dict[str, str], width: int) -> dict[str, Any]:
    """Template names of `cuda/parts/epilogue_vectors.cuh.j2`.

    Arrays whose last index is n move in vectors of at most 16 bytes; the others element by element.

    Args:
        plan: the plan of a CUDA GEMM.
        arrays: the epilogue's arrays.
        places: C text of an element of each, by name.
        width: elements of a vector.

    Raises:
        FormulaError: a name of the formula is taken.
    """
    problem: Gemm = plan.problem
    _require_free_names(problem)
    whole = {t.name: t for t in arrays if t.dims[-1:] == ("n",) and width * t.dtype.bytes in _WORDS}
    reads = {t.name: f"{t.name}.value[v]" if t.name in whole else places[t.name] for t in arrays}
    writes = {
        t.name: f"{_result(t)}.value[v]" if t.name in whole else places[t.name]
        for t in arrays
        if t.is_written
    }
    scalars = {s.name: f"e.{s.name}" for s in problem.scalars()}
    partials = gemm_rows.partial_stores(problem)
    printed = print_statements(
        problem.elements,
        plan.target.backend,
        {"acc": "acc.value[v]", **reads, **scalars, **{p: p for p in partials.values()}},
        writes | partials,
        width=92,
    )
    body = list(printed.lines)
    single = [t for t in arrays if t.name not in whole and "n" in t.dims]
    if single or partials:
        body = ["if (v == count) {", "  break;", "}", *body]
    if re.search(r"\bn\b", " ".join(body)):
        body = ["const int64_t n = first + v;", *body]
    inner = [i for i in problem.indices if i != "n"]
    return {
        "vector_parameters": "".join(f"int64_t {i}, " for i in inner) + "int64_t first",
        "vector_comment": comment(f"{problem.formula.text}."),
        "vector_loads": [line for t in whole.values() if t.is_read for line in _load(problem, t)],
        "vector_results": [
            f"Vector<{t.dtype.cuda}> {_result(t)};" for t in whole.values() if t.is_written
        ],
        "vector_body": body,
        "vector_stores": [
            f"store_vector<{_WORDS[width * t.dtype.bytes]}>"
            f"({_address(t)}, {_result(t)}, count, e.vectors);"
            for t in whole.values()
            if t.is_written
        ],
        "vector_conditions": [c for t in whole.values() for c in _conditions(t, width)]
        or ["false"],
    }


def _require_free_names(problem: Gemm) -> None:
    """Raise FormulaError for a name of the formula that the emitted function uses for its own."""
    typed = problem.typed
    names = {*typed.operands, *typed.scalars, *typed.outputs, *(s.name for s in typed.statements)}
    taken = sorted(names & set(_LOCALS))
    if taken:
        raise FormulaError(
            f"'{taken[0]}' names a variable of the emitted epilogue",
            f"Choose a name other than {', '.join(_LOCALS)}.",
        )


def _result(tensor: Tensor) -> str:
    """The C name of a vector of results; an in-out array's own name is the vector that was read."""
    return f"new_{tensor.name}" if tensor.is_read else tensor.name


def _address(tensor: Tensor) -> str:
    terms = [f" + {d} * e.{s}" for d, s in zip(tensor.dims, tensor.strides)]
    return f"e.{tensor.name}{''.join(terms)} + first"


def _load(problem: Gemm, tensor: Tensor) -> list[str]:
    """C lines that read a vector; where the formula ignores the array, nothing is read."""
    count = "count"
    scalar = unread_when_zero(problem.typed, tensor.name)
    if scalar:
        count = f"e.{scalar} == {literal(0.0, problem.typed.scalars[scalar])} ? 0 : count"
    target = f"const Vector<{tensor.dtype.cuda}> {tensor.name} ="
    call = f"load_vector({_address(tensor)}, {count}, e.vectors);"
    line = f"{target} {call}"
    return [line] if len(line) <= _COLUMNS else [target, *wrap("    " + call, _COLUMNS)]


def _conditions(tensor: Tensor, width: int) -> list[str]:
    """C text: every vector of the array starts on a multiple of its size."""
    size = width * tensor.dtype.bytes
    address = f"reinterpret_cast<uintptr_t>({tensor.name}) % {size} == 0"
    return [address, *(f"{stride} % {width} == 0" for stride in tensor.strides)]
