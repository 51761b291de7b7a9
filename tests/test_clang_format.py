"""Emitted text is a fixed point of the pinned clang-format: a check, never a step of emission."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(p for p in (ROOT / "generated").rglob("*") if p.suffix in (".cu", ".c", ".h"))


def clang_format() -> str | None:
    beside = Path(sysconfig.get_path("scripts")) / "clang-format"
    return str(beside) if beside.exists() else shutil.which("clang-format")


def test_there_are_files():
    assert FILES


@pytest.mark.skipif(clang_format() is None, reason="clang-format is not installed")
def test_generated_files_are_formatted():
    ran = subprocess.run(
        [
            clang_format(),
            f"--style=file:{ROOT / '.clang-format'}",
            "--dry-run",
            "--Werror",
            *map(str, FILES),
        ],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
