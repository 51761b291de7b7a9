"""Templates are found by every kind of install, also outside the checkout, and give the same bytes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tilegen.emit.environment import template_root
from tilegen.errors import TemplateFault

ARGUMENTS = ["emit", "gemm", "--dtype", "f32", "--target", "sm_75"]
STEM = "gemm_f32_tn_128x128x16_sm75"


def emit_with(command: list[str], folder: Path) -> str:
    ran = subprocess.run(
        [*command, *ARGUMENTS, "-o", str(folder / "out")],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return (folder / "out" / "cuda" / f"{STEM}.cu").read_text()


def test_installed_package_emits_the_checked_in_bytes(tmp_path):
    """The isolated interpreter sees no PYTHONPATH and not the working directory."""
    text = emit_with([sys.executable, "-I", "-m", "tilegen"], tmp_path)
    assert text == (ROOT / "generated" / "cuda" / f"{STEM}.cu").read_text()


def test_wheel_layout_emits_the_checked_in_bytes(tmp_path):
    """A package with its templates inside, as the wheel lays them out."""
    package = tmp_path / "site" / "tilegen"
    shutil.copytree(ROOT / "tilegen", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "templates", package / "_templates")
    script = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\nfrom tilegen.cli import main; main()"
    text = emit_with([sys.executable, "-c", script], tmp_path)
    assert text == (ROOT / "generated" / "cuda" / f"{STEM}.cu").read_text()


def test_missing_templates_name_the_places(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEGEN_TEMPLATES", str(tmp_path))
    monkeypatch.setattr("tilegen.emit.environment.resources.files", lambda _: tmp_path / "tilegen")
    with pytest.raises(TemplateFault) as error:
        template_root()
    assert str(tmp_path) in str(error.value) and "_templates" in str(error.value)
