"""The command line: parse, call, print. No logic lives here."""

from tilegen.cli.app import main

__all__ = ["main"]
