"""A chooser among kernels of one problem: the call goes to the first that the processor, or the GPU, can run."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen import fields
from tilegen.emit import naming, signature
from tilegen.emit.banner import add_banner
from tilegen.emit.environment import environment, sources_of
from tilegen.emit.hygiene import require_clean
from tilegen.emit.render import Style, context
from tilegen.emit.wrap import fit
from tilegen.errors import UsageError
from tilegen.plans.base import Plan, Refusal
from tilegen.plans.gemm_packed_text import features_of
from tilegen.targets import CpuTarget, CudaTarget, Target

TEMPLATES = {"c_openmp": "c_openmp/dispatch.c.j2", "cuda": "cuda/dispatch.cu.j2"}
HEADER = "common/kernel.h.j2"

# What the compiler defines on the machines that a kernel needs.
_GUARDS = {"any": "", "x86_64": "defined(__x86_64__)", "aarch64": "defined(__aarch64__)"}


@dataclass(frozen=True)
class Branch:
    """What a chooser may call: a kernel, or a chooser by size among kernels for one target.

    Attributes:
        stem: name of its files.
        symbol: its launcher.
        plan: its arguments, and the target.
        files: text by path relative to the output folder, those of all its kernels.
    """

    stem: str
    symbol: str
    plan: Plan
    files: Mapping[str, str]

    @property
    def target(self) -> Target:
        """What it is for."""
        return self.plan.target


@dataclass(frozen=True)
class Choice:
    """One branch of a chooser, as its template sees it.

    Attributes:
        stem, symbol, call_arguments, uses_workspace: as of the branch.
        runs_on: the condition on the GPU; in C a function's name.
        guard: of machines where it can be compiled.
        has: what that function asks; none where every processor will do.
        local: name of its workspace.
    """

    stem: str
    symbol: str
    call_arguments: Sequence[str]
    uses_workspace: bool
    runs_on: str
    guard: str = ""
    has: Sequence[str] = ()
    local: str = ""


@dataclass(frozen=True)
class Dispatcher:
    """An emitted chooser.

    Attributes:
        stem: name of its files; the problem's words, without schedule or target; with `by_processor` or
            `by_device` where a kernel has that name.
        symbol: name of the function that chooses.
        files: text by path relative to the output folder: the chooser's own, then every kernel's.
    """

    stem: str
    symbol: str
    files: dict[str, str]


def render_dispatch(
    branches: Sequence[Branch], style: Style = Style(), more: Sequence[str] = ()
) -> Dispatcher:
    """Emit a chooser among kernels, most preferred first, and the kernels themselves.

    Args:
        branches: kernels, or choosers by size, of one problem: all C or all CUDA.
        style: prefix and licence.
        more: words of the command that the branches do not tell, such as the table.

    Raises:
        UsageError: fewer than two, different problems or backends, or arguments that cannot be passed on.
    """
    if len(branches) < 2:
        raise UsageError(
            "a chooser needs two kernels or more",
            "Name targets, most preferred first: --target x86-64-v4 --target x86-64-v3 --target portable;\n"
            "or choose by size from a tuning table: --tuned DEVICE",
        )
    first = branches[0]
    cuda = isinstance(first.target, CudaTarget)
    for branch in branches:
        if isinstance(branch.target, CudaTarget) != cuda:
            raise UsageError(
                f"{first.target} and {branch.target} are not of one language: a chooser asks a CPU, or a GPU"
            )
        if branch.plan.problem != first.plan.problem:
            raise UsageError(f"{branch.stem} and {first.stem} compute different problems")
        if branch.plan.uses_workspace and not cuda:
            raise UsageError(f"{branch.stem} takes a workspace, whose size depends on the kernel")
        if branch.plan.packs:
            raise UsageError(f"{branch.stem} takes packed weights, whose layout is its own")
    # The arguments of all of them: a workspace where one takes it.
    base = next((b.plan for b in branches if b.plan.uses_workspace), branches[-1].plan)
    stem = "_".join(base.problem.tokens())
    if stem in {branch.stem for branch in branches}:
        # A kernel whose schedule and target are not in its name.
        stem += "_by_device" if cuda else "_by_processor"
    symbol = naming.symbol(stem, style.prefix)
    names = context(base, style) | {
        "stem": stem,
        "symbol": symbol,
        "guard": naming.guard(stem, style.prefix),
        "size_arguments": ", ".join(s.name for s in base.problem.sizes()),
        **(_of_gpus(branches) if cuda else _of_processors(branches)),
    }
    command = _command(branches, more)
    template, suffix = TEMPLATES[first.target.backend], "cu" if cuda else "c"
    sources = sources_of(environment(), [template, HEADER])
    inputs = hashlib.sha256("\0".join([command, *sorted(sources.values())]).encode()).hexdigest()
    files = {}
    for path, name in ((f"{stem}.{suffix}", template), (f"{stem}.h", HEADER)):
        path = f"{first.target.backend}/{path}"
        body = fit(environment().get_template(name).render(names))
        schedule = "the first of " + ", ".join(b.target.name for b in branches)
        title = base.problem.title()
        files[path] = add_banner(command, title, schedule, inputs[:12], body, style.license)
        require_clean(path, files[path])
    for branch in branches:
        files.update(branch.files)
    return Dispatcher(stem, symbol, files)


def _of_processors(branches: Sequence[Branch]) -> dict[str, Any]:
    """What the template in C asks before each kernel: the features that it is compiled for."""
    kernels = []
    for branch in branches:
        target = branch.target
        assert isinstance(target, CpuTarget)
        has = [f'__builtin_cpu_supports("{name}")' for name in features_of(target)]
        has = has if target.machine == "x86_64" else []
        runs_on = f"runs_{target.name.replace('-', '_')}"
        guard = _GUARDS[target.machine]
        kernels.append(_choice(branch, runs_on, guard=guard, has=has))
    refusal = Refusal(4, "", "no kernel is for this processor and takes the arguments")
    return {"family_checks": [refusal], "kernels": kernels}


def _of_gpus(branches: Sequence[Branch]) -> dict[str, Any]:
    """What the template in CUDA asks before each kernel: the device."""
    kernels = []
    for branch in branches:
        target = branch.target
        assert isinstance(target, CudaTarget)
        # Code with one architecture's own instructions, as for sm_90a, runs there alone.
        exact = target.name.endswith("a")
        runs_on = f"device {'==' if exact else '>='} {target.cc}"
        kernels.append(_choice(branch, runs_on, local=f"of_{target.name}"))
    refusal = Refusal(4, "", "no kernel is for the current device and takes the arguments")
    return {"family_checks": [refusal], "kernels": kernels}


def _choice(branch: Branch, runs_on: str, **more: Any) -> Choice:
    calls = signature.call_lines(signature.grouped(branch.plan))
    return Choice(branch.stem, branch.symbol, calls, branch.plan.uses_workspace, runs_on, **more)


def _command(branches: Sequence[Branch], more: Sequence[str]) -> str:
    """The shell command that emits the chooser: the problem's options, then the targets in order."""
    problem = branches[0].plan.problem
    head, said = problem.head()
    words = ["tilegen", "dispatch", head]
    for name, value in fields.given(problem).items():
        if name not in said:
            words += [fields.flag(name)] + ([value] if value != "true" else [])
    for branch in branches:
        words += ["--target", branch.target.name]
    return shlex.join([*words, *more])
