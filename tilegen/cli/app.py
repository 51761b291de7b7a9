"""The typer application and its error boundary: one message, one exit code, no traceback."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from tilegen.cli import (
    bench,
    build,
    check,
    dispatch,
    doctor,
    emit,
    listing,
    options,
    plan,
    simulate,
    tune,
)
from tilegen.cli import verify
from tilegen.cli.console import err
from tilegen.errors import TilegenError

HELP = """Write tiled GPU and CPU kernels as source a person would have written.

Start with `tilegen emit gemm --tile 128x128x32 --verify`: it writes an sm_80 kernel and its OpenMP twin,
builds them, runs what this machine can run, and prints the largest error.

Exit codes: 0 done, 1 drift or a failed check, 2 usage, 3 a fault of tilegen or of a template, 4 a tool is
missing, 130 stopped by Ctrl-C."""

# Commands in the order of the help; those with `EXTRA` take any field as a flag.
COMMANDS = (
    ("emit", emit.emit, options.EXTRA),
    ("check", check.check, None),
    ("dispatch", dispatch.dispatch, options.EXTRA),
    ("plan", plan.plan, options.EXTRA),
    ("verify", verify.verify, options.EXTRA),
    ("simulate", simulate.simulate, options.EXTRA),
    ("bench", bench.bench, options.EXTRA),
    ("tune", tune.tune, options.EXTRA),
    ("build", build.build, options.EXTRA),
    ("list", listing.list_kernels, None),
    ("fields", listing.show_fields, None),
    ("doctor", doctor.doctor, None),
)


def make_app() -> typer.Typer:
    """The application with every command."""
    app = typer.Typer(
        name="tilegen",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=HELP,
    )
    for name, function, settings in COMMANDS:
        app.command(name, context_settings=settings)(function)
    return app


def _is_usage(error: Exception) -> bool:
    """Whether the parser raised it; typer brings its own click, so the class is known by name."""
    return any(cls.__name__ == "ClickException" for cls in type(error).__mro__)


def main() -> None:
    """Entry point of the `tilegen` command."""
    try:
        status = make_app()(standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except TilegenError as error:
        err(error)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.stderr.write("stopped\n")
        sys.exit(130)
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if _is_usage(error):
            error.show()
            sys.exit(2)
        if os.environ.get("TILEGEN_DEBUG"):
            traceback.print_exc()
        sys.stderr.write(
            f"error: a fault of tilegen: {type(error).__name__}: {error}\n"
            "  Run again with TILEGEN_DEBUG=1 for the traceback, and please report it.\n"
        )
        sys.exit(3)
