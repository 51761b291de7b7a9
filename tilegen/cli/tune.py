"""`tilegen tune`."""

from __future__ import annotations

import contextlib
import math
import signal
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.progress import Progress

from tilegen.bench.peers import require_known
from tilegen.bench.suites import BenchCase
from tilegen.cli import options as opt
from tilegen.cli.cases import require_here, suite, target_here
from tilegen.cli.console import out, progress
from tilegen.errors import UsageError
from tilegen.fields import flag
from tilegen.shared_files import require_writable, require_writable_file
from tilegen.tables import report
from tilegen.tables.page import page as tables_page
from tilegen.tune import device
from tilegen.tune.executors import places
from tilegen.tune.refresh import cases as recorded_cases
from tilegen.tune.report import report as measured
from tilegen.tune.search import Budget, Tell
from tilegen.tune.search import Progress as SearchProgress
from tilegen.tune.strategy import require as require_strategy
from tilegen.tune.trial import Rules
from tilegen.tune.cases import Settings, Tuned
from tilegen.tune.tuner import Tuner


def tune(
    context: typer.Context,
    kernel: Annotated[
        Optional[str],
        typer.Argument(metavar="[KERNEL|SUITE]", help="An operator with --at, or a suite's file."),
    ] = None,
    at: Annotated[
        Optional[str], typer.Option("--at", help="Sizes, as m=512,n=4096,k=4096.")
    ] = None,
    target: Annotated[
        str, typer.Option("--target", "-t", help="Where; c_openmp: the best for this CPU.")
    ] = "c_openmp",
    budget: Annotated[
        str, typer.Option("--budget", help="Of each case: trials (40), or minutes (5m).")
    ] = "40",
    threads: Annotated[int, typer.Option("--threads", min=1, help="CPU threads.")] = 1,
    peers: Annotated[
        Optional[str], typer.Option("--peers", help="Comma-separated; 'none' for none.")
    ] = None,
    folder: Annotated[
        Optional[Path],
        typer.Option("--tables", help="Folder of the tables; default: the project's."),
    ] = None,
    portfolio: Annotated[
        int,
        typer.Option(
            "--portfolio",
            min=0,
            help="Kernels to try over all sizes of a problem; default: each size's own. With --refresh, also "
            "new ones that would serve many sizes.",
        ),
    ] = 0,
    everywhere: Annotated[
        int,
        typer.Option(
            "--everywhere",
            min=0,
            help="Kernels to time at every size of their problem, for few to be chosen from; default: where "
            "they are expected near.",
        ),
    ] = 0,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            help="What is tried next where no model ranks the space: neighbours of the best, or optuna's choice.",
        ),
    ] = "neighbours",
    seed: Annotated[int, typer.Option("--seed", help="Of the random sample.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Compilers at once.")] = 0,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds an answer of a candidate may take.")
    ] = 60.0,
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="A Dask cluster, as tcp://host:8786.")
    ] = "",
    groups: Annotated[
        str, typer.Option("--groups", help="Comma-separated groups of the suite: 'large,few*'.")
    ] = "",
    save: Annotated[
        Optional[Path],
        typer.Option("--save", help="Write the confirming runs, peers included, as bench does."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also cases with a fresh row.")] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Search nothing: time what the rows recorded again, of a suite or of the whole device.",
        ),
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Only print the tables and their geometric means.")
    ] = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Only count the rows whose kernels have changed since; exits with 1 if there are any.",
        ),
    ] = False,
    page: Annotated[
        Optional[Path],
        typer.Option("--page", help="Only write a Markdown page of the tables."),
    ] = None,
) -> int:
    """Search the best schedule of a problem at one size, or of every case of a suite, into a table.

    Every candidate is compiled, verified against float64 and timed beside the default schedule, each in a
    process that is killed when it hangs. Ctrl-C keeps what was measured; the same command goes on.

    - `tilegen tune gemm --dtype f32 --at m=512,n=512,k=512 --budget 20`
    - `tilegen tune benchmarks/suites/gemm_cpu.toml --budget 5m`
    - `tilegen tune --refresh`: stale rows alone, a few seconds each
    - `tilegen tune --stale`: how many are, for CI
    - `tilegen tune --show`, and `--page docs/tables.md` for people
    """
    tables = folder or opt.tables_folder()
    if show:
        out.print(report.text(tables))
        return 0
    if stale:
        told, count = report.stale(tables)
        out.print(told)
        return 1 if count else 0
    if page is not None:
        require_writable_file(page, "--page")
        page.write_text(tables_page(tables), encoding="utf-8", newline="\n")
        out.print(f"wrote {page}")
        return 0
    where = target_here(target)
    if not scheduler:
        require_here(where, threads)
    every = refresh and kernel is None
    cases, only = [], ""
    if not every:
        if kernel is None:
            raise UsageError(
                "nothing to tune", "Name an operator with sizes, or a suite, or --refresh."
            )
        found = suite(context, kernel, at, where, [g for g in groups.split(",") if g])
        cases = list(found.cases)
        if not kernel.endswith(".toml"):
            cases, only = [cases[0].without("schedule")], cases[0].options.get("schedule", "")
            for name in cases[0].of_schedule(cases[0].spec(where).problem):
                raise UsageError(
                    f"{flag(name)} is a schedule's, and those are what is searched",
                    "Leave it out; --schedule NAME searches one class of schedules.",
                )
    for case in cases:
        empty = [f"{name}=0" for name, extent in case.sizes.items() if extent == 0]
        if empty:
            raise UsageError(f"{case.label()}: nothing to time at {', '.join(empty)}")
    wanted = None if peers is None else [p for p in peers.split(",") if p and p != "none"]
    require_known(where.backend, wanted or ())
    limit = _budget(budget)
    require_writable(tables, "--tables")
    if save is not None:
        require_writable_file(save, "--save")
    require_strategy(strategy)
    where_run = places(scheduler, jobs, where.backend == "cuda")
    key = where_run.timers.submit(device.device_key, where).result()
    on_cpu = where.backend == "c_openmp"
    # Rounds on a GPU are alike within a tenth of a per cent.
    rounds, seconds = (4, 0.04) if on_cpu else (3, 0.002)
    rules = Rules(key, threads if on_cpu else 0, rounds, seconds, timeout)
    known = dict(again=again, portfolio=portfolio, refresh=refresh)
    known |= dict(strategy=strategy, everywhere=everywhere)
    settings = Settings(where, tables, limit, rules, wanted, seed, only, **known)
    if every:
        cases = recorded_cases(tables, key, where, rules.threads)
    # A stop from outside ends a search as Ctrl-C does, with its workers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tuner = Tuner(settings, where_run)
    try:
        with progress("tuning") as bar:
            done = tuner.run(cases, _Bars(bar, len(cases)).tell)
        for tuned in done:
            _print(tuned)
        for case, why in tuner.failed:
            out.print(f"{case.label()}: not tuned: {why}")
    except KeyboardInterrupt:
        for tuned in tuner.done:
            _print(tuned)
        out.print("stopped; what was measured is kept, and the same command goes on from there")
        return 130
    finally:
        if save is not None and tuner.done:
            measured(Path(kernel or "").stem, tuner.done).save(save)
            out.print(f"saved {save}")
        with contextlib.suppress(Exception):
            where_run.close()
    out.print(f"tables: {tables / key}")
    return 1 if tuner.failed else 0


