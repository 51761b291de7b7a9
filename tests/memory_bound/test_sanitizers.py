"""C kernels of formulas under sanitizers: each is called on arrays of exactly its sizes, by a team of four."""

from __future__ import annotations

import shutil
import subprocess
from math import prod
from pathlib import Path

import pytest

from tilegen.emit.render import Rendered, render
from tilegen.problems.named import NAMED
from tilegen.spec import KernelSpec
from tilegen.toolchain import build

pytestmark = pytest.mark.skipif(
    not shutil.which("gcc"), reason="the team answers calls of gcc's code"
)
TEAM = Path(__file__).with_name("team.c")
GCC = ("gcc", "-std=gnu11", "-g", "-O1", "-fopenmp", "-Wno-unknown-pragmas")
SANITIZERS = {
    "thread": ("-fsanitize=thread",),
    "memory": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}


def call(kernel: Rendered, extents: list[int]) -> str:
    """A block of C that calls the kernel on arrays of its own."""
    problem = kernel.plan.problem
    sizes = dict(zip([s.name for s in problem.sizes()], extents, strict=True))
    lines, arguments = [], [str(extent) for extent in sizes.values()]
    for t in problem.tensors():
        shape = [int(sizes.get(d, d)) for d in t.dims]
        kind, count = t.dtype.c, max(1, prod(shape))
        lines.append(f"{kind} *{t.name} = malloc({count} * sizeof *{t.name});")
        lines.append(f"for (int i = 0; i < {count}; ++i) {t.name}[i] = ({kind})(i % 7);")
        arguments.append(t.name)
        arguments += [str(prod(shape[at + 1 :])) for at in range(len(t.strides))]
    arguments += ["1"] * len(problem.scalars()) + ["4"]
    freed = [f"free({t.name});" for t in problem.tensors()]
    lines += [f"if ({kernel.symbol}({', '.join(arguments)}) != 0) return 1;", *freed]
    return "  {\n    " + "\n    ".join(lines) + "\n  }\n"


def run(names, sanitizer, folder):
    """Build kernels and a program that calls each, and run it."""
    kernels = [
        render(KernelSpec.make(name, "portable", {"dtype": "f32", "serial": "1", **options}))
        for name, options in names
    ]
    sources = [build.lay_out(kernel, folder) for kernel in kernels]
    text = "".join(f'#include "{source.with_suffix(".h").name}"\n' for source in sources)
    text += "#include <stdlib.h>\n\nint main(void) {\n"
    for kernel in kernels:
        order = kernel.plan.problem.family.order
        for first, last in ((5, 83), (1, 1), (1, 700)):
            text += call(kernel, [first, *[3] * (len(order) - 2), last][-len(order) :])
    (folder / "main.c").write_text(text + "  return 0;\n}\n")
    flags = [*GCC, *SANITIZERS[sanitizer]]
    objects = []
    for source in [*sources, TEAM, folder / "main.c"]:
        objects.append(folder / f"{source.stem}.o")
        command = [*flags, "-I", str(folder), "-c", str(source), "-o", str(objects[-1])]
        made = subprocess.run(command, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
    link = ["gcc", *SANITIZERS[sanitizer], *map(str, objects), "-o", "program", "-lm", "-pthread"]
    made = subprocess.run(link, cwd=folder, capture_output=True, text=True)
    if "cannot find -l" in made.stderr:
        pytest.skip(made.stderr.strip().splitlines()[-1])
    assert made.returncode == 0, made.stderr
    ran = subprocess.run(["./program"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr[:3000]


SOME = [("softmax", {"row_buffer": "64"}), ("total", {})]


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_threads_that_combine_results(sanitizer, tmp_path):
    run(SOME, sanitizer, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_named_formulas(sanitizer, tmp_path):
    run([(name, {}) for name in NAMED], sanitizer, tmp_path)
