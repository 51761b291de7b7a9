"""Drift of generated files: the six words of `check`, what mends each, and what is never lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

ONE = '[[kernel]]\noperator = "gemm"\ntarget = "sm_75"\ndtype = "f32"\n'
TWO = ONE + '\n[[kernel]]\noperator = "gemm"\ntarget = "sm_75"\ndtype = "f32"\nlayout = "tt"\n'
STEM = "gemm_f32_tn_128x128x16_sm75"


def statuses(ran):
    return {f["path"]: f["status"] for f in json.loads(ran.out)["files"]}


def test_fresh_after_emit(tilegen, project):
    project(TWO)
    assert tilegen("emit").status == 0
    ran = tilegen("check", "--json")
    assert ran.status == 0 and set(statuses(ran).values()) == {"fresh"}


def test_missing(tilegen, project, tmp_path):
    project(ONE)
    tilegen("emit")
    (tmp_path / f"generated/cuda/{STEM}.h").unlink()
    ran = tilegen("check")
    assert ran.status == 1 and f"{STEM}.h: missing" in ran.out and "tilegen emit" in ran.out


def test_edited_is_told_and_never_overwritten(tilegen, project, tmp_path):
    project(ONE)
    tilegen("emit")
    path = tmp_path / f"generated/cuda/{STEM}.cu"
    path.write_text(path.read_text().replace("int half = 0;", "int half = 0;  // mine"))
    ran = tilegen("check", "--diff")
    assert ran.status == 1 and "edited" in ran.out and "-    int half = 0;  // mine" in ran.out
    ran = tilegen("emit")
    assert ran.status == 1 and "edited by hand" in ran.err and "// mine" in path.read_text()
    assert tilegen("emit", "--force").status == 0
    assert tilegen("check").status == 0


def test_stale_after_the_list_changes_style(tilegen, project):
    project(ONE)
    tilegen("emit")
    project('[project]\nlicense = "Apache-2.0"\n' + ONE)
    ran = tilegen("check", "--json")
    assert ran.status == 1 and statuses(ran)[f"cuda/{STEM}.cu"] == "stale"
    assert tilegen("emit").status == 0 and tilegen("check").status == 0


def test_orphan_and_prune(tilegen, project, tmp_path):
    project(TWO)
    tilegen("emit")
    project(ONE)
    ran = tilegen("check", "--json")
    orphan = "cuda/gemm_f32_tt_128x128x16_sm75.cu"
    assert ran.status == 1 and statuses(ran)[orphan] == "orphan"
    mine = tmp_path / "generated/cuda/mine.cu"
    mine.write_text("// hand-written\n")
    assert tilegen("emit", "--prune").status == 0
    assert not (tmp_path / "generated" / orphan).exists() and mine.exists()
    assert tilegen("check").status == 0


def test_duplicate(tilegen, project):
    project(ONE + ONE.replace('"f32"', '"f32"\nepilogue = "none"'))
    ran = tilegen("check")
    assert ran.status == 2 and "listed twice" in ran.err


def test_file_in_the_way(tilegen, tmp_path):
    path = tmp_path / f"generated/cuda/{STEM}.cu"
    path.parent.mkdir(parents=True)
    path.write_text("not yours\n")
    ran = tilegen("emit", "gemm", "--dtype", "f32", "-t", "sm_75")
    assert ran.status == 1 and "tilegen did not write it" in ran.err
    assert path.read_text() == "not yours\n"
    assert not (path.parent / f"{STEM}.h").exists()


def test_emit_alone_is_quiet_about_what_is_there(tilegen, project):
    project(ONE)
    tilegen("emit")
    ran = tilegen("emit")
    assert "0 of" in ran.out and ran.status == 0


def test_add_appends_to_the_list(tilegen, project):
    path = project("# my kernels\n" + ONE)
    ran = tilegen("emit", "gemm", "--dtype", "f64", "-t", "sm_80", "--epilogue", "acc * 2", "--add")
    assert ran.status == 0 and path.read_text().startswith("# my kernels\n")
    tilegen("emit", "gemm", "--dtype", "f64", "-t", "sm_80", "--epilogue", "acc * 2", "--add")
    assert path.read_text().count("[[kernel]]") == 2
    assert tilegen("emit").status == 0 and tilegen("check").status == 0


@pytest.mark.parametrize(
    "text, message",
    [
        ("[[kernel]\n", "is not valid TOML"),
        ("[[kernel]]\ntarget = 'sm_80'\n", "kernel 1 names no operator"),
        (ONE + ONE.replace("f32", "f99"), "kernel 2 (gemm, sm_75): --dtype: unknown dtype 'f99'"),
        ("[projct]\n", "did you mean 'project'"),
        ("[project]\nprefx = 'a'\n", "did you mean 'prefix'"),
        (ONE.replace("dtype", "dtpe"), "did you mean '--dtype'"),
    ],
)
def test_broken_list(tilegen, project, text, message):
    project(text)
    for command in ("emit", "check", "list"):
        ran = tilegen(command)
        assert ran.status == 2 and message in ran.err, ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": 1}', '{"format": 1, "kernels": [], "extra": []}']
)
def test_truncated_manifest(tilegen, project, tmp_path, text):
    project(ONE)
    tilegen("emit")
    (tmp_path / "generated/manifest.json").write_text(text)
    ran = tilegen("check")
    assert ran.status == 2 and "is damaged" in ran.err and "tilegen emit" in ran.err


def test_manifest_of_a_later_format(tilegen, project, tmp_path):
    project(ONE)
    tilegen("emit")
    (tmp_path / "generated/manifest.json").write_text('{"format": 99}')
    ran = tilegen("check")
    assert ran.status == 2 and "format 99" in ran.err


def _emit(folder, env):
    command = [sys.executable, "-m", "tilegen", "emit", "-o", str(folder)]
    subprocess.run(command, cwd=env.pop("CWD", ROOT), env=env, check=True, capture_output=True)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


def test_L13_L15_L23_J11_bytes_do_not_depend_on_the_machine(tmp_path):
    """Hash seed, working directory, locale, time and user do not show in the text."""
    base = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = _emit(tmp_path / "a", {**base, "PYTHONHASHSEED": "0"})
    second = _emit(
        tmp_path / "b",
        {**base, "PYTHONHASHSEED": "7", "LC_ALL": "de_DE.UTF-8", "CWD": ROOT / "docs"}
        | {"USER": "somebody", "SOURCE_DATE_EPOCH": "1"},
    )
    assert first and first == second
    for path, data in first.items():
        assert b"/work" not in data and str(tmp_path).encode() not in data, path


def test_generated_folder_is_fresh(tilegen, monkeypatch):
    """L17: with no formatter in sight."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", "/nonexistent")
    ran = tilegen("check")
    assert ran.status == 0, ran.out


def test_L19_L21_every_file_is_clean_and_licensed():
    for path in (ROOT / "generated").rglob("*.*"):
        text = path.read_text()
        assert text.endswith("\n") and not text.endswith("\n\n"), path
        if path.suffix in (".cu", ".c"):
            assert "SPDX-License-Identifier: MIT-0" in text
