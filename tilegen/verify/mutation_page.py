"""The page of mutants: a table by template, and every survivor with the reason why it makes no difference."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tilegen.emit.render import Rendered
from tilegen.errors import UsageError
from tilegen.simulate.mutate import Score, Verdict


@dataclass(frozen=True)
class Reviewed:
    """Survivors that someone has looked at: why a change to that line makes no difference.

    Attributes:
        template: file name of the template, such as `gemm_mma.cu.j2`.
        kernels: pattern of the kernels that it holds for.
        change: what was done to the instruction; `*` for anything.
        source: parts of what names the instruction (see `source_line`), in any order, with ` ... ` between them.
        reason: why the mutant computes the same, in every order.
    """

    template: str
    change: str
    source: str
    reason: str
    kernels: str = "*"

    def covers(self, kernel: Rendered, verdict: Verdict) -> bool:
        return (
            template_of(kernel) == self.template
            and fnmatch(kernel.stem, self.kernels)
            and self.change in ("*", verdict.mutant.change)
            and all(part in verdict.source for part in self.source.split(" ... "))
        )


def read_reviewed(path: Path) -> list[Reviewed]:
    """Blocks of `template (kernels): change: part of the source line` and the indented reason below it.

    The pattern of kernels may be left out.

    Raises:
        UsageError: a line is neither.
    """
    entries: list[Reviewed] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not entries:
                raise UsageError(f"{path}:{number}: a reason without a mutant above it")
            last = entries[-1]
            entries[-1] = dataclasses.replace(last, reason=f"{last.reason} {line.strip()}".strip())
            continue
        match = re.match(r"(\S+\.j2)(?: \((\S+)\))?: ([^:]+): (.+)$", line)
        if not match:
            raise UsageError(f"{path}:{number}: not `template: change: part of the source line`")
        template, kernels, change, source = match.groups()
        entries.append(Reviewed(template, change, source, "", kernels or "*"))
    return entries


def template_of(kernel: Rendered) -> str:
    """File name of the template that the kernel fills."""
    return Path(kernel.plan.template).name


def unreviewed(kernel: Rendered, result: Score, reviewed: Sequence[Reviewed]) -> list[Verdict]:
    """Survivors that no entry of the list covers."""
    return [v for v in result.survivors if not any(r.covers(kernel, v) for r in reviewed)]


def describe(verdict: Verdict) -> str:
    """`line 63, deleted: __syncthreads();  // comment` for people."""
    return f"line {verdict.line}, {verdict.mutant.change}: {verdict.source or verdict.mutant.text}"


@dataclass(frozen=True)
class Scored:
    """A kernel and its score."""

    kernel: Rendered
    score: Score

    @property
    def template(self) -> str:
        return template_of(self.kernel)


def _table(scored: Sequence[Scored]) -> list[str]:
    """Markdown: mutants by template and by what found them."""
    kinds = sorted({v.how for s in scored for v in s.score.verdicts if v.killed})
    head = ["template", "kernels", "executed", "found", "survived", *kinds, "not executed"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for template in sorted({s.template for s in scored}):
        mine = [s.score for s in scored if s.template == template]
        counts = Counter(v.how for score in mine for v in score.verdicts)
        found = sum(counts[kind] for kind in kinds)
        row = [f"`{template}`", len(mine), found + counts["survived"], found, counts["survived"]]
        row += [counts[kind] or "" for kind in (*kinds, "not executed")]
        lines.append("| " + " | ".join(str(cell) for cell in row) + " |")
    return lines


def _survivors(scored: Sequence[Scored], reviewed: Sequence[Reviewed]) -> list[str]:
    """Survivors by template, those of one source line together, each with its reason."""
    lines = []
    for template in sorted({s.template for s in scored if s.score.survivors}):
        groups: Counter[tuple[str, str, str]] = Counter()
        for one in scored:
            for verdict in one.score.survivors if one.template == template else ():
                source = verdict.source or verdict.mutant.text
                reasons = (r.reason for r in reviewed if r.covers(one.kernel, verdict))
                groups[source, verdict.mutant.change, next(reasons, "**not reviewed**")] += 1
        lines += [f"### `{template}`", ""]
        for (source, change, reason), count in sorted(groups.items()):
            times = f", {count} times" if count > 1 else ""
            lines.append(f"- `{source}` {change}{times}. {reason}")
        lines.append("")
    return lines


def document(scored: Sequence[Scored], reviewed: Sequence[Reviewed]) -> str:
    """The page of mutants by template, as Markdown."""
    total = sum(len(s.score.executed) for s in scored)
    left = sum(len(s.score.survivors) for s in scored)
    lines = [
        "# Mutants",
        "",
        "Written by `tilegen simulate --mutate`; do not edit. Each synchronisation instruction of a kernel's PTX is",
        "deleted or weakened, one at a time, and the kernel is simulated again over cases that execute it: in the",
        "deterministic order, lazily, and in random orders. The columns say what found a mutant first: the kind of",
        "the finding, or wrong values. Instructions that no case executes are counted last.",
        "",
        f"{total} mutants executed, {total - left} found, {left} survived.",
        "",
        "Kernels: " + ", ".join(f"`{s.kernel.stem}`" for s in scored) + ".",
        "",
        *_table(scored),
        "",
        "## Survivors",
        "",
        "Each computes the same in every order, for the reason given, or shows a limit of the simulator that is named.",
        "",
        *_survivors(scored, reviewed),
    ]
    return "\n".join(lines).rstrip() + "\n"
