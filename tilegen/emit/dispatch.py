"""A chooser among kernels of one problem in C: the call goes to the first that the processor can run."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tilegen import fields
from tilegen.emit import naming, signature
from tilegen.emit.banner import add_banner
from tilegen.emit.environment import environment, sources_of
from tilegen.emit.hygiene import require_clean
from tilegen.emit.render import Rendered, Style, context
from tilegen.emit.wrap import fit
from tilegen.errors import UsageError
from tilegen.targets import CpuTarget

TEMPLATE = "c_openmp/dispatch.c.j2"
HEADER = "common/kernel.h.j2"

# What the compiler defines on the machines that a kernel needs.
_GUARDS = {"any": "", "x86_64": "defined(__x86_64__)", "aarch64": "defined(__aarch64__)"}


@dataclass(frozen=True)
class Choice:
    """One kernel of a chooser, as its template sees it."""

    stem: str
    symbol: str
    guard: str


@dataclass(frozen=True)
class Dispatcher:
    """An emitted chooser.

    Attributes:
        stem: name of its files; the problem's words, without schedule or target.
        symbol: name of the function that chooses.
        files: text by path relative to the output folder: the chooser's own, then every kernel's.
    """

    stem: str
    symbol: str
    files: dict[str, str]


def render_dispatch(kernels: Sequence[Rendered], style: Style = Style()) -> Dispatcher:
    """Emit a chooser among kernels, most preferred first, and the kernels themselves.

    Raises:
        UsageError: fewer than two kernels, kernels of different problems, or one that is not C.
    """
    if len(kernels) < 2:
        raise UsageError(
            "a chooser needs two kernels or more",
            "Name targets, most preferred first: --target x86-64-v4 --target x86-64-v3 --target portable;\n"
            "or choose by size from a tuning table: --tuned DEVICE",
        )
    for kernel in kernels:
        if not isinstance(kernel.spec.target, CpuTarget):
            raise UsageError(
                f"{kernel.stem} is not C: a chooser asks the CPU, not a GPU ({kernel.spec.target})"
            )
        if kernel.plan.problem != kernels[0].plan.problem:
            raise UsageError(f"{kernel.stem} and {kernels[0].stem} compute different problems")
        if kernel.plan.uses_workspace:
            raise UsageError(f"{kernel.stem} takes a workspace, whose size depends on the kernel")
        if kernel.plan.packs:
            raise UsageError(f"{kernel.stem} takes packed weights, whose layout is its own")
    last = kernels[-1]
    stem = "_".join(last.plan.problem.tokens())
    symbol = naming.symbol(stem, style.prefix)
    groups = signature.grouped(last.plan)
    names = context(last.plan, style) | {
        "stem": stem,
        "symbol": symbol,
        "guard": naming.guard(stem, style.prefix),
        "refusals": ["4  no kernel's instructions are all there"],
        "call_arguments": signature.call_lines(groups),
        "kernels": [Choice(k.stem, k.symbol, _GUARDS[k.spec.target.machine]) for k in kernels],
    }
    command = _command(kernels)
    sources = sources_of(environment(), [TEMPLATE, HEADER])
    inputs = hashlib.sha256("\0".join([command, *sorted(sources.values())]).encode()).hexdigest()
    files = {}
    for path, template in ((f"c_openmp/{stem}.c", TEMPLATE), (f"c_openmp/{stem}.h", HEADER)):
        body = fit(environment().get_template(template).render(names))
        schedule = "the first of " + ", ".join(k.spec.target.name for k in kernels)
        title = last.plan.problem.title()
        files[path] = add_banner(command, title, schedule, inputs[:12], body, style.license)
        require_clean(path, files[path])
    for kernel in kernels:
        files.update(kernel.files)
    return Dispatcher(stem, symbol, files)


def _command(kernels: Sequence[Rendered]) -> str:
    """The shell command that emits the chooser: the problem's options, then the targets in order."""
    problem = kernels[0].plan.problem
    words = ["tilegen", "dispatch", problem.operator]
    known = fields.options(type(problem))
    for name, value in kernels[0].spec.options().items():
        if name in known:
            words += [fields.flag(name), value]
    for kernel in kernels:
        words += ["--target", kernel.spec.target.name]
    return shlex.join(words)
