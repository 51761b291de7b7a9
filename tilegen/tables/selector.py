"""A chooser among kernels by size, made from a table: readable comparisons in C or CUDA, and what they lose."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegen import fields
from tilegen.emit import naming, signature
from tilegen.emit.banner import add_banner
from tilegen.emit.environment import environment, sources_of
from tilegen.emit.filters import comment
from tilegen.emit.hygiene import require_clean
from tilegen.emit.render import Rendered, Style, context, render
from tilegen.emit.wrap import fit
from tilegen.errors import UsageError
from tilegen.model import choose
from tilegen.plans.base import Plan
from tilegen.problems.base import Problem
from tilegen.tables import cover, files, lookup, tree, words
from tilegen.tables.rows import Row
from tilegen.tables.tree import Leaf, Tree
from tilegen.targets import Target

HEADER = "common/kernel.h.j2"
TEMPLATES = {"c_openmp": "c_openmp/select.c.j2", "cuda": "cuda/select.cu.j2"}


class NoRow(UsageError):
    """A table has nothing to choose from for a problem on a target."""


@dataclass(frozen=True)
class Wanted:
    """What a chooser is made for.

    Attributes:
        problem, where: what is computed, and the target of every kernel.
        device: whose table.
        threads: rows of this many CPU threads; 0 on a GPU.
        most: kernels at most.
        within: loss that is small enough to stop adding kernels; 0.03 is 3 %.
    """

    problem: Problem
    where: Target
    device: str
    threads: int = 1
    most: int = 6
    within: float = 0.03


@dataclass(frozen=True)
class Arm:
    """One kernel of a chooser, as its template sees it."""

    stem: str
    symbol: str
    constant: str
    local: str
    uses_workspace: bool
    call_arguments: list[str]


@dataclass(frozen=True)
class Selector:
    """An emitted chooser.

    Attributes:
        stem: name of its files.
        symbol: its function.
        plan: its arguments, and the target of its kernels.
        tree: the comparisons.
        rows: the measured sizes.
        files: text by path relative to the output folder: the chooser's own, then every kernel's.
        notes: stale rows and broken parts of the table.
        kernels: how many it chooses among.
        within: the loss that was asked for.
    """

    stem: str
    symbol: str
    plan: Plan
    tree: Tree
    rows: tuple[Row, ...]
    files: dict[str, str]
    notes: tuple[str, ...]
    kernels: int
    within: float

    def losses(self) -> str:
        """What is lost, in one line."""
        kernels, worst = self.kernels, tree.worst(self.tree)
        text = (
            f"{kernels} kernel{'s cover' if kernels > 1 else ' covers'} {len(self.rows)} measured "
            f"size{'s' * (len(self.rows) > 1)} within "
            f"{worst:.1%} of the best kernel at each"
        )
        if worst > self.within:
            lost = [tree.loss(x.schedule, row) for x in tree.leaves(self.tree) for row in x.rows]
            inside = sum(x <= self.within for x in lost)
            text += f", {inside} of them within {self.within:.1%}"
        return text


def make(wanted: Wanted, folder: Path, style: Style = Style()) -> Selector:
    """Read a device's table, choose few kernels and emit them with their chooser.

    Raises:
        NoRow: the table has no fresh rows for the problem.
        UsageError: there is no such device.
    """
    files.require_device(folder, wanted.device)
    path = files.table_path(folder, wanted.device, wanted.problem.operator)
    table = files.read(path)
    known = lookup.sort_rows(table, wanted.problem, wanted.where)
    notes = (*table.faults, *known.told(wanted.where))
    rows = [r for r in known.fresh if r.threads == wanted.threads]
    rows = lookup.current(rows, wanted.problem, wanted.where)
    if not rows:
        said = "\n".join(notes) or f"Tune it: tilegen tune SUITE --target {wanted.where}"
        threads = f" with {wanted.threads} thread{'s' * (wanted.threads > 1)}" * bool(
            wanted.threads
        )
        raise NoRow(
            f"{path} has no fresh row for {words.problem_text(wanted.problem)} on {wanted.where}{threads}",
            said,
        )
    chosen = cover.gentlest(rows, wanted.most, wanted.within).schedules
    specs = [words.kernel_spec(table.operator, wanted.where, rows[0].problem, s) for s in chosen]
    kernels = {s: render(spec, style) for s, spec in zip(chosen, specs, strict=True)}
    fallback = _most_permissive(rows, kernels)
    rows = [_answered(row, kernels, fallback) for row in rows]
    grown = tree.grow(rows, chosen)
    used = dict.fromkeys(leaf.schedule for leaf in tree.leaves(grown)) | {fallback: None}
    kernels = {s: kernels[s] for s in used}
    return _emit(wanted, grown, kernels, fallback, tuple(rows), notes, style)


def _answered(row: Row, kernels: Mapping[str, Rendered], fallback: str) -> Row:
    """A row as a chooser answers its size: where a kernel does not take the arrays, the fallback does."""
    speedups = dict(row.speedups)
    for schedule, kernel in kernels.items():
        spec = kernel.spec
        if not choose.takes(spec.schedule, spec.problem, spec.target, row.sizes):
            speedups[schedule] = speedups.get(fallback, 0.0)
    return dataclasses.replace(row, speedups=speedups)


def _emit(
    wanted: Wanted,
    grown: Tree,
    kernels: dict[str, Rendered],
    fallback: str,
    rows: tuple[Row, ...],
    notes: tuple[str, ...],
    style: Style,
) -> Selector:
    plans = [k.plan for k in kernels.values()]
    base = next((p for p in plans if p.uses_workspace), plans[0])
    target_word = wanted.where.name.replace("_", "").replace("-", "_")
    stem = "_".join([*wanted.problem.tokens(), "by_size", target_word])
    symbol = naming.symbol(stem, style.prefix)
    arms = {s: _arm(k) for s, k in kernels.items()}
    sizes = [s.name for s in wanted.problem.sizes()]
    cuda = wanted.where.backend == "cuda"
    decisions = _decisions(grown, {s: a.constant for s, a in arms.items()}, "Choice::" * cuda)
    compared = _compared(grown)
    found = Selector(stem, symbol, base, grown, rows, {}, notes, len(kernels), wanted.within)
    names = context(base, style) | {
        "stem": stem,
        "symbol": symbol,
        "guard": naming.guard(stem, style.prefix),
        "kernels": list(arms.values()),
        "fallback": arms[fallback],
        "choose_parameters": ", ".join(f"int64_t {s}" for s in sizes),
        "choose_arguments": ", ".join(sizes),
        "unused_sizes": [s for s in sizes if s not in compared],
        "decisions": decisions,
        "account": f"Made from what was measured on {wanted.device}: {found.losses()}. Sizes between the "
        "measured ones go the way of their neighbours.",
    }
    command = _command(wanted)
    template = TEMPLATES[wanted.where.backend]
    sources = sources_of(environment(), [template, HEADER])
    facts = [command, *decisions, *sorted(sources.values())]
    inputs = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:12]
    suffix = "cu" if cuda else "c"
    for path, name in ((f"{stem}.{suffix}", template), (f"{stem}.h", HEADER)):
        body = fit(environment().get_template(name).render(names))
        path = f"{wanted.where.backend}/{path}"
        title, schedule = wanted.problem.title(), f"one of {len(arms)} kernels, by size"
        found.files[path] = add_banner(command, title, schedule, inputs, body, style.license)
        require_clean(path, found.files[path])
    for kernel in kernels.values():
        found.files.update(kernel.files)
    return found


def _arm(kernel: Rendered) -> Arm:
    tokens = [type(kernel.spec.schedule).name, *kernel.spec.schedule.tokens()]
    # A schedule whose stem says its name already.
    tokens = tokens[1:] if tokens[1:2] == tokens[:1] else tokens
    word = "".join(t[:1].upper() + t[1:] for token in tokens for t in token.split("_"))
    calls = signature.call_lines(signature.grouped(kernel.plan))
    plan: Plan = kernel.plan
    return Arm(
        kernel.stem, kernel.symbol, f"k{word}", f"of_{word.lower()}", plan.uses_workspace, calls
    )


def _most_permissive(rows: Sequence[Row], kernels: Mapping[str, Rendered]) -> str:
    """The kernel that refuses least; of equals the best one of most measured sizes."""
    wins = [row.schedule for row in rows]
    return min(kernels, key=lambda s: (len(kernels[s].plan.refusals), -wins.count(s)))


def _compared(grown: Tree) -> set[str]:
    if isinstance(grown, Leaf):
        return set()
    return {grown.size} | _compared(grown.low) | _compared(grown.high)


def _decisions(grown: Tree, constants: dict[str, str], scope: str, depth: int = 1) -> list[str]:
    """The comparisons as lines of C."""
    pad = "  " * depth
    if isinstance(grown, Leaf):
        return [*_remark(grown, pad), f"{pad}return {scope}{constants[grown.schedule]};"]
    return [
        f"{pad}if ({grown.size} <= {grown.limit}) {{",
        *_decisions(grown.low, constants, scope, depth + 1),
        f"{pad}}}",
        *_decisions(grown.high, constants, scope, depth),
    ]


def _remark(leaf: Leaf, pad: str) -> list[str]:
    """Where a choice was measured, and what it loses there at most."""
    measured = ["x".join(str(v) for v in row.sizes.values()) for row in leaf.rows]
    shown = ", ".join(measured[:3]) + (f" and {len(measured) - 3} more" if measured[3:] else "")
    lost = [lookup.loss(leaf.schedule, row) for row in leaf.rows]
    known = [x for x in lost if math.isfinite(x)]
    most = max(known, default=0.0)
    verdict = f"at most {most:.1%} slower than the best kernel" if most else "the best kernel"
    text = f"Measured at {shown}: {verdict} of the table"
    text += f", not timed at {len(lost) - len(known)} of them." if len(known) < len(lost) else "."
    if not known:
        text = f"For {shown}, where this kernel was not timed."
    return comment(text, f"{pad}// ").splitlines()


def _command(wanted: Wanted) -> str:
    head, said = wanted.problem.head()
    line = ["tilegen", "dispatch", head, "--target", wanted.where.name, "--tuned", wanted.device]
    for name, value in fields.given(wanted.problem).items():
        if name not in said:
            line += [fields.flag(name)] + ([value] if value != "true" else [])
    return shlex.join([*line, *_limits(wanted)])


def _limits(wanted: Wanted) -> list[str]:
    """The flags of what is not as usual."""
    line = []
    for name, value, usual in (
        ("threads", wanted.threads, 0 if wanted.where.backend == "cuda" else 1),
        ("most", wanted.most, Wanted.most),
        ("within", wanted.within, Wanted.within),
    ):
        if value != usual:
            line += [fields.flag(name), f"{value:g}"]
    return line


def flags(wanted: Wanted) -> list[str]:
    """What a command that asks for this chooser says of it, besides problem and target."""
    return ["--tuned", wanted.device, *_limits(wanted)]


def schedules(selector: Selector) -> Sequence[str]:
    """The chosen schedules' words, in the order of the comparisons."""
    return list(dict.fromkeys(leaf.schedule for leaf in tree.leaves(selector.tree)))
