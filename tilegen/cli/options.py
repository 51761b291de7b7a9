"""Options that several commands share: which kernel, with which fields."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen import fields, registry
from tilegen.artifacts import kernel_list
from tilegen.errors import TilegenError, UsageError
from tilegen.spec import KernelSpec
from tilegen.tables import lookup
from tilegen.tables.files import FOLDER

# Without --target a kernel is written for both.
DEFAULT_TARGETS = ("sm_80", "portable")

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}

Kernel = Annotated[
    Optional[str],
    typer.Argument(
        metavar="[KERNEL]",
        help="An operator (`gemm`), or a formula in quotes. Without it: every kernel of tilegen.toml.",
        show_default=False,
    ),
]
TileOption = Annotated[
    Optional[str],
    typer.Option("--tile", metavar="MxNxK", help="Block of the result and depth of a slice."),
]
StagesOption = Annotated[
    Optional[int], typer.Option("--stages", help="Slices in flight in shared memory.")
]
DtypeOption = Annotated[
    Optional[str],
    typer.Option("--dtype", help="Element type of the inputs: f16, bf16, f32, f64, ..."),
]
LayoutOption = Annotated[
    Optional[str],
    typer.Option("--layout", help="tn is x @ w.T (default), tt is x @ w; nn and nt transpose A."),
]
EpilogueOption = Annotated[
    Optional[str],
    typer.Option("--epilogue", help="A name (bias_gelu) or a formula: 'gelu(acc + bias[n])'."),
]
TargetOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--target",
        "-t",
        help="sm_80, sm_90a, x86-64-v4, ... Repeatable. Default: sm_80 and portable C.",
    ),
]
SetOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--set", "-s", metavar="FIELD=VALUE", help="Any other field; --FIELD VALUE does too."
    ),
]
GlobOption = Annotated[
    str,
    typer.Option("--kernels", metavar="GLOB", help="Only kernels of the list whose name matches."),
]
JobsOption = Annotated[
    Optional[int],
    typer.Option(
        "--jobs", min=1, help="Kernels at once. Default: as many as processors.", show_default=False
    ),
]


def given_fields(
    context: typer.Context,
    tile: str | None,
    stages: int | None,
    dtype: str | None,
    layout: str | None,
    epilogue: str | None,
    assignments: list[str] | None,
) -> dict[str, str]:
    """Field texts by name, from named options, `--set` and unknown `--field value` pairs.

    Raises:
        UsageError: a malformed `--set`, a word that is no flag, or a field given twice.
    """
    named = {"tile": tile, "stages": stages, "dtype": dtype, "layout": layout, "epilogue": epilogue}
    given = {name: str(value) for name, value in named.items() if value is not None}
    pairs = []
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text} is not FIELD=VALUE")
        pairs.append((name, value))
    words = list(context.args)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"unexpected argument '{word}'", "See --help.")
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        pairs.append((name, value))
    for name, value in pairs:
        name = name.replace("-", "_")
        if name in given:
            raise UsageError(f"{fields.flag(name)} is given twice")
        given[name] = value
    return given


def take_sizes(given: dict[str, str]) -> tuple[dict[str, int], dict[str, str]]:
    """Split sizes from fields: `--m 100`, any single letter, and the longer names that problems use.

    Raises:
        UsageError: a size that is not a number.
    """
    longer = ("batch", "heads", "kv_heads", "seq_q", "seq_k")
    sizes = {name: value for name, value in given.items() if len(name) == 1 or name in longer}
    for name, value in sizes.items():
        if not value.isdigit():
            raise UsageError(f"{fields.flag(name)} {value} is not a size")
    rest = {name: value for name, value in given.items() if name not in sizes}
    return {name: int(value) for name, value in sizes.items()}, rest


def with_sizes(given: dict[str, str]) -> dict[str, str]:
    """The options with sizes such as `--m 64 --n 4096 --k 4096` gathered under `at`.

    Raises:
        UsageError: sizes in both forms, or one that is not a number.
    """
    sizes, rest = take_sizes(given)
    if not sizes:
        return rest
    if "at" in rest:
        raise UsageError(f"--at and {fields.flag(next(iter(sizes)))} both give sizes")
    return rest | {"at": ",".join(f"{name}={value}" for name, value in sizes.items())}


def specs(
    kernel: str | None, targets: list[str] | None, given: dict[str, str], glob: str
) -> list[KernelSpec]:
    """The kernels that a command line means.

    With a kernel and no target, an option applies to those of the default targets whose schedule has
    it, and at least one must. Without a kernel, the list in tilegen.toml.

    Raises:
        UsageError, FormulaError, IllegalSchedule: with what to change.
    """
    if kernel is None:
        if given or targets:
            flag = fields.flag(next(iter(given), "target"))
            raise UsageError(
                f"{flag} needs a kernel", "Name one: tilegen emit gemm " + flag + " ..."
            )
        listed = kernel_list.read(kernel_list.find())
        note(listed.notes)
        return list(listed.specs) if glob == "*" else listed.select(glob)
    if glob != "*":
        raise UsageError(
            f"--kernels {glob} picks from tilegen.toml, and {kernel} is named",
            "Leave one of them out.",
        )
    operator, more = registry.operator_of(kernel)
    given = {**more, **given}
    if targets:
        return [_resolved(operator, name, given) for name in targets]
    sized = with_sizes(given)
    if "tuned" in sized or "at" in sized:
        word = "--tuned" if "tuned" in sized else "a size"
        raise UsageError(f"{word} needs --target", "A schedule is chosen for one target.")
    return _twins(operator, given)


def _resolved(operator: str, target_name: str, given: dict[str, str]) -> KernelSpec:
    """A kernel whose sizes are answered by the model, or by a device's table: `--tuned`, or the project's."""
    given = with_sizes(given)
    devices = kernel_list.devices()
    found = lookup.resolve(operator, target_name, given, tables_folder(), devices)
    note([*found.notes, *filter(None, [found.source])])
    return KernelSpec.make(operator, target_name, found.options)


def note(lines: Sequence[str]) -> None:
    """Tell something on standard error that stops nothing."""
    for line in lines:
        sys.stderr.write(f"note: {line}\n")


def tables_folder() -> Path:
    """Where tuning tables lie: beside the project's list, else here."""
    try:
        return kernel_list.find().parent / FOLDER
    except UsageError:
        return Path(FOLDER)


def _twins(operator: str, given: dict[str, str]) -> list[KernelSpec]:
    made, errors, used = [], [], set()
    for name in DEFAULT_TARGETS:
        try:
            known = registry.known_options(operator, name, given)
            own = {k: v for k, v in given.items() if k in known}
            made.append(KernelSpec.make(operator, name, own))
            used |= set(own)
        except TilegenError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    for field in given:
        if field not in used:
            # No twin has it: let the first say which fields there are.
            KernelSpec.make(operator, DEFAULT_TARGETS[0], {field: given[field]})
    return made


def require_outside(folder: Path) -> None:
    """Raise UsageError for the project's folder of listed kernels, where anything else is an orphan."""
    try:
        listed = kernel_list.read(kernel_list.find()).out
    except UsageError:
        return
    if folder.resolve() == listed.resolve():
        raise UsageError(
            f"{folder} holds the kernels that tilegen.toml lists, and `tilegen emit --prune` removes others",
            "Name another folder: -o third_party/kernels",
        )


def project_out(given: Path | None) -> Path:
    """The output folder: `-o`, else the project's, else `generated` here."""
    if given is not None:
        return given
    try:
        return kernel_list.read(kernel_list.find()).out
    except UsageError:
        return Path("generated")
