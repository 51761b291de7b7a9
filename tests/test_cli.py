"""The command line: what a user types, and what comes back for bad input."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest

from tests.conftest import ROOT


def test_emit_writes_source_and_header(tilegen, tmp_path):
    ran = tilegen("emit", "gemm", "--dtype", "f32", "--target", "sm_75")
    assert ran.status == 0
    written = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*"))
    assert written == [
        "generated/cuda/gemm_f32_tn_128x128x16_sm75.cu",
        "generated/cuda/gemm_f32_tn_128x128x16_sm75.h",
    ]
    first = (tmp_path / written[0]).read_text().splitlines()[0]
    assert first == "// tilegen emit gemm --target sm_75 --dtype f32"


def test_first_line_reproduces_the_file(tilegen, tmp_path):
    formula = "gelu(alpha * acc + bias[n]) + residual[m,n]"
    ran = tilegen("emit", "gemm", "--dtype", "f32", "--target", "sm_75", "--epilogue", formula)
    assert ran.status == 0
    path = next(tmp_path.rglob("*.cu"))
    text = path.read_text()
    words = shlex.split(text.splitlines()[0].removeprefix("// "))
    assert words[0] == "tilegen"
    assert tilegen(*words[1:], "-o", "again").status == 0
    assert (tmp_path / "again" / "cuda" / path.name).read_text() == text


def test_out_names_the_results_that_a_formula_keeps(tilegen, tmp_path):
    """A word of the formula, not a folder: h is computed on the way, and stored too."""
    formula = "h[m,n] = x[m,n] + r[m,n]; y[m,n] = h * rsqrt(mean(h*h, n) + eps) * w[n]"
    words = ["emit", formula, "--dtype", "bf16", "--target", "sm_80", "--stdout"]
    both, last = tilegen(*words, "--out", "h,y"), tilegen(*words, "--out", "y")
    assert (both.status, last.status) == (0, 0)
    assert "__nv_bfloat16 *h;" in both.out and "__nv_bfloat16 *h;" not in last.out
    assert not list(tmp_path.iterdir())


def test_emit_stdout_prints_only_the_source(tilegen, tmp_path):
    ran = tilegen("emit", "gemm", "--dtype", "f32", "--target", "sm_75", "--stdout")
    assert ran.status == 0
    assert ran.out.startswith("// tilegen emit gemm") and ran.out.endswith("DEVICE_ONLY\n")
    assert not list(tmp_path.iterdir())


def test_any_field_is_a_flag(tilegen):
    ran = tilegen(
        "emit", "gemm", "--dtype", "f32", "-t", "sm_75", "--thread-tile", "4x8", "--stdout"
    )
    assert ran.status == 0 and "kThreadM = 4, kThreadN = 8" in ran.out
    ran = tilegen("emit", "gemm", "--dtype", "f32", "-t", "sm_75", "--set", "group=4", "--stdout")
    assert ran.status == 0 and "kGroupM = 4" in ran.out


BAD = [
    (["emit", "gem"], "unknown operator 'gem' (did you mean 'gemm'?)"),
    (["emit", "gemm", "--tile", "128x"], "'128x' is not a tile"),
    (["emit", "gemm", "--dtype", "f23", "-t", "sm_75"], "unknown dtype 'f23'"),
    (["emit", "gemm", "--layout", "xx"], "unknown layout 'xx'"),
    (["emit", "gemm", "-t", "sm_42"], "unknown target 'sm_42'"),
    (["emit", "gemm", "--epilogue", "gelu(acc"], "^"),
    (["emit", "gemm", "--epilogue", "acc + bias[q]"], "'q'"),
    (["emit", "gemm", "--epilogue", "if acc > 0: acc"], "^"),
    (["emit", "gemm", "--epilogue", "bias_geul"], "did you mean 'bias_gelu'"),
    (["emit", "gemm", "--epilogue", "acc + stream"], "'stream' names an argument of the gemm"),
    (["emit", "gemm", "--epilogue", "acc * switch"], "'switch' cannot be a name in C"),
    (["emit", "gemm", "--epilogue", "bias[n] + 1"], "does not mention acc"),
    (["emit", "gemm", "--operands", "bais:f32", "--epilogue", "bias"], "no operand 'bais'"),
    (["emit", "gemm", "--set", "tile"], "--set tile is not FIELD=VALUE"),
    (["emit", "gemm", "--tille", "64x64x32"], "did you mean '--tile'"),
    (["emit", "gemm", "--dtype", "f32", "-t", "sm_75", "--stages", "3"], "no option --stages"),
    (["emit", "gemm", "--tile", "64x64x32", "--set", "tile=64x64x32"], "--tile is given twice"),
    (["emit", "--tile", "64x64x32"], "--tile needs a kernel"),
    (["emit"], "no tilegen.toml here"),
    (["check"], "no tilegen.toml here"),
    (["build", "gemm", "--kernels", "gemm*"], "picks from tilegen.toml, and gemm is named"),
    (["verify", "--seeds", "0", "gemm"], "--seeds"),
    (["frobnicate"], "frobnicate"),
]


@pytest.mark.parametrize(
    "words, message", BAD, ids=lambda v: " ".join(v) if type(v) is list else ""
)
def test_bad_usage_is_one_message_and_exit_code_2(tilegen, tmp_path, words, message):
    ran = tilegen(*words)
    assert ran.status == 2, ran.err
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert not list(tmp_path.rglob("*.cu"))


def test_illegal_schedule_gives_numbers_and_legal_values(tilegen):
    ran = tilegen("emit", "gemm", "--dtype", "f32", "-t", "sm_75", "--tile", "256x256x64")
    assert ran.status == 2
    assert "tile 256x256x64 needs 266240 bytes" in ran.err and "49152" in ran.err
    legal = ran.err.split("Legal: ")[1].split(",")[0].split()
    assert tilegen("emit", "gemm", "--dtype", "f32", "-t", "sm_75", *legal, "--stdout").status == 0


def test_unwritable_folder(tilegen, tmp_path):
    (tmp_path / "file").write_text("")
    ran = tilegen("emit", "gemm", "--dtype", "f32", "-t", "sm_75", "-o", "file/below")
    assert ran.status == 2 and "cannot write below" in ran.err


def test_help_needs_no_project(tilegen):
    for command in ("emit", "check", "plan", "list", "build", "verify", "doctor", "fields"):
        ran = tilegen(command, "--help")
        assert ran.status == 0 and "Usage" in ran.out


def test_plan_explains_numbers(tilegen):
    ran = tilegen("plan", "gemm", "--dtype", "f32", "-t", "sm_75", "--json")
    facts = {f["name"]: f for f in json.loads(ran.out)[0]["facts"]}
    assert facts["shared memory"]["value"] == "33792 bytes"
    assert "65536" in facts["shared memory"]["why"]
    assert facts["threads"]["value"] == "256"


@pytest.mark.parametrize(
    ("l2", "words"),
    [
        ("65536", "packed 2400x"),
        ("here", "packed 2400x"),
        ("12", "65536 at least"),
        ("2M", "bytes"),
    ],
)
def test_plan_ranks_for_the_cache_that_is_given(tilegen, l2, words):
    sizes = ["--m", "512", "--n", "512", "--k", "512"]
    ran = tilegen("plan", "gemm", "--dtype", "f32", "-t", "x86-64-v4", *sizes, "--l2", l2)
    assert ran.status == (0 if words.startswith("packed") else 2) and words in ran.out + ran.err


def test_plan_takes_a_cache_only_for_a_ranking_on_a_cpu(tilegen):
    assert "Give sizes" in tilegen("plan", "gemm", "-t", "x86-64-v4", "--l2", "here").err
    sizes = ["--m", "64", "--n", "64", "--k", "64"]
    assert "not sm_80" in tilegen("plan", "gemm", "-t", "sm_80", *sizes, "--l2", "here").err


def test_fields_lists_every_option(tilegen):
    ran = tilegen("fields", "gemm")
    assert ran.status == 0 and "--thread-tile" in ran.out and "--epilogue" in ran.out


def test_missing_nvcc_lists_where_it_looked(tmp_path):
    """M05: one line names what was searched, and what to install."""
    env = {**os.environ, "PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "cuda")}
    env["TILEGEN_CACHE_DIR"] = str(tmp_path / "cache")
    env["PYTHONPATH"] = str(ROOT)
    script = (
        "import tilegen.toolchain.find as f; f._wheel_roots = lambda: []\n"
        "real = f.os.path.isfile\n"
        "f.os.path.isfile = lambda p: real(p) and (p[-4:] != 'nvcc' or p.startswith(%r))\n"
        "import sys; sys.argv = ['tilegen', 'build', 'gemm', '--dtype', 'f32', '-t', 'sm_75']\n"
        "from tilegen.cli import main; main()" % str(tmp_path)
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 4, ran.stderr
    assert "no nvcc" in ran.stderr and str(tmp_path / "cuda") in ran.stderr
    assert "pip install 'tilegen[nvcc]'" in ran.stderr


def test_a_target_that_computes_it_is_named_where_one_does_not(tilegen):
    ran = tilegen("emit", "grouped_gemm", "-t", "x86-64-v4")
    assert ran.status == 2 and "Targets that do: sm_90a" in ran.err


def test_what_the_readme_shows_is_what_the_command_prints(tilegen):
    lines = (ROOT / "README.md").read_text().splitlines()
    shown = [n for n, line in enumerate(lines) if line.startswith("$ tilegen ")]
    assert len(shown) > 1
    for number in shown:
        ran = tilegen(*shlex.split(lines[number])[2:])
        assert (ran.status, ran.out) == (0, lines[number + 1] + "\n")
