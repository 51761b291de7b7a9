"""Fixtures that many tests share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run: what a change breaks is told from what was never right. Other ones:
# `HYPOTHESIS_PROFILE=default pytest ...`.
settings.register_profile("same", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Ran:
    """What a command line gave."""

    status: int
    out: str
    err: str


@pytest.fixture
def tilegen(capsys, monkeypatch, tmp_path):
    """Run the command line in this process, in an empty folder; returns status and both outputs."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ran:
        from tilegen.cli import main

        monkeypatch.setattr("sys.argv", ["tilegen", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return Ran(stop.value.code or 0, captured.out, captured.err)

    return run


@pytest.fixture
def project(tmp_path):
    """Write a tilegen.toml into the folder that the `tilegen` fixture runs in."""

    def write(text: str) -> Path:
        path = tmp_path / "tilegen.toml"
        path.write_text(text)
        return path

    return write


def pytest_collection_modifyitems(config, items):
    """Tests marked gpu skip, with the reason, where no GPU can be used."""
    marked = [i for i in items if i.get_closest_marker("gpu")]
    if not marked:
        return
    from tilegen.errors import ToolMissing
    from tilegen.runtime import gpu

    try:
        gpu.device_name()
    except ToolMissing as error:
        skip = pytest.mark.skip(reason=error.message.splitlines()[0])
        for item in marked:
            item.add_marker(skip)


os.environ.setdefault("NO_COLOR", "1")