def _budget(text: str) -> Budget:
    number, minutes = text.removesuffix("m"), text.endswith("m")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 < value < math.inf or (not minutes and not value.is_integer()):
        raise UsageError(f"--budget {text} is neither trials nor minutes", "Examples: 40, 5m, 0.5m")
    return Budget(seconds=60 * value) if minutes else Budget(trials=int(value))


class _Bars:
    """A bar of the cases, where there are several, and one of the trials of the case that is searched."""

    def __init__(self, bar: Progress, cases: int) -> None:
        self._bar, self._case, self._trials = bar, None, None
        self._seen: set[int] = set()
        self._cases = bar.add_task("cases", total=cases) if cases > 1 else None

    def tell(self, case: BenchCase) -> Tell:
        """What is told of the trials of one case."""

        def of_case(state: SearchProgress) -> None:
            if self._case is not case:
                self._next(case)
            best = f"best {state.best:.3f}, {case.label()}: {state.schedule}"
            self._bar.update(
                self._trials, total=state.total, completed=state.done, description=best
            )

        return of_case

    def _next(self, case: BenchCase) -> None:
        if self._trials is not None:
            self._bar.remove_task(self._trials)
        self._case, self._trials = case, self._bar.add_task(case.label(), total=None)
        if self._cases is not None:
            self._bar.update(self._cases, completed=len(self._seen))
        self._seen.add(id(case))


def _print(tuned: Tuned) -> None:
    row = tuned.row
    sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
    operator = "" if "formula=" in row.problem else tuned.search.problem.operator
    words = " ".join(filter(None, [operator, row.problem, sizes]))
    out.print(f"{words}: {row.schedule}")
    if tuned.kept:
        out.print("  in the table already (--again measures it again)")
        return
    peers = ", ".join(f"{name} {ratio:.3f}" for name, ratio in row.peers.items()) or "none timed"
    of_peak = f"{row.peak:.0%} of the peak; " if row.peak is not None else ""
    out.print(
        f"  {row.speedup:.3f} of the default (noise {row.noise:.1%}); {of_peak}peers: {peers}"
    )
    out.print(f"  {row.trials}; verified: {row.verified}")
    for line in tuned.why_failed():
        out.print(f"  {line}")
    for note in tuned.notes:
        out.print(f"  note: {note}")
