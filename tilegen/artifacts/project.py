"""The project around a kernel: its style, entries added to its list, files that nothing makes any more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilegen.artifacts import kernel_list
from tilegen.emit.banner import MARK
from tilegen.emit.render import Style
from tilegen.errors import UsageError
from tilegen.spec import KernelSpec


def style() -> Style:
    """The style of the project that the working directory belongs to; the default outside of one."""
    try:
        return kernel_list.read(kernel_list.find()).style
    except UsageError:
        return Style()


def entry(spec: KernelSpec) -> str:
    """A kernel as text of `tilegen.toml`."""
    lines = ["[[kernel]]", f'operator = "{spec.problem.operator}"', f'target = "{spec.target}"']
    for name, text in spec.options().items():
        bare = text in ("true", "false") or text.lstrip("-").isdigit()
        if not bare:
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            text = f'"{escaped}"'
        lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"


def append(path: Path, specs: Sequence[KernelSpec]) -> None:
    """Append kernels to a list, leaving what is there untouched; those already listed are skipped."""
    present = {s.command() for s in kernel_list.read(path).specs}
    new = [entry(s) for s in specs if s.command() not in present]
    if new:
        text = path.read_text(encoding="utf-8").rstrip("\n") + "\n"
        path.write_text(text + "".join(f"\n{e}" for e in new), encoding="utf-8", newline="\n")


def orphans(out: Path, wanted: set[str]) -> set[str]:
    """Relative paths below `out` that carry our banner and are not wanted."""
    found = set()
    if not out.is_dir():
        return found
    for place in out.rglob("*"):
        relative = place.relative_to(out).as_posix()
        if place.is_file() and relative not in wanted:
            if MARK in place.read_text(encoding="utf-8", errors="replace")[:4096]:
                found.add(relative)
    return found
