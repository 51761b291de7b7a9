"""The process behind one CPU competitor: reads requests on standard input, answers on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.bench.cpu import time_calls
from tilegen.bench.peers import cpu_peer
from tilegen.errors import TilegenError
from tilegen.spec import KernelSpec


def _prepare(name: str, threads: int, request: dict[str, Any]) -> Callable[[], Any]:
    spec = KernelSpec.make(request["operator"], request["target"], request["options"])
    problem, sizes = spec.problem, request["sizes"]
    rng = np.random.default_rng(0)
    arrays = problem.draw(sizes, rng)
    for tensor in problem.tensors():
        if tensor.name not in arrays:
            shape = [sizes[d] for d in tensor.dims]
            arrays[tensor.name] = np.zeros(shape, tensor.dtype.numpy)
    return cpu_peer(name).prepare(spec, sizes, arrays, problem.draw_scalars(rng), threads)


def main() -> None:
    """Serve `prepare JSON` and `time` until the input ends."""
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    call: Callable[[], Any] | None = None
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "prepare":
                call = _prepare(name, threads, json.loads(rest))
                call()
                answer = "ok"
            else:
                answer = f"ok {time_calls(call)!r}"
        except (TilegenError, ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
            answer = f"no {type(error).__name__}: {str(error).splitlines()[0]}"
        answers.write(answer + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
