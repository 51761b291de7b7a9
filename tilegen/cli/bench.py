"""`tilegen bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tilegen.bench import table
from tilegen.bench.page import page as results_page
from tilegen.bench.run import run_cpu, run_gpu, run_split
from tilegen.bench.samples import Report, load
from tilegen.cli import options as opt
from tilegen.cli.cases import require_here, suite, target_here
from tilegen.cli.console import out, progress
from tilegen.errors import UsageError
from tilegen.shared_files import require_writable_file

# Sizes of an operator that is named without any.
SWEEP = (256, 512, 1024, 2048)


def bench(
    context: typer.Context,
    kernel: Annotated[
        Optional[str],
        typer.Argument(
            metavar="[KERNEL|SUITE]",
            help="An operator, or a suite, such as benchmarks/suites/gemm_cpu.toml.",
        ),
    ] = None,
    at: Annotated[
        Optional[str],
        typer.Option("--at", help="Sizes of an operator, as m=512,n=4096,k=4096."),
    ] = None,
    target: Annotated[
        str,
        typer.Option("--target", "-t", help="Where ours runs; c_openmp: the best for this CPU."),
    ] = "c_openmp",
    threads: Annotated[int, typer.Option("--threads", min=1, help="CPU threads of everyone.")] = 1,
    rounds: Annotated[
        int, typer.Option("--rounds", min=3, help="Interleaved rounds or pairs.")
    ] = 11,
    peers: Annotated[str, typer.Option("--peers", help="Comma-separated; default: all.")] = "",
    groups: Annotated[
        str, typer.Option("--groups", help="Comma-separated groups of the suite: 'large,few*'.")
    ] = "",
    tuned: Annotated[
        str, typer.Option("--tuned", help="Take schedules from this device's table, not the model.")
    ] = "",
    save: Annotated[
        Optional[Path],
        typer.Option(
            "--save", help="Write raw samples as JSON; a stopped run leaves FILE.partial."
        ),
    ] = None,
    against: Annotated[
        Optional[Path], typer.Option("--against", help="Compare with an earlier JSON.")
    ] = None,
    show: Annotated[
        Optional[Path], typer.Option("--show", help="Only print the table of a saved JSON.")
    ] = None,
    split: Annotated[
        bool,
        typer.Option("--split", help="Time fused kernels beside their splits instead of peers."),
    ] = False,
    page: Annotated[
        Optional[Path],
        typer.Option("--page", help="Write a Markdown page of all results in benchmarks/results."),
    ] = None,
    chart: Annotated[
        Optional[Path], typer.Option("--chart", help="Write a PNG of ratios and of the roofline.")
    ] = None,
) -> int:
    """Time a suite beside its peers, interleaved in one run, and print ratios peer / ours (above 1: ours faster).

    Where a case names no schedule, the model chooses one for its sizes, or with `--tuned` the device's table.
    With `--against`, says of each case whether it is the same, faster, slower or unclear beyond the noise, and
    exits with 1 if one is slower. With `--split`, the peers are the same formula in two or more kernels.

    - `tilegen bench gemm --dtype f32`: squares of 256 to 2048
    - `tilegen bench softmax --target sm_90a --dtype bf16 --m 32768 --n 4096`
    - `tilegen bench benchmarks/suites/gemm_cpu.toml --groups 'few*' --save now.json`
    """
    if page is not None:
        require_writable_file(page, "--page")
        page.write_text(results_page(Path("benchmarks/results")), encoding="utf-8", newline="\n")
        out.print(f"wrote {page}")
        return 0
    # Before anything is timed: a run of minutes must not end with a file that is not there or cannot be written.
    earlier = load(against) if against is not None else None
    for path, flag in ((save, "--save"), (chart, "--chart")):
        if path is not None:
            require_writable_file(path, flag)
    # What a run that is stopped leaves; an earlier file stays whole until the new one is.
    partial = save.with_name(f"{save.name}.partial") if save is not None else None
    if show is not None:
        report = load(show)
    elif kernel is None:
        raise UsageError(
            "nothing to time", "Name an operator, or a suite, or --show a saved result."
        )
    else:
        where = target_here(target)
        require_here(where, threads)
        # What other libraries are good at on a CPU.
        defaults = {"dtype": "f32"} if where.backend == "c_openmp" else {}
        chosen = [g for g in groups.split(",") if g]
        cases = suite(context, kernel, at, where, chosen, SWEEP, defaults)
        wanted = [p for p in peers.split(",") if p]
        tables = opt.tables_folder()
        with progress(cases.name) as bar:
            task = bar.add_task("", total=len(cases.cases))

            def tell(label: str) -> None:
                bar.update(task, description=label, advance=1)

            def keep(so_far: Report) -> None:
                if partial is not None:
                    so_far.save(partial)

            if split:
                report = run_split(cases, where, threads, rounds, tell, keep)
            elif where.backend == "cuda":
                report = run_gpu(cases, where, wanted, rounds, tell, tuned, tables, keep)
            else:
                report = run_cpu(cases, where, threads, wanted, rounds, tell, tuned, tables, keep)
    out.print(table.text(report))
    if split:
        out.print("\n".join(table.wins(report)))
    if save is not None:
        report.save(save)
        if partial is not None:
            partial.unlink(missing_ok=True)
        out.print(f"saved {save}")
    if chart is not None:
        from tilegen.bench.chart import draw

        draw(report, chart)
        out.print(f"saved {chart}")
    if earlier is not None:
        lines, slower = table.compare(earlier, report)
        out.print("\n".join(lines))
        return 1 if slower else 0
    return 0
